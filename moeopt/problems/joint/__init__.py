"""joint: residents, widths, caches, deferral and KV cache of a plan, decided together."""

from typing import TYPE_CHECKING, ClassVar

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import ExactMethod, Heuristic, Problem, Stretch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .instance import CacheOption as CacheOption
    from .instance import Instance as Instance
    from .instance import Solution as Solution

    HEURISTICS: Mapping[str, Callable[..., Solution | None]]


class JointProblem(Problem["Instance", "Solution"]):
    """Problem `joint`."""

    name = "joint"
    title = "Residents, widths, caches, deferral and KV cache together"
    paper = "KTransformers"
    published = "uniform"
    heuristics = (
        Heuristic("uniform", ".heuristics:uniform", "none"),
        Heuristic("whole-layers", ".heuristics:whole_layers", "none"),
        Heuristic("frequency", ".heuristics:frequency", "oracle"),
        Heuristic("in-turn", ".heuristics:in_turn", "oracle"),
        Heuristic("grid", ".heuristics:grid", "oracle"),
    )
    machine_parts = ("gpu", "cpu")
    exact = (ExactMethod("column-lagrangian", ".lagrangian", then="cp-sat"),)
    restrictions: ClassVar = {"host_bytes": None, "max_loss": None}
    holdout = Stretch("first_step", "steps")
    sample_rule = "in-turn"
    unpriced: ClassVar = {
        "JT-C1": "it says what is decided",
        "JT-C5": "it says what a resident expert is for",
    }
    lanes_are_sums = True


PROBLEM = JointProblem()

__getattr__, __dir__ = lazy_names(__name__, {"CacheOption": "instance"})
