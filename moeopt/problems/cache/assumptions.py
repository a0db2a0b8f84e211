"""Open questions about the ways of a cache, and how they are read."""

from moeopt.core.assumptions import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        name="ways",
        question="How many ways has each cached layer?",
        words="Configuring the GPU memory as a 4-way set-associative cache results in 14 indexes",
        source="CPU-GPU collaborative III-B",
        values={
            "twice top-k": "twice the experts of a token: 4 for a model with top-2 routing",
            "top-k": "as many as a token has: its (28, 2)",
            "all layers": "as many as there are with every layer cached",
        },
        default="twice top-k",
        why="The paper's example; `best-uniform` tries every M.",
        methods=("uniform-ways",),
    ),
)
