"""replication: copies of experts over devices, to balance expert parallelism (EPLB)."""

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
    from .instance import Window as Window


def _parts() -> Parts["Instance", "Solution"]:
    from . import bounds, check, heuristics, view
    from .instance import Instance, Solution

    return Parts(Instance, Solution, check, bounds, heuristics, check, view, heuristics.SETTLEMENTS)


def _cpsat() -> "Callable[[Instance], BuiltModel]":
    from .cpsat import Model

    return Model


def _anneal_and_refute() -> Algorithm["Instance"]:
    from . import anneal_and_refute

    return anneal_and_refute


def _generator() -> Generator["Instance"]:
    from . import generate

    return Generator(
        generate.Options, generate.generate, resettled=generate.resettled, from_counts=True
    )


def _executor() -> "Callable[[Instance, Solution], object]":
    from .execute import execute

    return execute


def _later() -> Later["Instance", "Solution"]:
    from . import later

    return Later(
        unchanged=later.for_other_loads,
        windows_of=later.windows_of,
        joined=later.joined,
    )


def _robust() -> Robust["Instance"]:
    from .later import decide, draw

    return Robust(draw, decide)


PROBLEM = Problem(
    name="replication",
    about=__doc__ or "",
    title="Copies of experts over devices",
    paper="EPLB",
    published_rule="eplb-hierarchical",
    restrictions={"nodes": 1, "move_cost": 0},
    holdout=Stretch("first_window", "windows"),
    exact_methods={"anneal-and-refute": ExactMethod(_anneal_and_refute, then="cp-sat")},
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
    coincide={"lplb": "eplb", "eplb-hierarchical": "eplb"},
    unpriced={
        "RP-C1": "without it no expert needs a copy",
        "RP-C5": "it says what the objective is",
    },
    parts=_parts,
    cpsat=_cpsat,
    generator=_generator,
    executor=_executor,
    later=_later,
    robust=_robust,
)

__getattr__, __dir__ = lazy_names(__name__, {"Window": "instance"})
