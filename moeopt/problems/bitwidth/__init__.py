"""How many bits each expert's weights get under a budget (context-aware CXL-NDP 4.2)."""

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
    from .instance import Layer as Layer
    from .solution import Solution as Solution

INFO = ProblemInfo(
    title="How many bits each expert gets",
    paper="Context-aware CXL-NDP",
    published_rule="prefix-split",
    restrictions={"granularity": "expert", "min_count": {}},
    holdout=Phases("phase", ("prefill", "decode")),
    robust=True,
    sample_rule="prefix-split",
    exact_methods={"dp": ExactMethod("dynamic_program", then="cp-sat")},
    absent={"lanes": "widths are no schedule"},
    knows={
        "uniform": NOTHING,
        "prefix-split": "the prompt's importance, and the losses",
        "greedy-marginal": "the losses",
    },
    unpriced={"BW-C1": "without it no expert needs a width"},
)

__getattr__, __dir__ = lazy_names(__name__, {"Layer": "instance", "Expert": "instance"})
