"""joint: residents, widths, caches, deferral and KV cache of a plan, decided together."""

from typing import TYPE_CHECKING

from moeopt.core.info import HINDSIGHT, NOTHING, ExactMethod, ProblemInfo, Stretch
from moeopt.core.lazy import lazy_names

if TYPE_CHECKING:
    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .contexts import Context as Context
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Instance as Instance
    from .solution import Solution as Solution

INFO = ProblemInfo(
    title="Residents, widths, caches, deferral and KV cache together",
    paper="KTransformers",
    published_rule="uniform",
    restrictions={"host_bytes": None, "max_loss": None},
    holdout=Stretch("first_step", "steps"),
    sample_rule="in-turn",
    absent={"robust": "its parts have it: placement, cache and bitwidth"},
    exact_methods={"column-lagrangian": ExactMethod("lagrangian", then="cp-sat")},
    knows={
        "uniform": NOTHING,
        "whole-layers": NOTHING,
        "frequency": HINDSIGHT,
        "in-turn": HINDSIGHT,
        "grid": HINDSIGHT,
    },
    unpriced={"JT-C1": "it says what is decided", "JT-C5": "it says what a resident expert is for"},
)

__getattr__, __dir__ = lazy_names(__name__, {"Context": "instance"})
