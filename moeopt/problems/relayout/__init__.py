"""Which expert migrations fit into the overlap window before the next layer (TriMoE 4.3)."""

from typing import TYPE_CHECKING, ClassVar

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import EXACT, ExactMethod, Heuristic, Phases, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .instance import Expert as Expert
    from .instance import Instance as Instance
    from .instance import Migration as Migration
    from .instance import Solution as Solution

    HEURISTICS: Mapping[str, Callable[..., Solution | None]]


class RelayoutProblem(Problem["Instance", "Solution"]):
    """Problem `relayout`."""

    name = "relayout"
    title = "Which experts migrate before a layer"
    paper = "TriMoE"
    published = "benefit-greedy"
    heuristics = (
        Heuristic("benefit-greedy", ".heuristics:benefit_greedy", "past loads", "predicted loads"),
        Heuristic(
            "benefit-makespan", ".heuristics:benefit_makespan", "past loads", "predicted loads"
        ),
        Heuristic("rebalance-only", ".heuristics:rebalance_only", "past loads", "predicted loads"),
        Heuristic("none", ".heuristics:none", "none"),
    )
    machine_parts = ("gpu", "cpu", "ndp")
    exact = (ExactMethod("evacuation", ".striped_reads", then="cp-sat"),)
    holdout = Phases("loads", ("predicted", "actual"))
    sample_rule = "none"
    schedulers = (EXACT, "trimoe")
    absent: ClassVar = {"restrictions": "windows and free slots are the machine's, not a choice"}
    unpriced: ClassVar = {
        "RE-C1": "without it nothing has to run",
        "RE-C4": "it says what a migration is",
    }


PROBLEM = RelayoutProblem()

__getattr__, __dir__ = lazy_names(__name__, {"Expert": "instance", "Migration": "instance"})
