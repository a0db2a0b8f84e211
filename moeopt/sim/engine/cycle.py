"""Naming a circle of dependencies."""

from collections.abc import Sequence

from moeopt.sim.engine.bundle import Bundle


def find_cycle(bundles: Sequence[Bundle]) -> str:
    """Return a sentence that names one circle among the bundles that could not run."""
    at = next(row for row, bundle in enumerate(bundles) if not bundle.done)
    seen: dict[int, int] = {}
    while at not in seen:
        seen[at] = len(seen)
        at = next(other for other in bundles[at].after if not bundles[other].done)
    circle = [*list(seen)[seen[at] :], at]
    names = " after ".join(f"{row} ({bundles[row].name()})" for row in circle)
    return f"tasks depend on one another in a circle: {names}"
