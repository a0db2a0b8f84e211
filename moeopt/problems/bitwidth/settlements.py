"""What the CXL-NDP paper leaves open about widths, and how it is read here."""

from moeopt.core.settlements import Settlement

_SPLIT = ("prefix-split",)

SETTLEMENTS = (
    Settlement(
        name="budget",
        question="Must a split use up the budget? Off consecutive widths not every sum can be met.",
        words="the bitwidth budget translates to 3 n_4 + 2 n_3 + n_2 = R",
        source="context-aware CXL-NDP, 4.2",
        values={
            "equality": "exactly the budget where widths are evenly spaced, so that splits reach "
            "every sum; for other widths the best split within it",
            "at most": "the best split within the budget, whatever the widths",
            "largest sum": "the largest sum within the budget that any split has, and the best of "
            "the splits with that sum",
        },
        default="equality",
        why="the words, where they have a meaning: the paper's widths are 1 to 4 bits. Elsewhere "
        "the formula's purpose, the best split that the budget allows",
        methods=_SPLIT,
    ),
    Settlement(
        name="importance_ties",
        question="Which of equally important experts comes first?",
        words="index experts in descending order of importance",
        source="context-aware CXL-NDP, 4.2",
        values={
            "gain": "the one that loses more at the narrowest width than at the widest",
            "number": "the one with the lower number",
        },
        default="gain",
        why="the paper does not say; kind to the rule, which has the loss table at hand",
        methods=_SPLIT,
    ),
    Settlement(
        name="losses",
        question="What do experts lose at each width, where nobody has measured it?",
        words="",
        source="context-aware CXL-NDP, 4.2, measures its own models and shows no table of losses",
        values={
            "fitted": "by a law with the spread and fall of Mixtral's measured losses",
            "alike": "by the same law, all experts of a layer alike",
            "fourfold": "by the same law, but each bit divides a loss by four",
            "convex": "widely spread, and each bit divides a loss by four",
        },
        default="fitted",
        why="the only per-expert losses that are published; what a rule loses hangs on this more "
        "than on all else, so measured tables (`loss_table`) come first",
    ),
    Settlement(
        name="budget",
        question="Has each layer a budget of its own, or would the model have one?",
        words="under a per-layer bit-width budget",
        source="context-aware CXL-NDP, 4",
        values={
            "layer": "each layer its own",
            "model": "one for all layers, which the rule splits evenly",
        },
        default="layer",
        why="the words; what a model gains by moving bits from layer to layer no rule that goes "
        "layer by layer can have",
    ),
    Settlement(
        name="weight",
        question="Does an expert's loss count by how often it is used?",
        words="we measure a loss L_i(b), defined as the MSE between the quantized output and a "
        "full-precision reference",
        source="context-aware CXL-NDP, 4.2",
        values={
            "usage": "by its share of the layer's choices: the error of the layer's output",
            "none": "all experts alike: the error of the expert's own output",
        },
        default="usage",
        why="whose output is open; by the layer's output, importance says something about losses, "
        "which is kind to an order by importance",
    ),
    Settlement(
        name="norm",
        question="What are a layer's counts and scores divided by before they are mixed?",
        words="P~ and W~ denote normalized quantities",
        source="context-aware CXL-NDP, 4.1",
        values={"sum": "their sum", "max": "the largest of them"},
        default="sum",
        why="shares of the layer's tokens; the two differ only where routing scores are known",
    ),
    Settlement(
        name="budget_rounding",
        question="An average width may make the budget fractional.",
        words="R = E_NDP (b - 1)",
        source="context-aware CXL-NDP, 4.2",
        values={"down": "rounded down", "up": "rounded up"},
        default="down",
        why="rounded up it would exceed the average that is asked for",
    ),
)
