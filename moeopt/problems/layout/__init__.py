"""Layout and schedule decided together: what is resident, striped or localized (TriMoE 4.3)."""

from typing import TYPE_CHECKING

from moeopt.core.info import HINDSIGHT, THIS_STEP, ExactMethod, ProblemInfo, Stretch
from moeopt.core.lazy import lazy_names

if TYPE_CHECKING:
    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Instance as Instance
    from .instance import Scenario as Scenario
    from .solution import Solution as Solution

INFO = ProblemInfo(
    title="Where the experts lie",
    paper="TriMoE",
    published_rule="trimoe",
    restrictions={"dimm_slots": None},
    holdout=Stretch("first_window", "windows", spacing="spacing", unseen="held_out"),
    sample_rule="lpt",
    robust=True,
    needs=dict.fromkeys(["dual-copies", "two-localized", "copies-by-load"], "copies"),
    exact_methods={"bound-and-pack": ExactMethod("bound_and_pack", then="cp-sat")},
    labels={
        "trimoe": "cold localized",
        "trimoe-best-schedule": "TriMoE's layout",
        "klotski": "all striped",
        "ktransformers": "all striped",
        "monde": "all localized",
        "fiddler": "all striped",
        "hybrimoe": "all striped",
        "trimoe-layout": "hindsight",
        "trimoe-layout-tuned": "hindsight",
        "lpt": "hindsight",
        "local-search": "hindsight",
        "dual-copies": "striped and on a DIMM by number",
        "two-localized": "on two DIMMs by number",
        "copies-by-load": "hot striped, cold localized, both between",
    },
    knows=dict.fromkeys(
        [
            *("trimoe-layout", "trimoe-layout-tuned", "lpt", "local-search"),
            # of the systems if the instance has no forecast; see view.knew
            *("trimoe", "trimoe-best-schedule", "klotski", "ktransformers", "monde", "fiddler"),
            *("hybrimoe", "copies-by-load"),
        ],
        HINDSIGHT,
    )
    | dict.fromkeys(["dual-copies", "two-localized"], THIS_STEP),
    coincide={"hybrimoe": "ktransformers"},
    unpriced={"LA-C1": "without it nothing has to run"},
)

__getattr__, __dir__ = lazy_names(__name__, {"Scenario": "instance"})
