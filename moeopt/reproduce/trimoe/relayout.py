"""Relayout decided before the loads are known, within the window: readings of TriMoE 4.3."""

from collections.abc import Callable

import numpy as np

from moeopt.problems.relayout.heuristics import HEURISTICS
from moeopt.reproduce.trimoe import layouts
from moeopt.reproduce.trimoe.layouts import Dimms
from moeopt.reproduce.trimoe.setting import Setting
from moeopt.reproduce.trimoe.systems import laid_out
from moeopt.sim.generators.relayout import Options, on_layout
from moeopt.sim.layout_rule import STRIPED, Layout
from moeopt.sim.plan.schema import Plan
from moeopt.sim.predictor import LoadPredictor

POLICIES = ("none", "rebalance-only", "benefit-greedy", "benefit-makespan")
"""Heuristics of the problem `relayout`: what "predicted benefit" can mean, and less."""


def system(policy: str) -> Callable[[Setting], Plan]:
    """Return TriMoE with migrations that a policy chooses on predicted loads (Eq. 8).

    Four moves over DIMM-Link and two prefetches fit before a step (5.5; the latter assumed). Moves
    stay, prefetched experts are dropped after their step. The schedule is TriMoE's, on the loads
    that come.
    """

    def plan(setting: Setting) -> Plan:
        runs = [_run(setting, policy, s, at) for s, at in enumerate(layouts.offline(setting))]
        place = [place for step in zip(*runs, strict=True) for place, _ in step]
        resident = [ids for step in zip(*runs, strict=True) for _, ids in step]
        made = laid_out(f"trimoe, {policy}", setting, np.array(place), "trimoe")
        return made.model_copy(update={"resident": tuple(resident)})

    return plan


def _run(
    setting: Setting, policy: str, sample: int, place: Dimms
) -> list[tuple[Dimms, tuple[int, ...]]]:
    """Return the layout and the residents of every step of one sample."""
    loads = setting.loads[:, sample]
    predictor = LoadPredictor(1, loads.shape[1])
    for load in loads[: setting.warm_up]:
        predictor.update(load[None])
    steps = []
    nobody = np.zeros(loads.shape[1], dtype=np.bool_)
    options = Options(dimms=setting.dimms)
    for load in loads[setting.warm_up :]:
        expected = np.rint(predictor.predict()[0]).astype(np.int64)
        seen = on_layout(setting.source, options, expected, Layout(nobody, place), "predicted")
        place, prefetched = place.copy(), []
        for move in HEURISTICS[policy](seen).migrations:
            if move.kind == "prefetch":
                prefetched.append(move.expert)
            else:
                place[move.expert] = STRIPED if move.dimm is None else move.dimm
        steps.append((place, tuple(sorted(prefetched))))
        predictor.update(load[None])
    return steps
