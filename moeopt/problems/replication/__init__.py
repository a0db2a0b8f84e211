"""replication: copies of experts over devices, to balance expert parallelism (EPLB)."""

from typing import TYPE_CHECKING, ClassVar

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import ExactMethod, Problem, Stretch

from .rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .instance import Instance as Instance
    from .instance import Solution as Solution
    from .instance import Window as Window

    HEURISTICS: Mapping[str, Callable[..., Solution | None]]


class ReplicationProblem(Problem["Instance", "Solution"]):
    """Problem `replication`."""

    name = "replication"
    title = "Copies of experts over devices"
    paper = "EPLB"
    published = "eplb-hierarchical"
    heuristics = RULES
    exact = (ExactMethod("anneal-and-refute", ".anneal_and_refute", then="cp-sat"),)
    restrictions: ClassVar = {"nodes": 1, "move_cost": 0}
    holdout = Stretch("first_window", "windows")
    sample_rule = "eplb-hierarchical"
    absent: ClassVar = {"lanes": "loads are tokens; what a device does when is not decided"}
    unpriced: ClassVar = {
        "RP-C1": "without it no expert needs a copy",
        "RP-C5": "it says what the objective is",
    }
    from_counts = True
    rounds_times = False


PROBLEM = ReplicationProblem()

__getattr__, __dir__ = lazy_names(__name__, {"Window": "instance"})
