"""What the papers leave open about layouts, about the systems' own ones, and about instances."""

from dataclasses import replace

from moeopt.core.assumptions import Assumption
from moeopt.problems.tri_domain.assumptions import ASSUMPTIONS as ON_A_LAYOUT

from .systems import BEST_CUT

_SHARED = {s.name: s for s in ON_A_LAYOUT}

_OFFLINE = "an optimized initial layout via offline trace analysis"


def _here(assumption: Assumption) -> Assumption:
    """Return an assumption of tri_domain with this problem's constraint IDs."""
    values = {
        value: meaning.replace("TD-C7", "LA-C9") for value, meaning in assumption.values.items()
    }
    return replace(assumption, values=values)


ASSUMPTIONS = (
    replace(
        _SHARED["cold_cut"],
        question="Which experts are cold, that is localized on one DIMM each? (What the share "
        "counts is the forecast.)",
        values={
            **_SHARED["cold_cut"].values,
            BEST_CUT: "as many as make TriMoE's schedule fastest for the forecast loads",
        },
        words=_OFFLINE,
        source="TriMoE 4.3; 3.1 counts cold experts",
        default=BEST_CUT,
        why='The paper calls the layout "optimized"; this is the kindest reading.',
        methods=("trimoe", "trimoe-best-schedule"),
    ),
    replace(
        _SHARED["cold_cut"],
        question="Which experts are cold? (What the share counts is the loads themselves.)",
        methods=("trimoe-layout",),
    ),
    Assumption(
        name="dimm_choice",
        question="To which DIMM does each cold expert go?",
        words=_OFFLINE,
        source="TriMoE 4.3",
        values={
            "balanced": "longest expected NDP work first, each to the DIMM that has least so far",
            "in turn": "to the DIMMs in turn, by falling forecast",
        },
        default="balanced",
        why='Kinder; the paper says only "optimized".',
        methods=("trimoe", "trimoe-best-schedule"),
    ),
    Assumption(
        name="dimm_choice",
        question="To which DIMM does each expert of MoNDE go? (Its paper has one NDP device.)",
        words="",
        source="MoNDE, as described in TriMoE 5.1.2",
        values={
            "in turn": "to the DIMMs in turn, by falling forecast",
            "balanced": "longest expected NDP work first, each to the DIMM that has least so far",
        },
        default="in turn",
        why="Kinder: balanced, the hottest experts' DIMMs idle when the GPU takes these experts.",
        methods=("monde",),
    ),
    *(
        replace(_SHARED[name], methods=("trimoe", "trimoe-layout", "trimoe-layout-tuned"))
        for name in ("tie_order", "refinement")
    ),
    replace(_SHARED["hot_loading"], methods=("ktransformers",)),
    Assumption(
        name="layout_from",
        question="From which loads do the systems decide their layouts?",
        words=_OFFLINE,
        source="TriMoE 4.3",
        values={
            "offline trace": "the tokens of all other windows of the trace, summed",
            "last step": "those of the window before",
            "none": "the loads that the layout is measured on: hindsight",
        },
        default="offline trace",
        why="The paper's words; the optimum is the same in any case.",
    ),
    *(_here(_SHARED[name]) for name in ("dimm_share", "gpu_work")),
    replace(_SHARED["residents"], name="hbm_slots"),
    *(_SHARED[name] for name in ("batch", "dimms", "ndp_rate")),
)
"""The assumptions of `systems` and `heuristics`, then those of instances."""
