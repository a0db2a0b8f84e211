"""Which expert migrations fit into the overlap window before the next layer (TriMoE 4.3)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import (
    NOTHING,
    Algorithm,
    BuiltModel,
    ExactMethod,
    Generator,
    Later,
    Parts,
    Phases,
    Problem,
    Robust,
)

if TYPE_CHECKING:
    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Expert as Expert
    from .instance import Instance as Instance
    from .instance import Migration as Migration
    from .instance import Solution as Solution


def _parts() -> Parts["Instance", "Solution"]:
    from . import bounds, check, heuristics, settlements, view
    from .instance import Instance, Solution

    return Parts(
        Instance,
        Solution,
        check,
        bounds,
        heuristics,
        check,
        view,
        settlements.SETTLEMENTS,
        lanes=view.lanes,
        knew=view.knew,
    )


def _cpsat() -> "Callable[[Instance], BuiltModel]":
    from .cpsat import Model

    return Model


def _striped_reads() -> Algorithm["Instance"]:
    from . import striped_reads

    return striped_reads


def _generator() -> Generator["Instance"]:
    from . import generate

    return Generator(generate.Options, generate.generate, resettled=generate.resettled)


def _executor() -> "Callable[[Instance, Solution], object]":
    from .fixed_layout import execute

    return execute


def _later() -> Later["Instance", "Solution"]:
    from . import later

    return Later(run=later.run, adopted=later.adopted, is_scheduled=True)


def _robust() -> Robust["Instance"]:
    from .later import decide, draw

    return Robust(draw, decide)


PROBLEM = Problem(
    name="relayout",
    about=__doc__ or "",
    title="Which experts migrate before a layer",
    paper="TriMoE",
    published_rule="benefit-greedy",
    restrictions=None,
    holdout=Phases("loads", ("predicted", "actual")),
    sample_rule="none",
    exact_methods={"evacuation": ExactMethod(_striped_reads, then="cp-sat")},
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
    parts=_parts,
    cpsat=_cpsat,
    generator=_generator,
    executor=_executor,
    later=_later,
    robust=_robust,
)

__getattr__, __dir__ = lazy_names(__name__, {"Expert": "instance", "Migration": "instance"})
