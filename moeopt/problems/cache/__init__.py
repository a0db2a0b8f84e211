"""How many GPU cache ways each layer gets for its experts (CPU-GPU collaborative, III-B)."""

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
    from .instance import Instance as Instance
    from .instance import Solution as Solution
    from .online import Lru as Lru

    HEURISTICS: Mapping[str, Callable[..., Solution | None]]


class CacheProblem(Problem["Instance", "Solution"]):
    """Problem `cache`."""

    name = "cache"
    title = "How many experts of each layer the GPU caches"
    paper = "CPU-GPU collaborative"
    published = "uniform-ways"
    heuristics = (
        Heuristic("uniform-ways", ".heuristics:uniform_ways", "none"),
        Heuristic("best-uniform", ".heuristics:best_uniform", "oracle"),
        Heuristic("proportional", ".heuristics:proportional", "oracle"),
        Heuristic("greedy-marginal", ".heuristics:greedy_marginal", "oracle"),
    )
    machine_parts = ("gpu", "cpu")
    exact = (ExactMethod("dp", ".dynamic_program", then="cp-sat"),)
    holdout = Stretch("first_token", "tokens")
    sample_rule = "best-uniform"
    absent: ClassVar = {"restrictions": "slots are the machine's, not a choice"}
    unpriced: ClassVar = {"CA-C1": "it says what is decided"}
    lanes_are_sums = True


PROBLEM = CacheProblem()

__getattr__, __dir__ = lazy_names(__name__, {"Lru": "online"})
