"""What the CXL-NDP paper leaves open about widths, and how it is read here."""

from moeopt.core.assumptions import Assumption

ASSUMPTIONS = (
    Assumption(
        name="budget",
        question="Must a split use up the budget? Off consecutive widths not every sum can be met.",
        words="the bitwidth budget translates to 3 n_4 + 2 n_3 + n_2 = R",
        source="context-aware CXL-NDP, 4.2",
        values={
            "equality": "exactly the budget where widths are evenly spaced; else the best split "
            "within it",
            "at most": "the best split within the budget, whatever the widths",
            "largest sum": "the best split of the largest sum within the budget",
        },
        default="equality",
        why="The words, where they apply: the paper's widths are 1 to 4 bits.",
        methods=("prefix-split",),
    ),
    Assumption(
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
        why="The only published losses by expert. Measured tables (`loss_table`) come first.",
    ),
    Assumption(
        name="budget",
        question="Has each layer a budget of its own, or would the model have one?",
        words="under a per-layer bit-width budget",
        source="context-aware CXL-NDP, 4",
        values={
            "layer": "each layer its own",
            "model": "one for all layers, which the rule splits evenly",
        },
        default="layer",
        why="The paper's words.",
    ),
    Assumption(
        name="weight",
        question="Does an expert's loss count by how often it is used?",
        words="a loss L_i(b), defined as the MSE between the quantized output and a "
        "full-precision reference",
        source="context-aware CXL-NDP, 4.2",
        values={
            "usage": "by its share of the layer's choices: the error of the layer's output",
            "none": "all experts alike: the error of the expert's own output",
        },
        default="usage",
        why="Kind to an order by importance; the paper leaves open whose output it is.",
    ),
)
