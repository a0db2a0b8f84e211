"""Relayout decided before the loads are known, within the window: readings of TriMoE 4.3."""

import numpy as np

from benchmarks.papers.trimoe import layouts
from benchmarks.papers.trimoe.layouts import Dimms
from benchmarks.papers.trimoe.setting import Setting
from benchmarks.rooms.relayout import HEURISTICS, Options, on_layout
from benchmarks.rooms.sim import predict_run
from benchmarks.rooms.tri_domain import STRIPED, Layout

POLICIES = ("none", "rebalance-only", "benefit-greedy", "benefit-makespan")
"""Heuristics of the problem `relayout`: what "predicted benefit" can mean, and less."""


def decided(setting: Setting) -> tuple[Dimms, tuple[tuple[int, ...], ...]]:
    """Return layout and experts in the GPU's memory, for every layer of a plan.

    Migrations are chosen on predicted loads (Eq. 8) by the setting's policy. Four moves over
    DIMM-Link fit before a step (5.5), and as many prefetches as the assumption `windows` allows.
    Moves stay, prefetched experts are dropped after their step.
    """
    runs = [_run(setting, sample, at) for sample, at in enumerate(layouts.offline(setting))]
    place = [place for step in zip(*runs, strict=True) for place, _ in step]
    resident = [ids for step in zip(*runs, strict=True) for _, ids in step]
    return np.array(place), tuple(resident)


def _run(setting: Setting, sample: int, place: Dimms) -> list[tuple[Dimms, tuple[int, ...]]]:
    """Return the layout and the residents of every step of one sample, from the offline layout."""
    loads = setting.loads[:, sample]
    predicted = np.rint(predict_run(loads[:, None])[setting.warm_up - 1 :, 0]).astype(np.int64)
    kept = layouts.hottest(setting)[sample].tolist()
    resident = np.isin(np.arange(loads.shape[1]), kept)
    policy = HEURISTICS[setting.migrations]
    options = Options(dimms=setting.dimms, windows=setting.windows, link_sum=setting.link_sum)
    steps = []
    for expected in predicted:
        layout = Layout(resident, place)
        seen = on_layout(setting.source, options, expected, layout, "predicted")
        place, prefetched = place.copy(), []
        for move in policy(seen).migrations:
            if move.kind == "prefetch":
                prefetched.append(move.expert)
            else:
                place[move.expert] = STRIPED if move.dimm is None else move.dimm
        steps.append((place, tuple(sorted([*kept, *prefetched]))))
    return steps
