"""Which experts stay in GPU memory: a knapsack with a least number of items."""

from typing import TYPE_CHECKING, ClassVar

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import ExactMethod, Heuristic, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .instance import Expert as Expert
    from .instance import Instance as Instance
    from .instance import Solution as Solution

    HEURISTICS: Mapping[str, Callable[..., Solution | None]]


class TemplateProblem(Problem["Instance", "Solution"]):
    """Problem `TEMPLATE`."""

    name = "TEMPLATE"
    title = "Which experts stay in GPU memory"
    paper = "textbook"
    published = "densest-first"
    heuristics = (
        Heuristic("densest-first", ".heuristics:densest_first", "none", "sizes and miss costs"),
    )
    exact = (ExactMethod("dp", ".dynamic_program"),)
    restrictions: ClassVar = {"min_kept": 0}
    absent: ClassVar = {
        "holdout": "the data are sizes and costs; nothing comes later",
        "lanes": "kept experts are no schedule",
        "execute": "the objective is a sum over experts; nothing runs",
    }


PROBLEM = TemplateProblem()

__getattr__, __dir__ = lazy_names(__name__, {"Expert": "instance"})
