"""Layout and schedule decided together: what is resident, striped or localized (TriMoE 4.3)."""

from typing import TYPE_CHECKING, ClassVar

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import EXACT, ExactMethod, Problem, Stretch

from .rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .instance import Instance as Instance
    from .instance import Scenario as Scenario
    from .instance import Solution as Solution

    HEURISTICS: Mapping[str, Callable[..., Solution | None]]


class LayoutProblem(Problem["Instance", "Solution"]):
    """Problem `layout`."""

    name = "layout"
    title = "Where the experts lie"
    paper = "TriMoE"
    published = "trimoe"
    heuristics = RULES
    machine_parts = ("gpu", "cpu", "ndp")
    exact = (ExactMethod("bound-and-pack", ".bound_and_pack", then="cp-sat"),)
    restrictions: ClassVar = {"dimm_slots": None}
    holdout = Stretch("first_window", "windows", spacing="spacing", unseen="held_out")
    sample_rule = "lpt"
    schedulers = (EXACT, "trimoe")
    unpriced: ClassVar = {"LA-C1": "without it nothing has to run"}


PROBLEM = LayoutProblem()

__getattr__, __dir__ = lazy_names(__name__, {"Scenario": "instance"})
