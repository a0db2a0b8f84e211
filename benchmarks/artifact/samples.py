"""Independent samples: layers of public traces, drawn at random with a stated seed.

A *sample* is a layer of a trace. Layers are drawn once: half of a model's layers are for choosing
defaults and constants, the others for the test, and the test's traces are never used for choosing.
Each token of a trace is executed once, whatever is read twice is left out, and a step is one token
of each of many requests.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

import moeopt
from benchmarks.rooms.sim import Trace
from benchmarks.rooms.study import interval

SEED = 64
"""Of every draw; stated before the first run, 2026-11-28."""

Part = Literal["choice", "test"]
"""Whether anything may be chosen with a sample."""


@dataclass(frozen=True)
class Source:
    """Public traces of a model.

    Attributes
    ----------
    folder, model, layers
        Where they lie, the model's preset, and how many layers with experts it has.
    choice, test
        Names of the traces.
    """

    folder: str
    model: str
    layers: int
    choice: tuple[str, ...]
    test: tuple[str, ...]

    def traces(self, part: Part) -> tuple[str, ...]:
        """Return the names of the traces of a part."""
        return self.choice if part == "choice" else self.test


V2_LITE = Source("esft_deepseek_v2_lite", "deepseek-v2-lite", 26, ("intent", "law"), ("summary",))
MIXTRAL = Source(
    "hdmoe_mixtral_8x7b",
    "mixtral-8x7b",
    32,
    ("coding", "humanities", "roleplay", "stem", "writing"),
    ("extraction",),
)


@dataclass(frozen=True)
class Sample:
    """A layer of a trace.

    Attributes
    ----------
    beside
        All layers of its part of the model.
    """

    model: str
    trace: str
    layer: int
    beside: tuple[int, ...]
    file: Path

    @property
    def name(self) -> str:
        """How tables call it."""
        return f"{self.trace} layer {self.layer}"

    def several(self, count: int) -> Trace:
        """Return so many layers of its part, drawn for this sample, in the model's order."""
        rng = np.random.default_rng([SEED, self.layer])
        layers = sorted(rng.permutation(self.beside)[:count].tolist())
        return Trace(self.trace, self.routing.topk_ids[:, layers])

    @property
    def routing(self) -> Trace:
        """The whole trace, no text twice."""
        return trace_of(self.file)


@cache
def trace_of(file: Path) -> Trace:
    """Return a trace without what it reads twice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", moeopt.MoeoptWarning)  # says how much that is
        return moeopt.dedupe_trace(moeopt.load_trace(file))


def layers_of(source: Source, part: Part) -> list[int]:
    """Return the layers of a part in the order in which they are drawn: half of all."""
    order = np.random.default_rng(SEED).permutation(source.layers).tolist()
    half = source.layers // 2
    return order[:half] if part == "choice" else order[half:]


def draw(traces: Path, source: Source, part: Part, count: int) -> list[Sample]:
    """Return samples of each trace of a part, no layer twice in a trace; as many in both parts.

    Parameters
    ----------
    count
        Layers of each trace for choosing.
    """
    layers = layers_of(source, part)
    count = count * len(source.choice) // len(source.traces(part))
    found = []
    for turn, name in enumerate(source.traces(part)):
        file = traces / source.folder / f"{name}.npz"
        if not file.is_file():
            raise moeopt.InputError(
                "is missing (python -m benchmarks.artifact fetch DIR)", where=file
            )
        own = np.roll(layers, -turn * count)[: min(count, len(layers))].tolist()
        found += [Sample(source.model, name, layer, tuple(layers), file) for layer in own]
    return found


Values = dict[str, float]
"""Name of a quantity -> its value on a sample."""


def measure(samples: Sequence[Sample], of: Callable[[Sample], Values | None]) -> dict[str, Values]:
    """Return the quantities of each sample by its name; samples without them are left out."""
    found = {sample.name: of(sample) for sample in samples}
    return {name: values for name, values in found.items() if values is not None}


@dataclass(frozen=True)
class Spread:
    """Median of samples, the interval that holds it with 95 %, and the largest."""

    middle: float
    low: float | None
    high: float | None
    most: float
    samples: int

    def percent(self, digits: int = 0) -> str:
        """Return median and interval in percent: ``12 [9, 15] %``."""
        shown = f"{100 * self.middle:.{digits}f}"
        if self.low is None or self.high is None:
            return f"{shown} %"
        return f"{shown} [{100 * self.low:.{digits}f}, {100 * self.high:.{digits}f}] %"


def spread(values: Mapping[str, Values], quantity: str) -> Spread:
    """Return the spread of a quantity over the samples that have it.

    Samples are drawn with replacement. Layers of one trace read the same text: for other texts the
    interval is too narrow where they differ more than layers do.
    """
    mine = {name: one[quantity] for name, one in values.items() if quantity in one}
    ends = interval(list(mine.values()), list(mine))
    low, high = (None, None) if ends is None else ends
    return Spread(median(mine.values()), low, high, max(mine.values()), len(mine))


def excess(instance: Any, method: str, optimum: int, **options: Any) -> float:
    """Return how far a heuristic is above a known optimum."""
    found = moeopt.solve(instance, method, **options)
    if not isinstance(found.objective, int):
        raise SystemExit(f"{instance.name}: {method} finds nothing")
    return found.objective / optimum - 1


def proven(instance: Any, method: str = "auto", work: float = 20.0) -> int | None:
    """Return the optimum of an instance if it is proven within a limit of work."""
    found = moeopt.solve(instance, method, work_limit=work)
    return found.objective if found.status == "optimal" and found.objective else None
