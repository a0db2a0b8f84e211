"""Proofs that cannot all be right."""

from collections.abc import Sequence
from math import inf

from .measurement import Measurement, Run


def contradictions(runs: Sequence[Run]) -> list[str]:
    """Return a sentence for each claim of optimality that a better objective refutes.

    Of two claims with different objectives one is such a claim. Every problem minimises;
    infeasible counts as infinite.
    """
    found = []
    for instance in dict.fromkeys(run.instance for run in runs):
        claims = [
            (_value(run.measurement), run.contender, run.measurement.proven)
            for run in runs
            if run.instance == instance and run.measurement
        ]
        best, holder, _ = min(claims, default=(inf, "", False))
        found += [
            f"{instance}: {contender} claims that {value} is optimal, but {holder} found {best}"
            for value, contender, proven in claims
            if proven and value > best
        ]
    return list(dict.fromkeys(found))


def _value(measurement: Measurement) -> float:
    return inf if measurement.objective is None else measurement.objective
