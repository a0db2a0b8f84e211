"""How many slices of each expert the GPU takes over from the NDP units (edge GPU-NDP, Eq. 1-3)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import (
    NOTHING,
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
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Expert as Expert
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


def _dynamic_program() -> Algorithm["Instance"]:
    from . import dynamic_program

    return dynamic_program


def _generator() -> Generator["Instance"]:
    from . import generate

    return Generator(
        generate.Options,
        generate.generate,
        resettled=generate.resettled,
        quantum_ns=generate.QUANTUM_NS,
    )


def _executor() -> "Callable[[Instance, Solution], object]":
    from .execute import execute

    return execute


PROBLEM = Problem(
    name="balance",
    about=__doc__ or "",
    title="What the GPU takes from the NDP units",
    paper="Edge GPU-NDP",
    published_rule="framework",
    restrictions=None,
    holdout=None,
    exact_methods={"dp": ExactMethod(_dynamic_program, then="cp-sat")},
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
    parts=_parts,
    cpsat=_cpsat,
    generator=_generator,
    executor=_executor,
)

__getattr__, __dir__ = lazy_names(__name__, {"Expert": "instance"})
