"""Open questions about copies over devices, and how they are read."""

from moeopt.core.assumptions import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        name="same_device",
        question="EPLB may put two copies of one expert on a device. What becomes of the second?",
        words="",
        source="github.com/deepseek-ai/EPLB, README",
        values={
            "exchange": "it is exchanged with another expert's copy, one that leaves the fuller "
            "of the two devices with the least",
            "drop": "it is left out, and the other copies have more tokens",
        },
        default="exchange",
        why="Kind to the rule: EPLB's figure on FlashLB's example stays as published.",
        methods=("eplb", "eplb-hierarchical", "lplb", "static-split", "metro"),
    ),
    Assumption(
        name="kernel",
        question="Which GPU's kernels? Copies pay by what reading an expert costs in tokens.",
        words="",
        source="github.com/ai-dynamo/aiconfigurator at 095f58a, fitted",
        values={
            "h100-fp8": "H100, FP8, TensorRT-LLM: a reading is as much as 74 tokens",
            "a100-bf16": "A100, BF16, SGLang by Triton: 63 tokens",
            "a100-int4": "A100, INT4, SGLang by Marlin: 21 tokens",
        },
        default="h100-fp8",
        why="Measured on ranks of expert parallelism; the others on one GPU.",
        is_setting=True,
        applies={"work": "kernel"},
    ),
)
