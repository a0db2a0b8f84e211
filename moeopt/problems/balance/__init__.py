"""How many slices of each expert the GPU takes over from the NDP units (edge GPU-NDP, Eq. 1-3)."""

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


class BalanceProblem(Problem["Instance", "Solution"]):
    """Problem `balance`."""

    name = "balance"
    title = "What the GPU takes from the NDP units"
    paper = "Edge GPU-NDP"
    published = "framework"
    heuristics = (
        Heuristic("balance-equation", ".heuristics:balance_equation", "current loads"),
        Heuristic("e-max", ".heuristics:e_max", "current loads"),
        Heuristic("framework", ".heuristics:framework", "current loads"),
        Heuristic("monde", ".heuristics:monde", "current loads"),
        Heuristic("all-ndp", ".heuristics:all_ndp", "none"),
        Heuristic("all-gpu", ".heuristics:all_gpu", "none"),
    )
    machine_parts = ("ndp",)
    exact = (ExactMethod("dp", ".dynamic_program", then="cp-sat"),)
    absent: ClassVar = {
        "restrictions": "the GPU may take any slices; nothing restricts it",
        "holdout": "slices are shared out anew for the loads of every step",
    }
    unpriced: ClassVar = {"BA-C1": "it says what is decided"}


PROBLEM = BalanceProblem()

__getattr__, __dir__ = lazy_names(__name__, {"Expert": "instance"})
