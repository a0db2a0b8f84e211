"""Open questions about deferred experts, and how they are read."""

from moeopt.core.assumptions import Assumption

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        name="penalty",
        question="What does deferring so many experts of a layer cost in quality?",
        words="",
        source="KTransformers 4.2 and 6.3 measure accuracy and price nothing",
        values={
            "linear": "as much as there are experts",
            "quadratic": "the square of their number: the later ones weigh more in the output",
            "published": "from Table 2 and 6.3, linear between the stated numbers: DeepSeek-V3, "
            "V2.5 and Qwen2-57B alone",
        },
        default="linear",
        why="It only breaks ties, unless the user limits it.",
    ),
)
