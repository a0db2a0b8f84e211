"""What KTransformers leaves open about its queue of parts, and how it is read here."""

from moeopt.core.assumptions import Assumption

ASSUMPTIONS = (
    Assumption(
        name="input_gb_s",
        question="How fast does a thread load the input of an expert's tokens?",
        words="",
        source="KTransformers 3.2",
        values={
            "20": "20 GB/s: activations come from memory, which all threads read",
            "60": "60 GB/s: activations come from the cache that cores share",
        },
        default="20",
        why="Kinder to the coarse parts of a static schedule.",
    ),
)
