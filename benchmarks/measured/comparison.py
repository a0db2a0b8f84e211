"""Measured speeds with ours beside them, and how far we are off by machine, model, setting."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measured.crossvalidation import (
    CrossValidated,
    Group,
    Held,
    by_machine,
    coverage,
    cross_validated,
    expressible,
    factor_holding,
    predicted,
)
from benchmarks.measured.points import MeasuredPoint, read_points
from benchmarks.measured.strategies import Strategies, compare_strategies
from moeopt.core.errors import InputError
from moeopt.sim.machines.runtimes.profile import as_vector, get_runtime
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.machines.runtimes.terms import TERMS

READS = ("gpu_read", "host_read", "oblivious_read")

BARE = "nothing fitted: bytes over bandwidths alone"
IN_SAMPLE = "nothing held out: the profiles of `moeopt predict`"
"""Rows of the summary beside those of the cross-validation."""


@dataclass(frozen=True)
class Compared:
    """A measured point and what is predicted of it.

    Attributes
    ----------
    held_out
        By a profile that has not seen its machine.
    in_sample
        tokens/s by the profile that `moeopt predict` uses.
    """

    held_out: Held
    in_sample: float

    @property
    def point(self) -> MeasuredPoint:
        """What was measured."""
        return self.held_out.point

    @property
    def in_sample_error(self) -> float:
        """In-sample prediction over measured, less 1."""
        return self.in_sample / self.point.tokens_per_s - 1.0

    @property
    def setting(self) -> Setting:
        """What it was measured in."""
        if self.point.setting is None:
            raise ValueError("a point without a setting is not compared")
        return self.point.setting

    @property
    def cpu_layers(self) -> float:
        """Layers whose experts the CPU computes; 1/2 for one of which it answers half the calls."""
        return sum(self.setting.host_calls)

    @property
    def layers(self) -> int:
        """Layers with experts."""
        return len(self.setting.host_calls)

    @property
    def experts_on_cpu(self) -> str:
        """Which experts the CPU computes: none, some or all; or all where there is no GPU."""
        if self.setting.machine.gpu is None:
            return "all, no GPU"
        if self.cpu_layers == 0:
            return "none"
        return "all" if self.cpu_layers == self.layers else "some"


@dataclass(frozen=True)
class Errors:
    """How far predictions are off: errors in size, relative to what was measured.

    Attributes
    ----------
    worst
        The largest, with its sign: above 0 predicted too fast.
    factor
        80 % of the points lie within this factor of the prediction.
    inside
        Share of points in such an interval made of other groups' errors; None if there are none.
    """

    points: int
    median: float
    p90: float
    worst: float
    factor: float
    inside: float | None

    @classmethod
    def of(cls, held: Sequence[Held], group: Group = by_machine) -> "Errors":
        """Summarise predictions; `group` says which are not independent of each other."""
        sizes = np.abs([one.error for one in held])
        return cls(
            points=len(held),
            median=float(np.median(sizes)),
            p90=float(np.quantile(sizes, 0.9)),
            worst=max((one.error for one in held), key=abs),
            factor=factor_holding(held, group),
            inside=coverage(held, group),
        )


@dataclass(frozen=True)
class Comparison:
    """All of it.

    Attributes
    ----------
    rows
        The points that can be expressed, in the order of the table.
    left_out
        The others.
    cross_validated
        What `summary` sums up.
    strategies
        ktransformers' strategies; None if the table has none.
    """

    rows: tuple[Compared, ...]
    left_out: tuple[MeasuredPoint, ...]
    cross_validated: CrossValidated
    strategies: Strategies | None

    def summary(self) -> dict[str, Errors]:
        """Return what was held out -> errors; last by the bytes alone, and in sample."""
        found = {
            name: Errors.of(held, group)
            for name, held, group in self.cross_validated.rows()
            if held
        }
        found[BARE] = Errors.of(self.bare())
        seen = [Held(row.point, row.in_sample) for row in self.rows]
        found[IN_SAMPLE] = Errors.of(seen)
        return found

    def bare(self) -> list[Held]:
        """Predict every point by its bytes over the machine's bandwidths, and nothing else."""
        costs = np.array([float(term in READS) for term in TERMS])
        return [predicted(row.point, costs) for row in self.rows]

    def by(self, what: Callable[[Compared], str]) -> dict[str, list[Compared]]:
        """Return the rows by something, in the order in which it comes up."""
        found: dict[str, list[Compared]] = {}
        for row in self.rows:
            found.setdefault(what(row), []).append(row)
        return found

    def worst(self, count: int = 6) -> list[Compared]:
        """Return the held-out predictions that are farthest off, as factors."""
        return sorted(self.rows, key=lambda row: -abs(row.held_out.log_error))[:count]

    def to_dicts(self) -> Iterator[dict[str, Any]]:
        """Yield JSON values: every point, every point left out, the summary, the strategies."""
        for row in self.rows:
            yield {
                "kind": "point",
                **_said(row.point),
                "cpu_layers": row.cpu_layers,
                "layers": row.layers,
                "held_out": row.held_out.tokens_per_s,
                "held_out_error": row.held_out.error,
                "in_sample": row.in_sample,
                "in_sample_error": row.in_sample_error,
            }
        for point in self.left_out:
            yield {"kind": "left out", **_said(point), "why_not": point.why_not}
        for name, errors in self.summary().items():
            yield {"kind": "summary", "held_out": name, **asdict(errors)}
        if self.strategies is not None:
            for at in self.strategies.ratios:
                yield {"kind": "strategies", **asdict(at), "kendall_tau": at.kendall_tau}


def _said(point: MeasuredPoint) -> dict[str, Any]:
    names = ("machine", "model", "bits", "runtime", "knob", "value", "tokens_per_s", "source")
    return {name: getattr(point, name) for name in names}


def compare(path: Path | None = None) -> Comparison:
    """Predict every measured point, with its machine held out of the fit.

    Parameters
    ----------
    path
        A table of points in the columns of the package's own, which is the default. Profiles are
        fitted to the package's table in either case.

    Raises
    ------
    InputError
        If the file is not such a table, or none of its points can be expressed.
    """
    points = read_points(path)
    used = expressible(points)
    if not used:
        raise InputError(f"{path}: none of its points can be expressed: {points[0].why_not}")
    fitted_on = points if path is None else read_points()
    found = cross_validated(points, fitted_on)
    held = {id(one.point): one for one in found.machines}
    profiles = {p.runtime: as_vector(get_runtime(p.runtime).costs) for p in used}
    return Comparison(
        rows=tuple(
            Compared(held[id(p)], predicted(p, profiles[p.runtime]).tokens_per_s) for p in used
        ),
        left_out=tuple(p for p in points if p.why_not),
        cross_validated=found,
        strategies=compare_strategies(points),
    )
