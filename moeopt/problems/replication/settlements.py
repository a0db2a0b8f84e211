"""What the load balancers leave open, and how it is read."""

from moeopt.core.settlements import Settlement

SETTLEMENTS: tuple[Settlement, ...] = (
    Settlement(
        name="same_device",
        question="EPLB may put two copies of one expert on a device. What becomes of the second?",
        words="",
        source="github.com/deepseek-ai/EPLB, README",
        values={
            "exchange": "it changes places with another expert's copy, the one that leaves the "
            "fuller of the two devices with the least",
            "drop": "it is left out, and the other copies have more tokens",
        },
        default="exchange",
        why="kind to the rule: on FlashLB's example EPLB's figure stays as published",
        methods=("eplb", "eplb-hierarchical", "lplb", "static-split", "metro"),
    ),
)
