"""How many bits each expert's weights get under a budget (context-aware CXL-NDP 4.2)."""

from typing import TYPE_CHECKING, ClassVar

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import ExactMethod, Heuristic, Phases, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .instance import Expert as Expert
    from .instance import Instance as Instance
    from .instance import Layer as Layer
    from .instance import Solution as Solution

    HEURISTICS: Mapping[str, Callable[..., Solution | None]]


class BitwidthProblem(Problem["Instance", "Solution"]):
    """Problem `bitwidth`."""

    name = "bitwidth"
    title = "How many bits each expert gets"
    paper = "Context-aware CXL-NDP"
    published = "prefix-split"
    heuristics = (
        Heuristic("uniform", ".heuristics:uniform", "none"),
        Heuristic(
            "prefix-split",
            ".prefix_split:prefix_split",
            "past loads",
            "the prompt's importance, and the losses",
        ),
        Heuristic("greedy-marginal", ".heuristics:greedy_marginal", "none", "the losses"),
    )
    exact = (ExactMethod("dp", ".dynamic_program", then="cp-sat"),)
    restrictions: ClassVar = {"granularity": "expert", "min_count": {}}
    rounds_times = False
    holdout = Phases("phase", ("prefill", "decode"))
    sample_rule = "prefix-split"
    absent: ClassVar = {"lanes": "widths are no schedule"}
    unpriced: ClassVar = {"BW-C1": "without it no expert needs a width"}

    def precision(self, instance: "Instance", solution: "Solution") -> str | None:
        """Return a sentence about the loss table's rounding, if the instance states it."""
        from .view import precision

        return precision(instance, solution)


PROBLEM = BitwidthProblem()

__getattr__, __dir__ = lazy_names(__name__, {"Layer": "instance", "Expert": "instance"})
