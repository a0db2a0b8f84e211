"""Where the experts of each sample lie: TriMoE's rule, its baselines' and the optimum."""

from collections.abc import Callable
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.trimoe.setting import Loads, Setting
from benchmarks.rooms.layout import (
    Domain,
    Instance,
    Options,
    Solution,
    as_solution,
    cold_counts_of,
    family,
    of_loads,
    round_robin,
    starting,
)
from benchmarks.rooms.layout import trimoe_layout_tuned as tune
from benchmarks.rooms.relayout import Options as RelayoutOptions
from benchmarks.rooms.relayout import after_migrations, on_layout
from benchmarks.rooms.sim import (
    step_costs,
)
from benchmarks.rooms.tri_domain import STRIPED, Layout, cold_localized, scheduled
from benchmarks.rooms.tri_domain import Instance as TriDomain
from benchmarks.rooms.tri_domain import Solution as Schedule
from moeopt import InputError, solve

NAME = "layer"

LIMIT_S = 60.0
"""For one optimal layout; it takes some 20 ms."""

Scheduler = Literal["greedy", "refined"]
"""TriMoE's initial assignment alone, or with the bottleneck-aware refinement (4.2)."""

Dimms = NDArray[np.int64]
"""The DIMM of every expert by sample, `STRIPED` if it lies on all; shape (samples, experts)."""


def striped(setting: Setting) -> Dimms:
    """Stripe everything: what hosts like best."""
    return np.full(setting.mean_load.shape, STRIPED)


def localized(setting: Setting, *, balanced: bool = True) -> Dimms:
    """Localize everything, by falling mean load: to the emptiest DIMM, or to each in turn."""
    return _by_rule(setting, 1.0, balanced)


@cache
def offline(setting: Setting, scheduler: Scheduler = "refined") -> Dimms:
    """TriMoE's "optimized initial layout" (4.3): cold experts localized, the rest striped.

    The paper names no share of cold experts. Assumed: the one of least makespan over the earlier
    steps, summed, under the scheduler that runs on it, unless the setting gives one; cold experts
    to the DIMMs in turn.
    """
    if setting.cold_share is not None:
        return _by_rule(setting, setting.cold_share, balanced=False)
    return np.array([tuned(setting, steps, scheduler) for steps in setting.earlier])


def hottest(setting: Setting) -> NDArray[np.int64]:
    """Return the experts that stay on the GPU: most tokens on average; (samples, residents)."""
    order = np.argsort(-setting.mean_load, axis=1, kind="stable")
    return order[:, : setting.residents]


def tuned(setting: Setting, steps: Loads, scheduler: Scheduler = "refined") -> Dimms:
    """Return the offline rule's layout for a layer, with the best share of cold experts.

    Parameters
    ----------
    steps
        Tokens of each expert in each step that counts, shape (steps, experts).
    scheduler
        Under which the share is best.
    """
    made = instance(setting, steps)
    if scheduler == "refined":
        reading = {"tie_order": setting.tie_order, "refinement": setting.refinement}
        return dimms_of(tune(made, **reading), setting.dimms)
    options = family(made, round_robin(made), cold_counts_of(made))
    best = min(options, key=lambda layout: sum(starting(made, layout, setting.tie_order)[1]))
    device, _ = starting(made, best, setting.tie_order)
    return dimms_of(as_solution(made, best, device), setting.dimms)


def instance(setting: Setting, steps: Loads) -> Instance:
    """Return the loads of one layer, shape (steps, experts), as an instance of `layout`."""
    options = Options(hbm_slots=setting.residents, dimms=setting.dimms)
    return of_loads(setting.source, options, list(steps), setting.model)


def optimal(setting: Setting, load: Loads) -> tuple[Dimms, tuple[Domain | None, ...]]:
    """Return the optimal layout and schedule for one layer's loads (`bound-and-pack`)."""
    found = solve(instance(setting, load[None]), "bound-and-pack", time_limit_s=LIMIT_S).solution
    if not isinstance(found, Solution):
        raise InputError(f"{setting.model}: no layout within {LIMIT_S:g} s")
    return dimms_of(found, setting.dimms), found.assignment[0]


def domains(
    setting: Setting, load: Loads, place: Dimms, schedule: Callable[[TriDomain], Schedule]
) -> tuple[Domain | None, ...]:
    """Return the domains that a method of `tri_domain` gives one layer's loads on a layout."""
    layer = on_layout(
        setting.source, RelayoutOptions(dimms=setting.dimms), load, _only(place), NAME
    )
    found = scheduled(after_migrations(layer), schedule)
    return tuple(found.domains.get(expert) for expert in range(len(load)))


def threshold(layer: TriDomain) -> Schedule:
    """Return an optimal schedule of a layer."""
    found = solve(layer, "threshold", time_limit_s=LIMIT_S).solution
    if not isinstance(found, Schedule):
        raise InputError(f"no schedule within {LIMIT_S:g} s")
    return found


def _only(place: Dimms) -> Layout:
    """Return a layout without residents."""
    return Layout(np.zeros(len(place), dtype=np.bool_), place)


def dimms_of(plan: Solution, dimms: int) -> Dimms:
    """Return a solution's layout; experts without tokens, and so without one, fill it up evenly."""
    place = np.array([STRIPED if dimm is None else dimm for dimm in plan.dimm])
    held = np.bincount(place[place >= 0], minlength=dimms)
    for expert, domains in enumerate(zip(*plan.assignment, strict=True)):
        if not any(domains):
            place[expert] = held.argmin()
            held[place[expert]] += 1
    return place


def _by_rule(setting: Setting, cold_share: float, balanced: bool) -> Dimms:
    rows = []
    for load in setting.mean_load:
        ndp_ns = step_costs(setting.machine, setting.shape).path_ns("ndp", np.maximum(load, 1))
        work = np.where(load > 0, ndp_ns, 0) if balanced else None
        rows.append(cold_localized(load, setting.dimms, cold_share, 0, work).dimm)
    return np.array(rows)
