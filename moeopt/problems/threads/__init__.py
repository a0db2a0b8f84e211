"""Which grain cuts each expert, and which CPU thread runs each part (KTransformers 3.2)."""

from typing import TYPE_CHECKING, ClassVar

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import ExactMethod, Heuristic, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .instance import Expert as Expert
    from .instance import Instance as Instance
    from .instance import Solution as Solution

    HEURISTICS: Mapping[str, Callable[..., Solution | None]]


class ThreadsProblem(Problem["Instance", "Solution"]):
    """Problem `threads`."""

    name = "threads"
    title = "Which thread runs which part of an expert"
    paper = "KTransformers"
    published = "dynamic"
    heuristics = (
        Heuristic("static", ".heuristics:static", "none"),
        Heuristic("static-all-threads", ".heuristics:static_all_threads", "none"),
        Heuristic("dynamic", ".heuristics:dynamic", "current loads"),
        Heuristic("dynamic-round-robin", ".heuristics:dynamic_round_robin", "current loads"),
        Heuristic("lpt", ".heuristics:lpt", "current loads"),
    )
    machine_parts = ("cpu",)
    from_counts = True
    exact = (ExactMethod("fill", ".fill", then="cp-sat"),)
    absent: ClassVar = {
        "restrictions": "any thread may run any part; nothing restricts it",
        "holdout": "parts are shared out anew for the loads of every step",
    }
    unpriced: ClassVar = {
        "TH-C1": "it says what is decided",
        "TH-C2": "without it nothing would run",
    }


PROBLEM = ThreadsProblem()

__getattr__, __dir__ = lazy_names(__name__, {"Expert": "instance"})
