"""Systems as they are: each on the layout that it would use, scheduled by its own online rule.

The layout is decided before the loads are known, from `Instance.forecast_tokens`, what an offline
trace says of every expert's tokens; where an instance has none, from the loads themselves, which is
hindsight. The schedule of each scenario is made for its real loads, by the heuristic of
`moeopt.problems.tri_domain` with the system's name. All systems have the same `hbm_slots`: the
hottest experts of the forecast are resident. A resident expert's host copy is striped, unless the
system localizes all experts. What TriMoE migrates at run time (4.3) is not part of it: that is the
problem relayout.

Keyword arguments are the assumptions of `assumptions`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from moeopt.core.envelope import MAX_NUMBER
from moeopt.core.rounding import rounded
from moeopt.core.search import Search
from moeopt.problems.cold_cut import ColdCut
from moeopt.problems.tri_domain import heuristics as online
from moeopt.problems.tri_domain.check import objective as fixed_objective
from moeopt.problems.tri_domain.expert import Copy, Expert
from moeopt.problems.tri_domain.expert import Layout as Layout
from moeopt.problems.tri_domain.instance import Instance as FixedLayout
from moeopt.problems.tri_domain.instance import Solution as Schedule

from .copies import within_memory
from .instance import Domain, Instance, Solution
from .paths import PATH_OF, STRIPED, Device, Path

BEST_SCHEDULE_S = 10.0
"""Seconds that a scenario's best schedule may take; it takes some milliseconds."""


BEST_CUT = "best on the forecast"
"""The cut whose layout TriMoE's schedule is expected to be fastest on."""

CUTS = 40
"""So many cuts are compared, evenly spaced."""

Rule = Callable[[FixedLayout], Schedule]
"""How a system schedules a step's loads on a layout."""

Run = tuple[Domain | None, int | None]
Runs = Mapping[int, Run]
"""The domain of an expert with the DIMM of the copy that it is run from, None for its first one."""


def trimoe(
    instance: Instance,
    *,
    cold_cut: str = BEST_CUT,
    dimm_choice: str = "balanced",
    tie_order: str = "cpu",
    refinement: str = "one",
) -> Solution:
    """TriMoE: cold experts localized (4.3), the rest striped; its refined schedule (4.2)."""

    def rule(layer: FixedLayout) -> Schedule:
        return online.trimoe(layer, tie_order=tie_order, refinement=refinement)

    return executed(instance, cold_localized(instance, cold_cut, dimm_choice), rule)


def trimoe_best_schedule(
    instance: Instance, *, cold_cut: str = BEST_CUT, dimm_choice: str = "balanced"
) -> Solution:
    """TriMoE's layout with the best schedule of the real loads: what its layout costs.

    Each scenario is the problem tri_domain, for whose exact method the time is rarely too short;
    then it is the best schedule found.
    """
    return executed(instance, cold_localized(instance, cold_cut, dimm_choice), best_schedule)


def klotski(instance: Instance) -> Solution:
    """Klotski: GPU only; all experts striped, since only the GPU reads them."""
    return executed(instance, all_striped(instance), online.klotski)


def ktransformers(instance: Instance, *, hot_loading: str = "while it helps") -> Solution:
    """Enhanced KTransformers: GPU and CPU; all experts striped, since both read them."""

    def rule(layer: FixedLayout) -> Schedule:
        return online.ktransformers(layer, hot_loading=hot_loading)

    return executed(instance, all_striped(instance), rule)


def fiddler(instance: Instance) -> Solution:
    """Fiddler: GPU and CPU; all experts striped."""
    return executed(instance, all_striped(instance), online.fiddler)


def hybrimoe(instance: Instance) -> Solution:
    """HybriMoE: GPU and CPU; all experts striped."""
    return executed(instance, all_striped(instance), online.hybrimoe)


def monde(instance: Instance, *, dimm_choice: str = "in turn") -> Solution:
    """MoNDE: GPU and NDP; all experts localized, so that NDP can run each of them."""
    return executed(instance, all_localized(instance, dimm_choice), online.monde)


SYSTEMS: dict[str, Callable[..., Solution]] = {
    "trimoe": trimoe,
    "trimoe-best-schedule": trimoe_best_schedule,
    "klotski": klotski,
    "ktransformers": ktransformers,
    "monde": monde,
    "fiddler": fiddler,
    "hybrimoe": hybrimoe,
}


ALL_STRIPED = ("klotski", "ktransformers", "fiddler", "hybrimoe")
"""The systems without NDP."""


def forecast_of(instance: Instance) -> list[int]:
    """Return what a layout is decided from: tokens of every expert, forecast or, without, real.

    Real ones are summed over the scenarios by their weights.
    """
    if instance.forecast_tokens is not None:
        return list(instance.forecast_tokens)
    return weighted_sums(instance, instance.path_times.tokens)


def weighted_sums(instance: Instance, values: NDArray[np.int64]) -> list[int]:
    """Return each expert's weighted sum over the scenarios, in integers of any size."""
    total = [0] * instance.experts
    for scenario, row in zip(instance.scenarios, values.tolist(), strict=True):
        for expert, value in enumerate(row):
            total[expert] += scenario.weight * value
    return total


def all_striped(instance: Instance) -> Layout:
    """Return the layout that hosts want: every expert on all DIMMs."""
    hot, resident = by_falling_load(instance)
    return Layout(resident, np.full(len(hot), STRIPED))


def all_localized(instance: Instance, dimm_choice: str) -> Layout:
    """Return the layout that NDP wants: every expert on one DIMM; the hottest striped if no room.

    Resident experts' host copies are localized as well.
    """
    hot, resident = by_falling_load(instance)
    return Layout(resident, _localized(instance, hot[len(hot) - _room(instance) :], dimm_choice))


def cold_localized(instance: Instance, cold_cut: str, dimm_choice: str) -> Layout:
    """Return TriMoE's layout: cold experts on one DIMM each, as far as there is room (TriMoE 4.3).

    Parameters
    ----------
    cold_cut
        Which experts are cold; see `moeopt.core.assumptions`, or `BEST_CUT`. Residents never are.
    dimm_choice
        "in turn", by falling forecast, or "balanced" by the NDP work that is forecast.
    """
    hot, resident = by_falling_load(instance)
    most = min(_room(instance), len(hot) - int(resident.sum()))

    def localizing(count: int) -> Layout:
        return Layout(resident, _localized(instance, hot[len(hot) - count :], dimm_choice))

    if cold_cut == BEST_CUT:
        tried = {round(part * most / CUTS) for part in range(CUTS + 1)}
        return localizing(min(sorted(tried), key=lambda n: expected_ns(instance, localizing(n))))
    return localizing(min(ColdCut.parse(cold_cut).count(forecast_of(instance)), most))


def expected_ns(instance: Instance, layout: Layout) -> int:
    """Return the makespan of TriMoE's schedule on a layout for the loads that are forecast.

    An expert with e tokens expected in a scenario has some with probability p = 1 - exp(-e), as
    tokens come one by one, and then e / p of them on average. Every time counts p-fold.
    """
    times, table = instance.path_times, _table(instance)
    expected = _expected(instance)
    comes = rounded(-np.expm1(-expected))
    given = np.divide(expected, comes, out=np.ones_like(expected), where=comes > 0)
    striped = layout.dimm == STRIPED
    read = np.where(striped, times.read[Path.CPU_STRIPED], times.read[Path.CPU_LOCAL])

    def ns(path: Path) -> NDArray[np.int64]:
        # More tokens may be forecast than any window has: for longer than a file could state.
        return np.rint(np.minimum(comes * table(path, given), MAX_NUMBER)).astype(np.int64)

    hit, ndp = ns(Path.HIT), ns(Path.NDP)
    miss = np.where(striped, ns(Path.GPU_STRIPED), ns(Path.GPU_LOCAL))
    cpu = np.where(striped, ns(Path.CPU_STRIPED), ns(Path.CPU_LOCAL))
    reads = np.rint(comes * read).astype(np.int64)
    layer = FixedLayout.from_arrays(
        gpu_ns=np.where(layout.resident, hit, miss),
        cpu_ns=cpu,
        ndp_ns=np.where(striped, -1, ndp),
        dimm=layout.dimm,
        dimms=instance.dimms,
        gpu_dram_ns=np.where(layout.resident, 0, reads),
        cpu_dram_ns=reads,
        resident=layout.resident,
        name=instance.name,
    )
    return fixed_objective(layer, online.trimoe(layer))


def executed(instance: Instance, layout: Layout, rule: Rule) -> Solution:
    """Return a layout with the schedules that a rule makes of the real loads."""
    runs: list[Runs] = []
    for number in range(len(instance.scenarios)):
        layer, of = on_layout(instance, layout, number), dict[int, Run]()
        if layer is not None:
            schedule = rule(layer)
            for row, expert in enumerate(layer.experts):
                of[expert.expert] = schedule.assignment[row], schedule.source_of(row)
        runs.append(of)
    # Where several copies are permitted an expert without tokens takes its room, too.
    used = instance.path_times.active.any(axis=0) | (instance.copies is not None)
    dimm = [None if at == STRIPED else at for at in np.where(used, layout.dimm, STRIPED).tolist()]
    copies = layout.copies if len(layout.copies) else None
    return with_runs(instance, layout.resident.tolist(), dimm, copies, runs)


def with_runs(
    instance: Instance,
    resident: Iterable[bool],
    dimm: Iterable[int | None],
    copies: Iterable[Iterable[int]] | None,
    runs: Sequence[Runs],
) -> Solution:
    """Return the solution of a layout and of what runs where in each scenario."""
    rows = [[of.get(row, (None, None)) for row in range(instance.experts)] for of in runs]
    source = tuple(tuple(from_ for _, from_ in row) for row in rows)
    return Solution(
        instance=instance.name,
        resident=tuple(resident),
        dimm=tuple(dimm),
        assignment=tuple(tuple(domain for domain, _ in row) for row in rows),
        copies=None if copies is None else tuple(map(tuple, copies)),
        source=None if copies is None else source,
    )


def on_layout(instance: Instance, layout: Layout, number: int) -> FixedLayout | None:
    """Return a scenario on a layout, which is the problem tri_domain; None if nothing runs."""
    times, scenario = instance.path_times, instance.scenarios[number]
    rows = []
    for row in np.flatnonzero(times.active[number]).tolist():
        dimm, held = int(layout.dimm[row]), bool(layout.resident[row])
        first = _copy(instance, number, row, held, None if dimm == STRIPED else dimm)
        others = layout.copies[row] if len(layout.copies) else ()
        copies = tuple(Copy(**_copy(instance, number, row, held, at)) for at in others)
        rows.append(
            Expert(
                expert=row,
                tokens=scenario.tokens[row],
                resident=held,
                **first,
                copies=copies or None,
            )
        )
    if not rows:
        return None
    return FixedLayout(
        name=instance.name,
        dimms=instance.dimms,
        experts=tuple(rows),
        channels=instance.channels,
        dimm_share=instance.dimm_share,
        gpu_base_ns=instance.gpu_base_ns,
    )


def _copy(
    instance: Instance, number: int, row: int, held: bool, dimm: int | None
) -> dict[str, object]:
    """Return where a copy lies and what its paths cost, as fields of tri_domain."""
    times, parts = instance.path_times, instance.in_two_parts
    gpu, cpu = PATH_OF[[Device.GPU, Device.CPU], int(dimm is not None), int(held)].tolist()
    cost = times.alone[:, number, row].tolist()
    return {
        "dimm": dimm,
        "gpu_ns": cost[gpu],
        "cpu_ns": cost[cpu],
        "ndp_ns": None if dimm is None else cost[Path.NDP],
        "gpu_dram_ns": int(times.full_read[gpu]),
        "cpu_dram_ns": int(times.full_read[cpu]),
        "gpu_calc_ns": int(times.cost[gpu, number, row]) if parts else None,
        "pcie_ns": int(times.pcie[gpu, number, row]) if parts else None,
    }


def best_schedule(layer: FixedLayout) -> Schedule:
    """Return the best schedule that tri_domain's exact method finds."""
    from moeopt.problems.tri_domain import threshold  # compiled loops are imported when run

    search = Search(limit_s=BEST_SCHEDULE_S)
    threshold.solve(layer, search)
    found: Schedule = search.solution
    return found


def by_falling_load(instance: Instance) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return all experts, hottest first (ties: lowest number), and which are resident."""
    load = forecast_of(instance)
    hot = sorted(range(instance.experts), key=lambda row: (-load[row], row))
    resident = np.zeros(instance.experts, dtype=np.bool_)
    resident[hot[: instance.hbm_slots]] = True
    return np.array(hot, dtype=np.int64), resident


def _room(instance: Instance) -> int:
    """Return how many experts the DIMMs' slots can hold localized."""
    slots = instance.experts if instance.dimm_slots is None else instance.dimm_slots
    return min(slots * instance.dimms, instance.experts)


def _localized(instance: Instance, cold: NDArray[np.int64], dimm_choice: str) -> NDArray[np.int64]:
    """Return every expert's DIMM, those in `cold` localized; hottest first is their order."""
    dimm = np.full(instance.experts, STRIPED)
    if dimm_choice == "in turn":
        dimm[cold] = np.arange(len(cold)) % instance.dimms
        return within_memory(instance, dimm)
    slots = instance.experts if instance.dimm_slots is None else instance.dimm_slots
    work = expected_ndp_ns(instance)
    busy, held = np.zeros(instance.dimms), np.zeros(instance.dimms, dtype=np.int64)
    for row in sorted(cold.tolist(), key=lambda row: -work[row]):  # stable: then hottest first
        emptiest = int(np.where(held < slots, busy, np.inf).argmin())
        dimm[row] = emptiest
        busy[emptiest] += work[row]
        held[emptiest] += 1
    return within_memory(instance, dimm)


def expected_ndp_ns(instance: Instance) -> Sequence[float]:
    """Return each expert's NDP time at its forecast share of a scenario's tokens.

    What so many tokens take is read off the instance's own costs, as from a table of profiled
    times. Less than one token is one that does not always come.
    """
    expected = _expected(instance)
    ndp = _table(instance)(Path.NDP, np.maximum(expected, 1.0))
    found: list[float] = (ndp * np.minimum(expected, 1.0)).tolist()
    return found


def _expected(instance: Instance) -> NDArray[np.float64]:
    """Return the forecast, scaled to the tokens of one scenario, shape (experts,)."""
    load = np.array(forecast_of(instance), dtype=float)
    per_scenario = instance.path_times.tokens.sum() / len(instance.scenarios)
    return np.asarray(load * (per_scenario / load.sum()) if load.any() else load)


def _table(instance: Instance) -> Callable[[Path, NDArray[np.float64]], NDArray[np.float64]]:
    """Return what so many tokens take on a path, in ns, as the instance's own costs have it.

    Between the token counts that occur straight lines, above them in proportion.
    """
    times = instance.path_times
    used = times.active
    counts, at = np.unique(times.tokens[used], return_index=True)

    def of(path: Path, tokens: NDArray[np.float64]) -> NDArray[np.float64]:
        known = times.alone[path][used][at].astype(float)
        return np.asarray(np.interp(tokens, counts, known) * np.maximum(tokens / counts[-1], 1.0))

    return of
