"""What the papers leave open about their systems; a decision's own stand at its problem."""

from moeopt.core.assumptions import Assumption

AS_PUBLISHED = "as published"

KERNEL_SHARES = {"the machine's": 1.0, "oneDNN": 5.4 / 21.3, "AVX-512": 1.8 / 21.3}
"""Kernels of a CPU -> share of the rate of KTransformers' (2.2, 3.2), which presets state."""

ON_CPU = (
    *("ktransformers", "enhanced-ktransformers", "hybrimoe", "fiddler", "fiddler-as-coded"),
    *("collaborative", "llama.cpp"),
)
"""Systems whose experts run on a CPU."""

ASSUMPTIONS = (
    Assumption(
        name="benefit_reading",
        question="What is the benefit that migration tasks are ranked by?",
        words="ranks all feasible migration tasks by their predicted benefit and greedily executes "
        "them in priority order until their cumulative estimated time fills this window budget",
        source="TriMoE 4.3",
        values={
            "makespan": "how much the refined makespan of the forecast falls",
            "cheapest path": "how much the expert's own cheapest path falls",
        },
        default="makespan",
        why="By its cheapest path nearly every expert is better striped, and after some steps none "
        "is left for the units: the kinder reading is the one that looks at all devices.",
        methods=("trimoe",),
    ),
    Assumption(
        name="move_links",
        question="Which links does a move between DIMMs keep busy, and for how long?",
        words="parallel inter-dimm transfer capability ... the ~ 0.63 ms cost of migrating up to "
        "four experts",
        source="TriMoE 5.5",
        values={
            "both ends": "those of both its DIMMs, for the bytes of an expert",
            "one matrix a link": "each of an expert's three matrices goes over a link of its own",
        },
        default="both ends",
        why="A DIMM has one link, and what leaves it goes over that.",
        methods=("trimoe",),
    ),
    Assumption(
        name="move_reads",
        question="Do migrations keep the DIMMs busy that they read and write?",
        words="the overall online migration overhead measured remains limited to below 3.3%",
        source="TriMoE 5.5",
        values={
            "no": "no: they hide in the window, in which nothing else reads experts",
            "yes": "yes, both DIMMs for a read of the expert: what comes later waits",
        },
        default="no",
        why="The paper hides migrations in the window of attention and shared experts.",
        methods=("trimoe",),
    ),
    Assumption(
        name="hot_count",
        question="From which loads does MoNDE know how many experts to upload?",
        words="",
        source="MoNDE; TriMoE 5.1.2",
        values={
            "last step": "from those of the layer's last step",
            "this step": "from those of this step, as if they had been known before",
        },
        default="last step",
        why="Loads are known only when uploads would have to begin.",
        methods=("monde",),
    ),
    Assumption(
        name="deferral",
        question="Are experts deferred in batches?",
        words="",
        source="KTransformers 4.2",
        values={
            "single requests": "with one request alone",
            "all batches": "each token defers its own experts; one that is needed now by some and "
            "later by others is read twice",
        },
        default="single requests",
        why="The paper measures one request, and the second reads cost more than deferral gains.",
        methods=("ktransformers",),
    ),
    Assumption(
        name="prefetched_by",
        question="By which counts does edge GPU-NDP choose the experts that it prefetches?",
        words="leverages activation patterns observed in the prefill stage to guide pre-fetching "
        "decisions for the decode stage",
        source="edge GPU-NDP III-D, Fig. 6",
        values={
            "prompts": "by those of the prompts, behind which they are fetched",
            "offline profile": "by those of texts that are not executed, before the prompts: "
            "what the paper compares with",
        },
        default="prompts",
        why="The prefetch without a data set is the paper's.",
        methods=("edge-gpu-ndp",),
    ),
    Assumption(
        name="affected",
        question="What happens to a token's experts of least weight?",
        words="Expert Skipping, which discards the lowest-scoring experts, and Expert Deferral, "
        "which delays their computation",
        source="KTransformers 6.3, Fig. 13",
        values={
            "deferred": "their outputs join the layer after the next one",
            "skipped": "they are not computed, with which the paper compares deferral",
        },
        default="deferred",
        why="Deferral is the paper's system.",
        methods=("ktransformers",),
    ),
    Assumption(
        name="sockets",
        question="How do experts lie over a CPU's sockets, and who computes them?",
        words="existing inference frameworks like Fiddler and Llama.cpp currently overlook this "
        "distinction, assuming uniform memory accessibility",
        source="KTransformers 2.3, 3.3, Fig. 8",
        values={
            AS_PUBLISHED: "KTransformers cuts each over all sockets, Fiddler and llama.cpp spread "
            "all pages evenly; those that say nothing as KTransformers",
            "tensor-parallel": "each socket holds and computes a slice of every expert",
            "interleaved": "pages lie on all sockets, and each reads half of them over the link",
            "expert-parallel": "each socket holds whole experts and computes those: the baseline "
            "of Fig. 8a",
        },
        default=AS_PUBLISHED,
        why="Each system gets what its paper gives it.",
        methods=ON_CPU,
    ),
    Assumption(
        name="cpu_kernels",
        question="Which rate do a system's kernels on the CPU reach?",
        words="AMX outperforms AVX-512 especially in high-ARI scenarios, achieving a peak "
        "throughput of up to 5.4 TFLOPS, compared to 1.8 TFLOPS with AVX-512",
        source="KTransformers 2.2, 3.2",
        values={
            "the machine's": "that of the machine's file",
            "oneDNN": "5.4 of its 21.3 TFLOPS, as PyTorch's kernels reach with AMX",
            "AVX-512": "1.8 of its 21.3 TFLOPS, as PyTorch's kernels reach without AMX",
        },
        default="the machine's",
        why="The rates were measured on one CPU and one model, and a machine's file is the same "
        "for all systems.",
        methods=("fiddler", "fiddler-as-coded", "llama.cpp"),
    ),
    Assumption(
        name="average_bits",
        question="How many bits do experts on the CXL box have on average?",
        words="Ours-3bit and Ours-2bit denote average 3-bit and 2-bit bitwidth on the NDP device",
        source="context-aware CXL-NDP 5.2",
        values={"3": "three", "2": "two"},
        default="3",
        why="It loses 0.13 points of accuracy on average, two bits lose 3.4 (5.3).",
        methods=("cxl-ndp",),
    ),
)
