"""How many experts each layer defers, so that GPU and CPU overlap (KTransformers 4.2)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import (
    NOTHING,
    Algorithm,
    BuiltModel,
    ExactMethod,
    Generator,
    Parts,
    Problem,
)

if TYPE_CHECKING:
    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .dynamic_program import Point
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Instance as Instance
    from .instance import Solution as Solution
    from .instance import StartTimes as StartTimes
    from .online import Scheduler as Scheduler


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
        second_key_radix=bounds.second_key_radix,
    )


def _cpsat() -> "Callable[[Instance], BuiltModel]":
    from .cpsat import Model

    return Model


def _dynamic_program() -> Algorithm["Instance"]:
    from . import dynamic_program

    return dynamic_program


def _generator() -> Generator["Instance"]:
    from . import generate

    return Generator(generate.Options, generate.generate, resettled=generate.resettled)


def _executor() -> "Callable[[Instance, Solution], object]":
    from .execute import execute

    return execute


def _front() -> "Callable[[Instance, Callable[[], bool]], list[Point] | None]":
    from .dynamic_program import front

    return front


PROBLEM = Problem(
    name="deferral",
    about=__doc__ or "",
    title="How many experts each layer defers",
    paper="KTransformers",
    published_rule="saturate",
    restrictions={"max_total_penalty": None},
    holdout=None,
    exact_methods={"dp": ExactMethod(_dynamic_program)},
    absent={
        "holdout": "times of layers do not depend on which experts a token chooses",
        "robust": "there are no loads to forecast",
    },
    knows={
        "none": NOTHING,
        "uniform-d": "all layers' times",
        "saturate": "a layer's times",
    },
    unpriced={"DE-C1": "it says what is decided", "DE-C8": "it says what the makespan is"},
    parts=_parts,
    cpsat=_cpsat,
    generator=_generator,
    executor=_executor,
    front=_front,
)

__getattr__, __dir__ = lazy_names(__name__, {"StartTimes": "instance", "Scheduler": "online"})
