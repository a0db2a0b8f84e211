"""Expert scheduling on a fixed layout: GPU, CPU or DIMM-NDP for each expert (TriMoE 4.2)."""

from typing import TYPE_CHECKING

from moeopt.core.info import THIS_STEP, ExactMethod, ProblemInfo
from moeopt.core.lazy import lazy_names

if TYPE_CHECKING:
    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .expert import Expert as Expert
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Instance as Instance
    from .solution import Solution as Solution

INFO = ProblemInfo(
    title="Where each expert of a layer runs",
    paper="TriMoE",
    published_rule="trimoe",
    restrictions=None,
    holdout=None,
    exact_methods={"threshold": ExactMethod("threshold", then="cp-sat")},
    absent={
        "restrictions": "a given layout leaves every path open that it allows",
        "holdout": "a schedule is made anew for the loads of every step",
        "robust": "a schedule is made when the loads are known",
    },
    labels=dict.fromkeys(
        ["klotski", "ktransformers", "monde", "fiddler", "fiddler-as-coded", "hybrimoe"],
        "on the given layout",
    ),
    knows={
        "greedy": THIS_STEP,
        "trimoe": THIS_STEP,
        "klotski": THIS_STEP,
        "ktransformers": THIS_STEP,
        "monde": THIS_STEP,
        "fiddler": THIS_STEP,
        "fiddler-as-coded": THIS_STEP,
        "hybrimoe": THIS_STEP,
    },
    unpriced={"TD-C1": "without it nothing has to run"},
)

__getattr__, __dir__ = lazy_names(
    __name__, {"Expert": "expert", "Scheduler": "moeopt.problems.tri_domain.scheduler"}
)
