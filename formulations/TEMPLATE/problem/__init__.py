"""Which experts stay in GPU memory: a knapsack with a least number of items."""

from typing import TYPE_CHECKING

from moeopt.core.info import ExactMethod, ProblemInfo
from moeopt.core.lazy import lazy_names

if TYPE_CHECKING:
    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Expert as Expert
    from .instance import Instance as Instance
    from .solution import Solution as Solution

INFO = ProblemInfo(
    title="Which experts stay in GPU memory",
    paper="textbook",
    published_rule="densest-first",
    restrictions={"min_kept": 0},
    holdout=None,
    exact_methods={"dp": ExactMethod("dynamic_program")},
    absent={
        "holdout": "the data are sizes and costs; nothing comes later",
        "robust": "there are no loads to forecast",
        "lanes": "kept experts are no schedule",
        "executor": "the objective is a sum over experts; nothing runs",
    },
    knows={
        "densest-first": "sizes and miss costs",
    },
)

__getattr__, __dir__ = lazy_names(__name__, {"Expert": "instance"})
