"""What the sources leave open about a plan's quality, and how it is read."""

from moeopt.core.settlements import Settlement

SETTLEMENTS: tuple[Settlement, ...] = (
    Settlement(
        name="deferral_price",
        question="What does a deferred expert cost in quality, if one that is left out costs its "
        "routing score?",
        words="with 6 affected experts, the average accuracy drop is only 0.5% compared to 13.3% "
        "for Expert Skipping",
        source="KTransformers 6.3 and Figure 13, DeepSeek-V3 on LiveBench",
        values={
            "0.04": "0.5 of 13.3: a twenty-fifth of its score",
            "1": "all of its score, as if it were left out",
            "0": "nothing",
        },
        default="0.04",
        why="the paper's only figures that compare the two; they are of one model, defer the "
        "experts of least score, and here residents may leave others on the CPU",
    ),
)
