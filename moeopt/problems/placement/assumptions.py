"""What the sources leave open about experts on the GPU, and how it is read."""

from moeopt.core.assumptions import Assumption

IMPORTANCE = ("importance", "importance-hindsight", "importance-stop")

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        name="per_layer",
        question="How many experts does each layer get?",
        words="the top-K most important experts in each layer",
        source="context-aware CXL-NDP, 4.1 and 5.1",
        values={
            "uniform": "the same K in every layer; slots left over stay empty",
            "remainder": "the same, and one more for the first layers while slots last",
            "global": "the most important ones of all layers, whatever their layers",
        },
        default="uniform",
        why="K has no index of a layer.",
        methods=IMPORTANCE,
    ),
    Assumption(
        name="rules_know",
        question="By which counts do the rules decide?",
        words="prefill-stage activation statistics to guide decoding-stage expert placement",
        source="context-aware CXL-NDP, abstract and 4.1; edge GPU-NDP, III-D; KTransformers, 1, "
        "has offline profiles",
        values={
            "before": "what came before: prompts of the same sequences, and a profile of other "
            "sequences or earlier steps",
            "steps": "the steps themselves: hindsight",
        },
        default="before",
        why="No rule of the papers sees the steps that it decides for.",
        older="steps",
    ),
    Assumption(
        name="dispatch",
        question="Who computes an expert that is on the GPU?",
        words="",
        source="the runtimes of KTransformers and Fiddler compute an expert where it lies, and "
        "hold every expert in the host's memory",
        values={
            "resident": "the GPU, always",
            "free": "in every step the side that ends the layer earlier",
        },
        default="resident",
        why="The runtimes do so.",
    ),
)
