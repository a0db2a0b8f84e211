"""How many experts each layer defers, so that GPU and CPU overlap (KTransformers 4.2)."""

from typing import TYPE_CHECKING, ClassVar

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import ExactMethod, Heuristic, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .dynamic_program import Point
    from .instance import Instance as Instance
    from .instance import Solution as Solution
    from .instance import StartTimes as StartTimes
    from .online import Scheduler as Scheduler

    HEURISTICS: Mapping[str, Callable[..., Solution | None]]


class DeferralProblem(Problem["Instance", "Solution"]):
    """Problem `deferral`."""

    name = "deferral"
    title = "How many experts each layer defers"
    paper = "KTransformers"
    published = "saturate"
    heuristics = (
        Heuristic("none", ".heuristics:none", "none"),
        Heuristic("uniform-d", ".heuristics:uniform_d", "none", "all layers' times"),
        Heuristic("saturate", ".heuristics:saturate", "none", "a layer's times"),
    )
    machine_parts = ("gpu", "cpu")
    exact = (ExactMethod("dp", ".dynamic_program"),)
    restrictions: ClassVar = {"max_total_penalty": None}
    absent: ClassVar = {
        "holdout": "times of layers do not depend on which experts a token chooses",
    }
    unpriced: ClassVar = {
        "DE-C1": "it says what is decided",
        "DE-C8": "it says what the makespan is",
    }

    def front(
        self, instance: "Instance", stopped: "Callable[[], bool]"
    ) -> "Sequence[Point] | None":
        """Return every undominated pair of makespan and penalty, or None if told to stop."""
        from .dynamic_program import front

        return front(instance, stopped)


PROBLEM = DeferralProblem()

__getattr__, __dir__ = lazy_names(__name__, {"StartTimes": "instance", "Scheduler": "online"})
