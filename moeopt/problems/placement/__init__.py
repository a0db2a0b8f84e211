"""placement: which experts live on the GPU for good, and which are computed elsewhere."""

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
    from .fields import Known as Known
    from .instance import Instance as Instance
    from .instance import Solution as Solution
    from .online import Residents as Residents

    HEURISTICS: Mapping[str, Callable[..., Solution | None]]


class PlacementProblem(Problem["Instance", "Solution"]):
    """Problem `placement`."""

    name = "placement"
    title = "Which experts live on the GPU"
    paper = "KTransformers"
    published = "frequency"
    heuristics = RULES
    machine_parts = ("gpu", "cpu")
    exact = (ExactMethod("price-and-swap", ".lagrangian", then="cp-sat"),)
    restrictions: ClassVar = {"restriction": None, "fill": False}
    holdout = Stretch("first_step", "steps")
    sample_rule = "frequency-hindsight"
    unpriced: ClassVar = {"PL-C9": "it says what an expert on the GPU is for"}
    lanes_are_sums = True
    from_counts = True


PROBLEM = PlacementProblem()

__getattr__, __dir__ = lazy_names(__name__, {"Known": "fields", "Residents": "online"})
