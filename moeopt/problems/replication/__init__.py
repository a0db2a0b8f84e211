"""replication: copies of experts over devices, to balance expert parallelism (EPLB)."""

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
    from .instance import Window as Window
    from .solution import Solution as Solution

INFO = ProblemInfo(
    title="Copies of experts over devices",
    paper="EPLB",
    published_rule="eplb-hierarchical",
    restrictions={"nodes": 1, "move_cost": 0},
    holdout=Stretch("first_window", "windows"),
    exact_methods={"anneal-and-refute": ExactMethod("anneal_and_refute", then="cp-sat")},
    knows={
        "eplb": HINDSIGHT,
        "eplb-hierarchical": HINDSIGHT,
        "flashlb": HINDSIGHT,
        "lplb": HINDSIGHT,
        "static-split": HINDSIGHT,
        "metro": HINDSIGHT,
        "eplb-without-copies": HINDSIGHT,
        "biased": HINDSIGHT,
        "swift-balancer": HINDSIGHT,
        "topology-swaps": HINDSIGHT,
        "longest-first": HINDSIGHT,
        "round-robin": NOTHING,
    },
    absent={"lanes": "loads are tokens; what a device does when is not decided"},
    sample_rule="eplb-hierarchical",
    robust=True,
    coincide={"lplb": "eplb", "eplb-hierarchical": "eplb"},
    unpriced={
        "RP-C1": "without it no expert needs a copy",
        "RP-C5": "it says what the objective is",
    },
)

__getattr__, __dir__ = lazy_names(__name__, {"Window": "instance"})
