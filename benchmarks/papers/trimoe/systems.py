"""TriMoE's system and its baselines, each as a plan that the engine executes.

All share machine, costs and loads; a plan differs in where experts lie and who chooses the domains.
Every step of every sample is one layer of the plan, so that each may have a layout of its own.
"""

from collections.abc import Callable

import numpy as np

from benchmarks.papers.trimoe import layouts, relayout
from benchmarks.papers.trimoe.layouts import Dimms
from benchmarks.papers.trimoe.setting import Setting
from benchmarks.rooms.sim import Assignment, Times
from benchmarks.rooms.tri_domain import STRIPED, Domain
from moeopt import Plan

LAYER_ALONE = Times(shared_ns=0)
"""The figures are of the routed experts: attention and shared experts are left out."""


def klotski(setting: Setting) -> Plan:
    """GPU only (TriMoE 5.1.2 (1)): every expert is fetched over PCIe.

    Klotski hides one expert's transfer behind another's computation. Eq. 5 adds up complete path
    costs, so that this is invisible here, and of little weight: a transfer takes 0.74 ms, the
    computation 0.05 ms.
    """
    return _static("klotski", setting, layouts.striped(setting), "gpu-only")


def ktransformers(setting: Setting) -> Plan:
    """GPU and CPU (5.1.2 (2), "Enhanced"): the CPU has all routed experts, hot ones are loaded.

    Assumed: striped, as the CPU likes it; experts move from CPU to GPU by falling tokens while the
    later of the two gets earlier.
    """
    return _static("ktransformers", setting, layouts.striped(setting), "ktransformers")


def monde(setting: Setting) -> Plan:
    """GPU and NDP (5.1.2 (3)): the hottest experts move their weights, the rest stay on NDP.

    Assumed: all localized, on the DIMMs in turn by falling mean load, the rule of TriMoE's own
    layout here; the number of hot experts is chosen at each step for the least makespan, knowing
    its loads.
    """
    place = layouts.localized(setting, balanced=False)
    return _static("monde", setting, place, "monde")


def monde_balanced(setting: Setting) -> Plan:
    """Return MoNDE in another reading: each expert to the DIMM with least NDP work on mean loads.

    Slower: the hottest experts count in the balance and then leave for the GPU.
    """
    return _static("monde-balanced", setting, layouts.localized(setting), "monde")


def trimoe_greedy(setting: Setting) -> Plan:
    """TriMoE's initial assignment alone (4.2), on its own offline layout: each its cheapest path.

    A localized expert costs GPU and CPU the same read, so that many tie: see `Setting.tie_order`.
    """
    policy = f"greedy[tie_order={setting.tie_order}]"
    return _static("trimoe-greedy", setting, layouts.offline(setting, "greedy"), policy)


def trimoe_refined(setting: Setting) -> Plan:
    """TriMoE's bottleneck-aware refinement (4.2), on the offline layout."""
    return _static("trimoe-refined", setting, layouts.offline(setting), _scheduler(setting))


def optimal_schedule(setting: Setting) -> Plan:
    """Keep TriMoE's offline layout, and make every step's schedule optimal (`threshold`)."""
    place = every_step(setting, layouts.offline(setting))
    came = zip(rows(setting), place, strict=True)
    best = [layouts.domains(setting, load, at, layouts.threshold) for load, at in came]
    return fixed("optimal-schedule", setting, place, best)


def trimoe(setting: Setting) -> Plan:
    """TriMoE in full: refined, and migrations before each step (4.3) that `relayout` decides.

    On the loads that the predictor expects, and as many as fit into the window.
    """
    place, resident = relayout.decided(setting)
    made = laid_out(f"trimoe, {setting.migrations}", setting, place, _scheduler(setting))
    return made.model_copy(update={"resident": resident})


def trimoe_known(setting: Setting) -> Plan:
    """Return an upper limit of relayout without prefetching: no system knows the loads.

    The layout is the offline rule's for the loads that come, free of charge.
    """
    place = np.array([layouts.tuned(setting, load[None]) for load in rows(setting)])
    return laid_out("trimoe-known", setting, place, _scheduler(setting))


def optimum(setting: Setting) -> Plan:
    """Return the optimum of the machine: layout and schedule optimal for the loads that come.

    Found and proven by `bound-and-pack`, step by step. Migrations cost nothing, as in
    `trimoe_known`. For settings without residents: it would choose its own.
    """
    found = [layouts.optimal(setting, load) for load in rows(setting)]
    place = np.array([place for place, _ in found])
    return fixed("optimum", setting, place, [domains for _, domains in found])


SYSTEMS: dict[str, Callable[[Setting], Plan]] = {
    "klotski": klotski,
    "ktransformers": ktransformers,
    "monde": monde,
    "monde-balanced": monde_balanced,
    "trimoe-greedy": trimoe_greedy,
    "trimoe-refined": trimoe_refined,
    "optimal-schedule": optimal_schedule,
    "trimoe": trimoe,
    "trimoe-known": trimoe_known,
    "optimum": optimum,
}


def rows(setting: Setting) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the loads that come, a row per layer of a plan: step by step, all samples of each."""
    return setting.came.reshape(-1, setting.shape.routed_experts)


def _scheduler(setting: Setting) -> str:
    return f"trimoe[refinement={setting.refinement},tie_order={setting.tie_order}]"


def every_step(setting: Setting, place: Dimms) -> Dimms:
    """Return one layout per sample as one per layer of a plan."""
    return np.tile(place, (setting.steps, 1))


def _static(name: str, setting: Setting, place: Dimms, policy: str) -> Plan:
    return laid_out(name, setting, every_step(setting, place), policy)


def fixed(
    name: str, setting: Setting, place: Dimms, domains: list[tuple[Domain | None, ...]]
) -> Plan:
    """Return a plan with a layout and all domains given per layer."""
    entries = [
        Assignment(
            layer=layer,
            **{d: [e for e, at in enumerate(row) if at == d] for d in ("gpu", "cpu", "ndp")},
        )
        for layer, row in enumerate(domains)
    ]
    return laid_out(name, setting, place, "greedy").model_copy(
        update={"assignments": tuple(entries)}
    )


def laid_out(name: str, setting: Setting, place: Dimms, policy: str) -> Plan:
    """Return a plan with a layout given per layer, and a policy that chooses the domains.

    An upload keeps the GPU busy, as Eq. 2 and 5 have it.
    """
    layout = [[None if d == STRIPED else d for d in row] for row in place.tolist()]
    return Plan(
        name=name,
        resident=_residents(setting),
        layout=layout,
        policy=policy,
        gpu_work="one path",
        times=LAYER_ALONE,
    )


def _residents(setting: Setting) -> tuple[tuple[int, ...], ...] | None:
    """Return the experts that stay on the GPU for every layer of a plan; None if none stay."""
    if not setting.residents:
        return None
    return tuple(
        tuple(sorted(row)) for row in every_step(setting, layouts.hottest(setting)).tolist()
    )
