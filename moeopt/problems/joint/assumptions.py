"""What the sources leave open about a plan's quality, and how it is read."""

from dataclasses import replace

from moeopt.core.assumptions import Assumption
from moeopt.problems.bitwidth.assumptions import ASSUMPTIONS as OF_WIDTHS

ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        name="deferral_price",
        question="What does a deferred expert cost in quality, as a share of its routing score?",
        words="with 6 affected experts, the average accuracy drop is only 0.5% compared to 13.3% "
        "for Expert Skipping",
        source="KTransformers 6.3 and Figure 13, DeepSeek-V3 on LiveBench",
        values={
            "0.04": "0.5 of 13.3",
            "1": "as much as an expert that is left out",
            "0": "nothing",
        },
        default="0.04",
        why="The paper's only figures that compare deferring with skipping.",
    ),
    *(
        replace(s, values={value: s.values[value] for value in s.values if value != "convex"})
        for s in OF_WIDTHS
        if s.name == "losses"
    ),
    Assumption(
        name="one_bit_loss",
        question="Which share of an expert's output goes wrong at one bit? (Published losses are "
        "absolute, a deferred expert's are shares.)",
        words="",
        source="Mixture Compressor, arXiv:2410.06270, whose losses the law is fitted to",
        values={
            "0.6": "what normal weights lose that keep their signs and mean magnitude",
            "0.3": "half of that",
            "1": "all of it, as if the expert were left out",
        },
        default="0.6",
        why="It is sqrt(1 - 2 / pi), which needs no model's weights.",
    ),
)
