"""Which expert migrations fit into the overlap window before the next layer (TriMoE 4.3)."""

from typing import TYPE_CHECKING

from moeopt.core.info import NOTHING, ExactMethod, Phases, ProblemInfo
from moeopt.core.lazy import lazy_names

if TYPE_CHECKING:
    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Expert as Expert
    from .instance import Instance as Instance
    from .solution import Migration as Migration
    from .solution import Solution as Solution

INFO = ProblemInfo(
    title="Which experts migrate before a layer",
    paper="TriMoE",
    published_rule="benefit-greedy",
    restrictions=None,
    holdout=Phases("loads", ("predicted", "actual")),
    sample_rule="none",
    robust=True,
    exact_methods={"evacuation": ExactMethod("striped_reads", then="cp-sat")},
    absent={
        "restrictions": "windows and free slots are the machine's, not a choice",
    },
    knows={
        "benefit-greedy": "predicted loads",
        "benefit-makespan": "predicted loads",
        "rebalance-only": "predicted loads",
        "none": NOTHING,
    },
    unpriced={"RE-C1": "without it nothing has to run", "RE-C4": "it says what a migration is"},
)

__getattr__, __dir__ = lazy_names(__name__, {"Expert": "instance", "Migration": "solution"})
