"""The figures by which a synthetic trace is measured against a real one."""

from dataclasses import dataclass

import numpy as np

from moeopt.sim.traces.statistics.hits import lru_hits, reuse
from moeopt.sim.traces.statistics.loads import affinity, cold_share, loads, phase_similarity, skew
from moeopt.sim.traces.statistics.routing import Routing, average


@dataclass(frozen=True)
class Targets:
    """What a workload is fitted to; every figure is a mean over layers, None is left free.

    Attributes
    ----------
    skew, cold_70
        Largest load over mean load; share of the coldest 70 % of the experts. With both given a
        fit looks at `skew`.
    reuse_any, reuse_all, reuse_each
        As in `statistics.reuse`.
    lru
        Cached experts -> LRU hit rate per access.
    phase_similarity, affinity
        As in `statistics.similarity`, and as in `statistics.affinity` for the experts of the
        largest weight.
    affinity_any
        The same for all pairs of experts; reported, not fitted.
    """

    skew: float | None = None
    cold_70: float | None = None
    reuse_any: float | None = None
    reuse_all: float | None = None
    reuse_each: float | None = None
    lru: dict[int, float] | None = None
    phase_similarity: float | None = None
    affinity: float | None = None
    affinity_any: float | None = None

    @classmethod
    def of(cls, routing: Routing, with_affinity: bool = True) -> "Targets":
        """Return the figures of a trace; those that are undefined are None."""
        counts, again = loads(routing), reuse(routing)
        rates = lru_hits(routing)
        means = [average(column) for column in rates.each.T]
        return cls(
            skew=_known(skew(counts)),
            cold_70=_known(cold_share(counts)),
            reuse_any=_known(again.any),
            reuse_all=_known(again.all),
            reuse_each=_known(again.each),
            lru=dict(zip(rates.capacities.tolist(), means, strict=True)),
            phase_similarity=_known(phase_similarity(routing)[0]),
            affinity=_known(affinity(routing, "main")) if with_affinity else None,
            affinity_any=_known(affinity(routing)) if with_affinity else None,
        )

    def lru_error(self, other: "Targets") -> float:
        """Return the mean absolute difference of the hit rates that both have; 0 if none."""
        mine, theirs = self.lru or {}, other.lru or {}
        both = mine.keys() & theirs.keys()
        return sum(abs(mine[at] - theirs[at]) for at in both) / max(1, len(both))


@dataclass(frozen=True)
class Row:
    """One line of the comparison."""

    figure: str
    real: float
    synthetic: float

    @property
    def error(self) -> float:
        """Synthetic minus real."""
        return self.synthetic - self.real


def compare(real: Targets, made: Targets, capacities: list[int]) -> list[Row]:
    """Return real and synthetic figures side by side, where both are known.

    Parameters
    ----------
    real, made
        The targets, and what the synthetic trace reaches.
    capacities
        For which LRU hit rates are listed; the last row is over all capacities that `real` has.
    """
    names = {
        "skew": "skew (largest / mean load)",
        "cold_70": "share of the coldest 70 %",
        "reuse_any": "tokens reusing an expert",
        "reuse_all": "tokens reusing all experts",
        "reuse_each": "experts reused",
        "phase_similarity": "prefill/decode cosine",
        "affinity": "affinity of main experts, next layer",
        "affinity_any": "affinity of any experts, next layer",
    }
    pairs = [(label, getattr(real, key), getattr(made, key)) for key, label in names.items()]
    for capacity in capacities:
        have, got = ((side.lru or {}).get(capacity) for side in (real, made))
        pairs.append((f"LRU hit rate, {capacity} cached", have, got))
    rows = [Row(label, a, b) for label, a, b in pairs if a is not None and b is not None]
    if real.lru and made.lru:
        rows.append(Row("mean |error| of the LRU curve", 0.0, real.lru_error(made)))
    return rows


def _known(values: np.ndarray) -> float | None:
    mean = average(values)
    return None if np.isnan(mean) else mean
