"""Expert scheduling on a fixed layout: GPU, CPU or DIMM-NDP for each expert (TriMoE 4.2)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import (
    THIS_STEP,
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
    from .expert import Expert as Expert
    from .heuristics import HEURISTICS as HEURISTICS
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
    )


def _cpsat() -> "Callable[[Instance], BuiltModel]":
    from .cpsat import Model

    return Model


def _threshold() -> Algorithm["Instance"]:
    from . import threshold

    return threshold


def _generator() -> Generator["Instance"]:
    from . import generate

    return Generator(generate.Options, generate.generate, resettled=generate.resettled)


def _executor() -> "Callable[[Instance, Solution], object]":
    from .execute import execute

    return execute


PROBLEM = Problem(
    name="tri_domain",
    about=__doc__ or "",
    title="Where each expert of a layer runs",
    paper="TriMoE",
    published_rule="trimoe",
    restrictions=None,
    holdout=None,
    exact_methods={"threshold": ExactMethod(_threshold, then="cp-sat")},
    absent={
        "restrictions": "a given layout leaves every path open that it allows",
        "holdout": "a schedule is made anew for the loads of every step",
        "robust": "a schedule is made when the loads are known",
    },
    labels=dict.fromkeys(
        ["klotski", "ktransformers", "monde", "fiddler", "fiddler-as-coded", "hybrimoe"],
        "on the given layout",
    ),
    knows={
        "greedy": THIS_STEP,
        "trimoe": THIS_STEP,
        "klotski": THIS_STEP,
        "ktransformers": THIS_STEP,
        "monde": THIS_STEP,
        "fiddler": THIS_STEP,
        "fiddler-as-coded": THIS_STEP,
        "hybrimoe": THIS_STEP,
    },
    unpriced={"TD-C1": "without it nothing has to run"},
    parts=_parts,
    cpsat=_cpsat,
    generator=_generator,
    executor=_executor,
)

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Solution": "instance",
        "Expert": "expert",
        "Scheduler": "moeopt.problems.tri_domain.online",
    },
)
