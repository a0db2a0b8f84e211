"""What experts cost on each path, as tables over token counts and widths of weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from moeopt.core.envelope import MAX_NUMBER
from moeopt.core.errors import InputError
from moeopt.sim.costs.quanta import NS_PER_S, to_quanta
from moeopt.sim.costs.step import Path, StepCosts
from moeopt.sim.models.model_shape import ModelShape

UNAVAILABLE_NS = MAX_NUMBER
"""Stands where the machine lacks what a path needs; `CostTable.missing` says what."""

Integers = NDArray[np.int64]

PATHS: tuple[Path, ...] = get_args(Path)


@dataclass(frozen=True)
class CostTable:
    """Path costs in ns by width of the weights and tokens, and times of moving weights.

    Attributes
    ----------
    path_ns
        Path name -> shape (widths, most tokens + 1); 0 for 0 tokens.
    read_ns
        "striped" or "localized" -> shape (widths,): how long a host read keeps a DIMM busy.
    fetch_ns, move_ns
        Shape (widths,): one expert over PCIe, and over a DIMM-Link.
    missing
        Name of a path, read or link -> why it has no cost.
    """

    path_ns: Mapping[str, Integers]
    read_ns: Mapping[str, Integers]
    fetch_ns: Integers
    move_ns: Integers
    missing: dict[str, str] = field(default_factory=dict)

    def require(self, name: str) -> None:
        """Raise InputError if a path, read or link has no cost."""
        if name in self.missing:
            raise InputError(self.missing[name])


def cost_table(
    costs: StepCosts,
    most_tokens: int,
    widths: tuple[float, ...] = (),
    quantum_ns: int = 5000,
) -> CostTable:
    """Return the costs of a model's experts on a machine (TriMoE Eq. 1-4).

    See `moeopt.sim.costs.step`.

    Parameters
    ----------
    most_tokens
        Largest token count of an expert, at least 1.
    widths
        Bits per weight, in the order of the rows; by default the model's own alone.
    """
    model = costs.model
    shapes = [model.quantized(bits) for bits in widths] or [model]
    tokens = np.arange(1, most_tokens + 1)
    missing: dict[str, str] = {}

    def rows(name: str, cost: Callable[[ModelShape], Integers], empty: Integers) -> Integers:
        try:
            return np.array([cost(shape) for shape in shapes], dtype=np.int64)
        except InputError as error:
            missing[name] = str(error)
            return np.array([empty] * len(shapes))

    def once(name: str, seconds: Callable[[ModelShape], float]) -> Integers:
        never = np.array(UNAVAILABLE_NS)
        return rows(name, lambda shape: to_quanta(seconds(shape) * NS_PER_S, quantum_ns), never)

    paths: dict[str, Integers] = {
        path: rows(
            path,
            lambda shape, path=path: np.concatenate(  # type: ignore[misc]
                [[0], costs.of(shape).path_ns(path, tokens, quantum_ns)]
            ),
            np.array([0] + [UNAVAILABLE_NS] * most_tokens),
        )
        for path in PATHS
    }
    return CostTable(
        path_ns=paths,
        read_ns={
            layout: once(layout, lambda shape, layout=layout: costs.of(shape).dram_read_s(layout))  # type: ignore[misc]
            for layout in ("striped", "localized")
        },
        fetch_ns=once("pcie", lambda shape: costs.of(shape).transfer_s()),
        move_ns=once(
            "dimm_link", lambda shape: costs.of(shape).transfer_s(costs.machine.dimm_link)
        ),
        missing=missing,
    )
