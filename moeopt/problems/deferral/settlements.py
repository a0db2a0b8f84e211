"""What KTransformers leaves open about deferring experts, and how it is read."""

from moeopt.core.settlements import Settlement

SETTLEMENTS: tuple[Settlement, ...] = (
    Settlement(
        name="saturation",
        question="When is the CPU saturated, if it is never full or full only at the cap?",
        words="deferring the minimum number of experts required to achieve full CPU utilization "
        "while ensuring at least 2 immediate experts per layer",
        source="KTransformers 4.2",
        values={
            "least period": "with the least number that reaches the smallest period of a layer",
            "full cpu": "with the least number at which the CPU is never idle; as many as are "
            "allowed where it always is",
        },
        default="least period",
        why="more experts gave no further throughput benefit in the paper's example; where the "
        "CPU can be full the two agree, and where it cannot this one defers no more than helps",
        methods=("saturate",),
    ),
    Settlement(
        name="unequal_layers",
        question="Which number is deferred where layers differ?",
        words="we conducted a comprehensive performance analysis of a single DeepSeek-V3 layer",
        source="KTransformers 4.2",
        values={
            "average": "one number, that of the average layer",
            "each": "each layer its own number, from its own times",
        },
        default="average",
        why="the paper has one number for a model, from one layer that stands for all",
        methods=("saturate",),
    ),
    Settlement(
        name="penalty",
        question="What does deferring so many experts of a layer cost in quality?",
        words="",
        source="KTransformers 4.2 and 6.3 measure accuracy and price nothing",
        values={
            "linear": "as much as there are experts",
            "quadratic": "the square of their number: the later ones weigh more in the output",
        },
        default="linear",
        why="it only breaks ties between schedules of the same length, unless the user limits it",
    ),
)
