"""How many experts each layer defers, so that GPU and CPU overlap (KTransformers 4.2)."""

from typing import TYPE_CHECKING

from moeopt.core.info import NOTHING, ExactMethod, ProblemInfo
from moeopt.core.lazy import lazy_names

if TYPE_CHECKING:
    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Instance as Instance
    from .online import Scheduler as Scheduler
    from .solution import Solution as Solution
    from .solution import StartTimes as StartTimes

INFO = ProblemInfo(
    title="How many experts each layer defers",
    paper="KTransformers",
    published_rule="saturate",
    restrictions={"max_total_penalty": None},
    holdout=None,
    exact_methods={"dp": ExactMethod("dynamic_program")},
    absent={
        "holdout": "times of layers do not depend on which experts a token chooses",
        "robust": "there are no loads to forecast",
    },
    knows={
        "none": NOTHING,
        "uniform-d": "all layers' times",
        "saturate": "a layer's times",
    },
    unpriced={"DE-C1": "it says what is decided", "DE-C8": "it says what the makespan is"},
)

__getattr__, __dir__ = lazy_names(__name__, {"StartTimes": "solution", "Scheduler": "online"})
