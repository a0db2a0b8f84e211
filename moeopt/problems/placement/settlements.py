"""What the sources leave open about experts on the GPU, and how it is read."""

from moeopt.core.settlements import Settlement, context_length

IMPORTANCE = ("importance", "importance-hindsight", "importance-stop")
FREQUENCY = tuple(
    f"{rule}{version}"
    for rule in ("frequency", "per-layer-frequency")
    for version in ("", "-hindsight", "-stop")
)

SETTLEMENTS: tuple[Settlement, ...] = (
    Settlement(
        name="alpha",
        question="How much do counts weigh against routing scores in the importance?",
        words="we set the importance-score parameter alpha = 0.5",
        source="context-aware CXL-NDP, 4.1 and 5.3",
        values={"0": "scores alone", "0.5": "both alike", "1": "counts alone"},
        default="0.5",
        why="the paper's own value, stated for its accuracy; where an instance has no scores the "
        "counts stand for them and all values are the same",
        methods=IMPORTANCE,
    ),
    Settlement(
        name="norm",
        question="How are the two quantities of the importance normalized?",
        words="P~ and W~ denote normalized quantities",
        source="context-aware CXL-NDP, 4.1",
        values={
            "layer sum": "divided by the layer's sum",
            "layer maximum": "divided by the layer's maximum",
        },
        default="layer sum",
        why="the paper speaks of activation probability distributions (3.2), which sum to 1",
        methods=IMPORTANCE,
    ),
    Settlement(
        name="per_layer",
        question="How many experts does each layer get?",
        words="we select the top-K most important experts in each layer and migrate them to GPU in "
        "FP16, subject to the GPU memory capacity",
        source="context-aware CXL-NDP, 4.1 and 5.1 (four per layer, two per layer)",
        values={
            "uniform": "the same K in every layer, as many as fit; what is left over stays empty",
            "remainder": "the same, and one more for the first layers as far as slots go",
            "global": "the most important ones of all layers, whatever their layers",
        },
        default="uniform",
        why="K has no index of a layer, and both of the paper's configurations have one number",
        methods=IMPORTANCE,
    ),
    Settlement(
        name="ties",
        question="Which of equally frequent experts comes first?",
        words="",
        source="the ktransformers runtime takes a top-k, whose ties are undefined",
        values={
            "first": "the lower layer, then the lower expert",
            "last": "the higher layer, then the higher expert",
        },
        default="first",
        why="neither is closer to the source nor better; one is fixed, so that plans repeat",
        methods=FREQUENCY,
    ),
    Settlement(
        name="rules_know",
        question="By which counts do the rules decide?",
        words="prefill-stage activation statistics to guide decoding-stage expert placement",
        source="context-aware CXL-NDP, abstract and 4.1; edge GPU-NDP, III-D; KTransformers, 1, "
        "has offline profiles",
        values={
            "before": "what came before the steps: prompts of the same sequences, and a profile of "
            "other sequences or of earlier steps",
            "steps": "the steps themselves: hindsight",
        },
        default="before",
        why="no rule of the papers sees the steps that it decides for",
        older="steps",
    ),
    Settlement(
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
        why="what the runtimes do; with `free` an expert more on the GPU never costs time",
    ),
    Settlement(
        name="prompt_share",
        question="How much of a sequence is its prompt, where a trace does not mark it?",
        words="The input and output sequence lengths are uniformly set to 512 tokens",
        source="edge GPU-NDP, IV-A",
        values={"0.25": "a quarter", "0.5": "half", "0.75": "three quarters"},
        default="0.5",
        why="input and output of the same length, as in that paper's experiments",
    ),
    context_length("0"),
)
