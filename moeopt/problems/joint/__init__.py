"""joint: residents, widths, caches, deferral and KV cache of a plan, decided together."""

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
    Stretch,
)

if TYPE_CHECKING:
    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Context as Context
    from .instance import Instance as Instance
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
        lanes_are_sums=True,
    )


def _cpsat() -> "Callable[[Instance], BuiltModel]":
    from .cpsat import Model

    return Model


def _lagrangian() -> Algorithm["Instance"]:
    from . import lagrangian

    return lagrangian


def _generator() -> Generator["Instance"]:
    from . import generate

    return Generator(
        generate.Options,
        generate.generate,
        resettled=generate.resettled,
        trace_of=generate.trace_of,
    )


def _executor() -> "Callable[[Instance, Solution], object]":
    from .execute import execute

    return execute


def _later() -> Later["Instance", "Solution"]:
    from . import later

    return Later(run=later.run)


PROBLEM = Problem(
    name="joint",
    about=__doc__ or "",
    title="Residents, widths, caches, deferral and KV cache together",
    paper="KTransformers",
    published_rule="uniform",
    restrictions={"host_bytes": None, "max_loss": None},
    holdout=Stretch("first_step", "steps"),
    sample_rule="in-turn",
    absent={"robust": "its parts have it: placement, cache and bitwidth"},
    exact_methods={"column-lagrangian": ExactMethod(_lagrangian, then="cp-sat")},
    knows={
        "uniform": NOTHING,
        "whole-layers": NOTHING,
        "frequency": HINDSIGHT,
        "in-turn": HINDSIGHT,
        "grid": HINDSIGHT,
    },
    unpriced={"JT-C1": "it says what is decided", "JT-C5": "it says what a resident expert is for"},
    parts=_parts,
    cpsat=_cpsat,
    generator=_generator,
    executor=_executor,
    later=_later,
)

__getattr__, __dir__ = lazy_names(__name__, {"Context": "instance"})
