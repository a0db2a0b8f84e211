"""Open questions about layers over several devices, and how they are read."""

from moeopt.core.assumptions import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        name="margin",
        question="How much of each GPU does a fit leave free beside its buffers?",
        words="target margin per device for --fit",
        source="llama.cpp, --fit-target, 1024 MiB unless told; ik_llama.cpp, --fit-margin",
        values={
            "0": "nothing: the buffers of an instance have it in them",
            "1024": "1,024 MiB",
        },
        default="0",
        why="Kinder; an instance's buffers include drivers and displays.",
        methods=("llama.cpp-fit", "ik-auto-fit"),
    ),
    Assumption(
        name="leave",
        question="Which layers' experts leave the GPUs first?",
        words="keep the Mixture of Experts (MoE) weights of the first N layers in the CPU",
        source="llama.cpp, --n-cpu-moe; users' overrides (-ot) take either end",
        values={"first": "those of the first layers", "last": "those of the last layers"},
        default="first",
        why="The option's own words.",
        methods=("tensor-split-then-n-cpu-moe", "one-gpu-only"),
    ),
)
