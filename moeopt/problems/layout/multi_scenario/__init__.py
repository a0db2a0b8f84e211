"""Several scenarios: proven bounds that join their layouts, and annealing for good plans.

`formulations/layout/spec.md`, section "Several scenarios", has the bounds and their proofs.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Lock

from moeopt.problems.layout.instance import Instance
from moeopt.problems.search import Search

from .aggregated import aggregated, chosen
from .incumbent import Improver, start_layout
from .joint_bound import JointBound
from .rows import Rows

FIRST_SHARE = 0.25
"""Part of the time for plans before the bounds begin, if there is one worker."""

BOUND_SHARE = 0.5
"""Part of the time that is left then for the bounds, if there is one worker."""

BESIDE_SHARE = 0.35
"""Part of the time for the second worker's bounds: later they hardly rise, and plans still fall."""

OTHER_SEED = 1_000_003
"""Added to the seed of the search for the second worker's plans."""


def solve(instance: Instance, search: Search) -> JointBound:
    """Search for plans and for bounds: side by side with two workers, in turn with one.

    With two, the one that has done the bounds then searches for plans, too, from another seed.

    Returns
    -------
    JointBound
        The bounds one by one, for studies.
    """
    rows = Rows.of(instance)
    model = aggregated(instance, rows, list(range(len(instance.scenarios))))
    relaxed = model.solve(search.remaining_s / 4, integer=False)
    start = start_layout(
        instance, rows, chosen(relaxed, model.resident), chosen(relaxed, model.localized)
    )
    lock = Lock()
    improver = Improver(instance, rows, search, start, lock=lock)
    relaxed_ns = (relaxed.objective or 0.0) * model.unit_ns * float(rows.weight.max())
    bound = JointBound(instance, rows, search, relaxed_ns)
    if search.workers > 1:
        with ThreadPoolExecutor(max_workers=1) as pool:
            plans = pool.submit(_improve, improver, search, 0.0)
            bound.raise_until(search.remaining_s * (1 - BESIDE_SHARE))
            second = Improver(instance, rows, search, start, search.seed + OTHER_SEED, lock)
            _improve(second, search, 0.0)
            plans.result()
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
