"""How many GPU cache ways each layer gets for its experts (CPU-GPU collaborative, III-B)."""

from typing import TYPE_CHECKING

from moeopt.core.info import HINDSIGHT, NOTHING, ExactMethod, ProblemInfo, Stretch
from moeopt.core.lazy import lazy_names

if TYPE_CHECKING:
    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Instance as Instance
    from .online import Lru as Lru
    from .solution import Solution as Solution

INFO = ProblemInfo(
    title="How many experts of each layer the GPU caches",
    paper="CPU-GPU collaborative",
    published_rule="uniform-ways",
    restrictions=None,
    holdout=Stretch("first_token", "tokens"),
    robust=True,
    sample_rule="best-uniform",
    exact_methods={"dp": ExactMethod("dynamic_program", then="cp-sat")},
    absent={
        "restrictions": "slots are the machine's, not a choice",
    },
    knows={
        "uniform-ways": NOTHING,
        "best-uniform": HINDSIGHT,
        "proportional": HINDSIGHT,
        "greedy-marginal": HINDSIGHT,
    },
    unpriced={"CA-C1": "it says what is decided"},
)

__getattr__, __dir__ = lazy_names(__name__, {"Lru": "online"})
