"""How many slices of each expert the GPU takes over from the NDP units (edge GPU-NDP, Eq. 1-3)."""

from typing import TYPE_CHECKING

from moeopt.core.info import NOTHING, THIS_STEP, ExactMethod, ExactModel, ProblemInfo
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
    from .solution import Solution as Solution

INFO = ProblemInfo(
    title="What the GPU takes from the NDP units",
    paper="Edge GPU-NDP",
    published_rule="framework",
    restrictions=None,
    holdout=None,
    exact_methods={
        "dp": ExactMethod("dynamic_program", then="cp-sat-closed-form"),
        "cp-sat-closed-form": ExactModel("cpsat_closed_form", "cp-sat"),
        "cp-sat-completion-times": ExactModel("cpsat_completion_times", "cp-sat"),
    },
    absent={
        "restrictions": "the GPU may take any slices; nothing restricts it",
        "holdout": "slices are shared out anew for the loads of every step",
        "robust": "slices are shared out when the loads are known",
    },
    knows={
        "balance-equation": THIS_STEP,
        "e-max": THIS_STEP,
        "framework": THIS_STEP,
        "monde": THIS_STEP,
        "all-ndp": NOTHING,
        "all-gpu": NOTHING,
    },
    unpriced={"BA-C1": "it says what is decided"},
)

__getattr__, __dir__ = lazy_names(__name__, {"Expert": "instance"})
