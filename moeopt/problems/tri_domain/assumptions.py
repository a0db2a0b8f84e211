"""What the papers leave open about scheduling on a fixed layout, and about making its instances."""

from moeopt.core.assumptions import Assumption

ASSUMPTIONS = (
    Assumption(
        name="tie_order",
        question="Which of several cheapest paths does the initial assignment take?",
        words="select the most suitable one",
        source="TriMoE 4.2, Expert Execution Cost Model",
        values={
            "cpu": "the CPU, then the GPU, then NDP",
            "gpu": "the GPU, then the CPU, then NDP",
            "ndp": "NDP, then the CPU, then the GPU",
        },
        default="cpu",
        why="Kinder: with the GPU first no family of the instance library has a lower median or "
        "largest excess after refinement.",
        methods=("greedy", "trimoe"),
    ),
    Assumption(
        name="refinement",
        question="Which experts of the bottleneck device may move?",
        words="selects the highest-cost expert ... until no re-assignment can further reduce the "
        "global makespan",
        source="TriMoE 4.2, Bottleneck-Aware Refinement",
        values={
            "one": "its highest-cost expert alone; if that cannot move, the refinement ends",
            "all": "its experts by falling cost: the first whose move lowers the makespan",
        },
        default="one",
        why="The text moves one candidate in each iteration.",
        methods=("trimoe",),
    ),
    Assumption(
        name="delta",
        question="What is the receiving device's increase, which decides between moves that give "
        "the same makespan?",
        words="the move that causes the minimum time increase (delta) on the receiving device",
        source="TriMoE 4.2, Bottleneck-Aware Refinement",
        values={
            "growth": "the growth of its total, less the host's read of the same expert that a "
            "DIMM loses",
            "cost": "the expert's cost on the receiving device (Eq. 1-4)",
        },
        default="growth",
        why="The paper speaks of an increase on the device; this is also the kinder reading.",
        methods=("trimoe",),
    ),
    Assumption(
        name="hot_loading",
        question="How many hot experts does Enhanced KTransformers load onto the GPU?",
        words="prefetching and on-demand loading of hot experts",
        source="TriMoE 5.1.2",
        values={
            "while it helps": "by falling tokens, as long as the later of GPU and CPU gets earlier",
            "none": "none: whatever is not resident runs on the CPU, as in KTransformers itself",
        },
        default="while it helps",
        why="The paper added on-demand loading; the best such number is the kindest.",
        methods=("ktransformers",),
    ),
    Assumption(
        name="striped_experts",
        question="Where does MoNDE, which has GPU and NDP only, run the striped experts of a "
        "layout that is not its own?",
        words="A system that balances load between GPU and NDP",
        source="TriMoE 5.1.2",
        values={
            "gpu": "on the GPU, all of them over PCIe",
            "cpu": "on the CPU, which MoNDE does not use",
        },
        default="gpu",
        why="The system has GPU and NDP only. This reading decides MoNDE's figures on such "
        "layouts.",
        methods=("monde",),
    ),
    Assumption(
        name="cold_cut",
        question="Which experts are cold, that is localized on one DIMM each, in the layout that "
        "is given?",
        words="over 70% of all experts but processes only 8% of tokens",
        source="TriMoE 3.1, Figure 3",
        values={
            "tokens 0.08": "the coldest experts that together hold at most 8 % of the tokens",
            "experts 0.7": "the coldest 70 % of the experts, whatever they hold",
            "experts 0.4": "the coldest 40 % of the experts",
            "experts 0.27": "the coldest 27 % of the experts: about 8 % of the tokens of real "
            "routing",
            "experts 0.15": "the coldest 15 % of the experts",
        },
        default="tokens 0.08",
        why="On real routing the paper's two figures contradict each other. Cold means few "
        "tokens, and this reading is the kinder one.",
    ),
    Assumption(
        name="layout_from",
        question="From which loads is the layout decided?",
        words="an optimized initial layout via offline trace analysis",
        source="TriMoE 4.3",
        values={
            "offline trace": "the summed tokens of all steps of the trace but the executed one",
            "last step": "the loads of the one step before",
        },
        default="offline trace",
        why="The paper's words.",
    ),
    Assumption(
        name="dimm_choice",
        question="To which DIMM does each cold expert go?",
        words="an optimized initial layout via offline trace analysis",
        source="TriMoE 4.3",
        values={
            "balanced": "hottest first, each to the DIMM with the least expected NDP work so far",
            "in turn": "to the DIMMs in turn, hottest first",
        },
        default="balanced",
        why='Kinder; the paper says only "optimized".',
    ),
    Assumption(
        name="dimm_share",
        question="For which part of a striped read's time is each DIMM busy?",
        words="the accumulated DRAM access latency ... targeting DIMM d",
        source="TriMoE 4.2, Eq. 6; Table 1: 8 channels x 2 DIMM",
        values={
            "1": "all of it",
            "1/2": "half of it, since two DIMMs share a channel; needs channels",
        },
        default="1",
        why="Eq. 6 counts the read's latency on DIMM d and has no channels.",
    ),
    Assumption(
        name="gpu_work",
        question="May one expert's transfer overlap another expert's computation on the GPU?",
        words="centralized serial processors ... the cumulative sum of the execution costs",
        source="TriMoE 4.2, Eq. 2 and 5",
        values={
            "one path": "no: an expert's path is one piece of work, its longest part (Eq. 2)",
            "two parts": "yes: computation and PCIe transfers are two resources (TD-C7)",
        },
        default="one path",
        why="Eq. 5 says it. Klotski and HybriMoE are built on the overlap.",
    ),
    Assumption(
        name="residents",
        question="How many routed experts of the layer lie in HBM?",
        words="all routed experts are offloaded to host DIMMs",
        source="TriMoE 4.1; hot experts are prefetched into HBM",
        values={value: f"{value} of them" for value in ("0", "4", "8", "16")},
        default="0",
        why="The paper's words.",
        is_setting=True,
    ),
    Assumption(
        name="batch",
        question="How many tokens are in a step? (Only with the trace at hand.)",
        words="large batch sizes of 256-768",
        source="TriMoE 5.1.3; 512 in 5.3, and 128, 64 and 32 in 5.5",
        values={value: f"{value} tokens" for value in ("64", "128", "256", "512", "768")},
        default="512",
        why="The paper's ablation has it.",
        is_setting=True,
    ),
    Assumption(
        name="dimms",
        question="How many DIMMs have units?",
        words="16 DIMM-NDPs providing high internal bandwidth",
        source="TriMoE Table 1; Figure 9(a) varies it",
        values={value: f"{value} of them" for value in ("8", "16", "32")},
        default="16",
        why="The paper's words. The bandwidth of striped reads stays the same.",
        is_setting=True,
    ),
    Assumption(
        name="ndp_rate",
        question="How fast do the units compute?",
        words="256 multipliers and a multi-level adder tree",
        source="TriMoE 4.1, Table 1",
        values={"0.5": "half as fast", "1": "as the machine says", "2": "twice as fast"},
        default="1",
        why="The paper's words.",
        is_setting=True,
    ),
)
"""The assumptions of `moeopt.problems.tri_domain.heuristics`, then those of instances."""
