"""placement: which experts live on the GPU for good, and which are computed elsewhere."""

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
    from .known import Known as Known
    from .online import Residents as Residents
    from .solution import Solution as Solution

INFO = ProblemInfo(
    title="Which experts live on the GPU",
    paper="KTransformers",
    published_rule="frequency",
    restrictions={"restriction": None, "fill": False},
    holdout=Stretch("first_step", "steps"),
    robust=True,
    sample_rule="frequency-hindsight",
    exact_methods={"price-and-swap": ExactMethod("lagrangian", then="cp-sat")},
    knows={
        "frequency": "offline profile",
        "per-layer-frequency": "offline profile",
        "importance": "prefill counts and scores",
        "offload-time": HINDSIGHT,
        "uniform-x": "prefill counts",
        "front-loading": NOTHING,
        "last-first": NOTHING,
        "random": NOTHING,
        "fiddler": "offline profile",
        "frequency-hindsight": HINDSIGHT,
        "per-layer-frequency-hindsight": HINDSIGHT,
        "importance-hindsight": HINDSIGHT,
        "uniform-x-hindsight": HINDSIGHT,
        "fiddler-hindsight": HINDSIGHT,
        "frequency-stop": "offline profile, stops in hindsight",
        "per-layer-frequency-stop": "offline profile, stops in hindsight",
        "importance-stop": "prefill counts and scores, stops in hindsight",
        "offload-time-stop": HINDSIGHT,
    },
    unpriced={"PL-C9": "it says what an expert on the GPU is for"},
)

__getattr__, __dir__ = lazy_names(__name__, {"Known": "known", "Residents": "online"})
