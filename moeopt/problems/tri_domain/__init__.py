"""Expert scheduling on a fixed layout: GPU, CPU or DIMM-NDP for each expert (TriMoE 4.2)."""

from typing import TYPE_CHECKING, ClassVar

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import ExactMethod, Problem

from .rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .expert import Expert as Expert
    from .instance import Instance as Instance
    from .instance import Solution as Solution

    HEURISTICS: Mapping[str, Callable[..., Solution | None]]


class TriDomainProblem(Problem["Instance", "Solution"]):
    """Problem `tri_domain`."""

    name = "tri_domain"
    title = "Where each expert of a layer runs"
    paper = "TriMoE"
    published = "trimoe"
    heuristics = RULES
    machine_parts = ("gpu", "cpu", "ndp")
    exact = (ExactMethod("threshold", ".threshold", then="cp-sat"),)
    absent: ClassVar = {
        "restrictions": "a given layout leaves every path open that it allows",
        "holdout": "a schedule is made anew for the loads of every step",
    }
    unpriced: ClassVar = {"TD-C1": "without it nothing has to run"}

    def compile_others(self) -> None:
        """Compile the kernels of the online scheduler."""
        from .online import compile_kernels

        compile_kernels()


PROBLEM = TriDomainProblem()

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Solution": "instance",
        "Expert": "expert",
        "Scheduler": "moeopt.problems.tri_domain.online",
    },
)
