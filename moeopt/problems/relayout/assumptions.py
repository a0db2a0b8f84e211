"""What TriMoE 4.3 leaves open about migrations, and about making their instances."""

from dataclasses import replace

from moeopt.core.assumptions import Assumption
from moeopt.problems.tri_domain.assumptions import ASSUMPTIONS as FIXED_LAYOUT

OWN = (
    Assumption(
        name="benefit_reading",
        question="What is the benefit that migration tasks are ranked by?",
        words="ranks all feasible migration tasks by their predicted benefit",
        source="TriMoE 4.3, Expert Migration Decision",
        values={
            "cheapest path": "by how much a prefetch or a layout change makes its expert's "
            "cheapest path cheaper, and a rebalancing the larger of two DIMMs' loads of cold "
            "experts; prefetches first, until the windows are full",
            "makespan": "by how much the refined makespan falls, tried again after each task, "
            "until it no longer falls (method `benefit-makespan`)",
        },
        default="cheapest path",
        why="The paper ranks before it executes and goes on until the window is full. The other "
        "reading is kinder.",
        methods=("benefit-greedy",),
    ),
    Assumption(
        name="windows",
        question="How long is each link free for migrations?",
        words="hidden within the overlap window",
        source="TriMoE 4.3; 5.5: ~0.68 ms concurrent GPU computation",
        values={
            "one": "0.68 ms, PCIe and DIMM-Link alike",
            "two": "DIMM-Link for 0.68 ms, PCIe for two prefetches",
        },
        default="one",
        why="The paper has one window.",
    ),
    Assumption(
        name="link_sum",
        question="Do moves of experts between different DIMMs wait for each other?",
        words="parallel inter-dimm transfer capability ... the ~0.63 ms cost of migrating up to "
        "four experts",
        source="TriMoE 5.5; 4.1: a 25 GB/s transfer bus; 4.3",
        values={
            "serial": "yes: all use one bus, each a quarter of the 0.63 ms (RE-C7)",
            "per link": "no: a migration occupies the links of the DIMMs that it touches for 0.63 "
            "ms; a layout change its own DIMM's for as long and each of D DIMMs' for a Dth of it "
            "(RE-C13)",
        },
        default="serial",
        why="The policy sums times over a bus, and four such moves take 0.63 ms.",
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
        values[EARLIER] = "the first step that the predictor has seen"
    return replace(assumption, values=values)


ASSUMPTIONS = OWN + tuple(_as_here(s) for s in FIXED_LAYOUT if s.name in SHARED)
"""All of them; those after `OWN` are the ones of the layout that is given, as in tri_domain."""
