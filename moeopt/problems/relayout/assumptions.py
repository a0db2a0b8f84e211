"""What TriMoE 4.3 leaves open about migrations, and about making their instances."""

from dataclasses import replace

from moeopt.core.assumptions import Assumption
from moeopt.problems.tri_domain.assumptions import ASSUMPTIONS as FIXED_LAYOUT

OWN = (
    Assumption(
        name="benefit_reading",
        question="What is the benefit that migration tasks are ranked by?",
        words="ranks all feasible migration tasks by their predicted benefit and greedily executes "
        "them in priority order until their cumulative estimated time fills this window budget",
        source="TriMoE 4.3, Expert Migration Decision",
        values={
            "cheapest path": "what each action is said to be for: by how much a prefetch or a "
            "layout change makes its expert's cheapest path cheaper, a rebalancing the larger of "
            "two DIMMs' loads of cold experts; prefetches first, until the windows are full",
            "makespan": "by how much the makespan of the refined schedule falls, tried for every "
            "task anew after each; ends when it no longer falls (the method `benefit-makespan`)",
        },
        default="cheapest path",
        why="The paper triggers each action by its own expert's state, ranks before it executes, "
        "and goes on until the window is full. The other reading is kinder, never worse than no "
        "migration, but schedules the layer anew for every task: it stands beside it as a method "
        "of its own.",
        methods=("benefit-greedy",),
    ),
    Assumption(
        name="windows",
        question="How long is each link free for migrations?",
        words="The overheads of these migrations are intended to be hidden within the overlap "
        "window provided by the current layer's MLP and Attention computations on the GPU",
        source="TriMoE 4.3; 5.5: ~0.68 ms concurrent GPU computation",
        values={
            "one": "as long as the one overlap window, 0.68 ms, PCIe and DIMM-Link alike",
            "two": "DIMM-Link for the 0.68 ms, PCIe for two prefetches whatever they take: 1.48 ms "
            "for DeepSeek-V2",
        },
        default="one",
        why="The paper has one window. One prefetch of Qwen3-235B or GLM-4.5-Air fits into it, "
        "none of DeepSeek-V2 (0.74 ms).",
    ),
    Assumption(
        name="link_sum",
        question="Do moves of experts between different DIMMs wait for each other?",
        words="Leveraging the DIMM-Link's host-free, parallel inter-dimm transfer capability, we "
        "find that the ~0.63 ms cost of migrating up to four experts is entirely masked",
        source="TriMoE 5.5; 4.1: a 25 GB/s host-free, cross-DIMM transfer bus; 4.3: until their "
        "cumulative estimated time fills this window budget",
        values={
            "serial": "yes: all use one bus, each a quarter of the 0.63 ms (RE-C7)",
            "per link": "no: a migration keeps busy the links of the DIMMs that it touches, for "
            "the 0.63 ms in which four are over if they run side by side; a layout change touches "
            "its one DIMM for as long and each of D DIMMs for a Dth of it (RE-C13)",
        },
        default="serial",
        why="The policy's own account is a sum, over a bus, and four such moves are the 0.63 ms. "
        '"Parallel" speaks for the other reading. At 25 GB/s one expert takes 1.4 to 1.9 ms, '
        "which fits neither.",
    ),
)
"""The assumptions of this problem alone: those of heuristics, then those of instances."""

EARLIER = "earlier steps"
"""Value of ``layout_from`` of the first edition's instances."""

SHARED = (
    *("cold_cut", "dimm_choice", "layout_from"),
    *("dimm_share", "gpu_work"),
    *("residents", "batch", "dimms", "ndp_rate"),
)


def _as_here(assumption: Assumption) -> Assumption:
    """Return an assumption of tri_domain's instances with this problem's rules and values."""
    values = {
        value: meaning.replace("TD-C7", "RE-C12") for value, meaning in assumption.values.items()
    }
    if assumption.name == "layout_from":
        values[EARLIER] = "the loads of the first of the steps that the predictor has seen"
    return replace(assumption, values=values)


ASSUMPTIONS = OWN + tuple(_as_here(s) for s in FIXED_LAYOUT if s.name in SHARED)
"""All of them; those after `OWN` are the ones of the layout that is given, as in tri_domain."""
