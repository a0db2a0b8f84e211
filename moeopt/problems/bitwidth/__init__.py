"""How many bits each expert's weights get under a budget (context-aware CXL-NDP 4.2)."""

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
    from .instance import Layer as Layer
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
        precision=view.precision,
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


def _later() -> Later["Instance", "Solution"]:
    from . import later

    return Later(joined=later.joined)


def _robust() -> Robust["Instance"]:
    from .later import decide, draw

    return Robust(draw, decide)


PROBLEM = Problem(
    name="bitwidth",
    about=__doc__ or "",
    title="How many bits each expert gets",
    paper="Context-aware CXL-NDP",
    published_rule="prefix-split",
    restrictions={"granularity": "expert", "min_count": {}},
    holdout=Phases("phase", ("prefill", "decode")),
    sample_rule="prefix-split",
    exact_methods={"dp": ExactMethod(_dynamic_program, then="cp-sat")},
    absent={"lanes": "widths are no schedule"},
    knows={
        "uniform": NOTHING,
        "prefix-split": "the prompt's importance, and the losses",
        "greedy-marginal": "the losses",
    },
    unpriced={"BW-C1": "without it no expert needs a width"},
    parts=_parts,
    cpsat=_cpsat,
    generator=_generator,
    executor=_executor,
    later=_later,
    robust=_robust,
)

__getattr__, __dir__ = lazy_names(__name__, {"Layer": "instance", "Expert": "instance"})
