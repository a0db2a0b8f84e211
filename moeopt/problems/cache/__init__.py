"""How many GPU cache ways each layer gets for its experts (CPU-GPU collaborative, III-B)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import (
    HINDSIGHT,
    NOTHING,
    Algorithm,
    BuiltModel,
    ExactMethod,
    Generator,
    Later,
    Parts,
    Problem,
    Robust,
    Stretch,
)

if TYPE_CHECKING:
    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Instance as Instance
    from .instance import Solution as Solution
    from .online import Lru as Lru


def _parts() -> Parts["Instance", "Solution"]:
    from . import bounds, check, heuristics, view
    from .instance import Instance, Solution

    return Parts(
        Instance,
        Solution,
        check,
        bounds,
        heuristics,
        check,
        view,
        heuristics.SETTLEMENTS,
        lanes=view.lanes,
        lanes_are_sums=True,
    )


def _cpsat() -> "Callable[[Instance], BuiltModel]":
    from .cpsat import Model

    return Model


def _dynamic_program() -> Algorithm["Instance"]:
    from . import dynamic_program

    return dynamic_program


def _generator() -> Generator["Instance"]:
    from . import generate

    return Generator(
        generate.Options,
        generate.generate,
        trace_of=generate.trace_of,
    )


def _executor() -> "Callable[[Instance, Solution], object]":
    from .execute import execute

    return execute


def _later() -> Later["Instance", "Solution"]:
    from . import later

    return Later(joined=later.joined, separated=later.separated)


def _robust() -> Robust["Instance"]:
    from .later import decide, draw

    return Robust(draw, decide)


PROBLEM = Problem(
    name="cache",
    about=__doc__ or "",
    title="How many experts of each layer the GPU caches",
    paper="CPU-GPU collaborative",
    published_rule="uniform-ways",
    restrictions=None,
    holdout=Stretch("first_token", "tokens"),
    sample_rule="best-uniform",
    exact_methods={"dp": ExactMethod(_dynamic_program, then="cp-sat")},
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
    parts=_parts,
    cpsat=_cpsat,
    generator=_generator,
    executor=_executor,
    later=_later,
    robust=_robust,
)

__getattr__, __dir__ = lazy_names(__name__, {"Lru": "online"})
