"""Several scenarios: proven bounds that join their layouts, and annealing for incumbents.

`formulations/layout/spec.md`, section "Several scenarios", has the bounds and their proofs.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from moeopt.core.clock import go_by_mine
from moeopt.core.search import Search
from moeopt.problems.layout.instance import Instance

from .aggregated import aggregated, chosen
from .incumbents import Improver, start_layout, value
from .joint_bound import JointBound

FIRST_SHARE = 0.25
"""Part of the time for incumbents before the bounds begin, if there is one worker."""

BOUND_SHARE = 0.7
"""Part of the time that is left then for the bounds, if there is one worker."""

BESIDE_SHARE = 0.35
"""Part of the time for the second worker's bounds, which later hardly rise, as incumbents fall."""

OTHER_SEED = 1_000_003
"""Added to the seed of the search for the second worker's incumbents."""


def solve(instance: Instance, search: Search) -> JointBound:
    """Search for incumbents and for bounds: side by side with two workers, in turn with one.

    With two, the one that has done the bounds then searches for incumbents, too, from another seed.

    Returns
    -------
    JointBound
        The bounds one by one, for studies.
    """
    model = aggregated(instance, list(range(len(instance.scenarios))))
    relaxed = model.solve(search.remaining_s / 4, integer=False)
    start = start_layout(
        instance,
        chosen(relaxed, model.resident, instance.experts),
        chosen(relaxed, model.localized, instance.experts),
    )
    bound = JointBound(instance, search)
    alone = bound.wait_and_see()
    best = min(alone or [start], key=lambda layout: value(instance, layout))
    lock = Lock()
    improver = Improver(instance, search, best, lock=lock)
    if search.workers > 1:
        with ThreadPoolExecutor(1, initializer=go_by_mine()) as pool:
            incumbents = pool.submit(_improve, improver, search, 0.0)
            bound.raise_until(search.remaining_s * (1 - BESIDE_SHARE))
            second = Improver(instance, search, start, search.seed + OTHER_SEED, lock)
            _improve(second, search, 0.0)
            incumbents.result()
    else:
        _improve(improver, search, search.remaining_s * (1 - FIRST_SHARE))
        bound.raise_until(search.remaining_s * (1 - BOUND_SHARE))
        _improve(improver, search, 0.0)
    search.note = "CLOSED" if search.closed else "OPEN"
    return bound


def _improve(improver: Improver, search: Search, until_s: float) -> None:
    """Anneal until `until_s` seconds are left, all is proven, or nothing is found any more."""
    while search.remaining_s > until_s and not search.closed and not improver.given_up:
        improver.round(until_s)
