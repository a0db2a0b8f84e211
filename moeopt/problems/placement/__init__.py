"""placement: which experts live on the GPU for good, and which are computed elsewhere."""

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
    from .fields import Known as Known
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Instance as Instance
    from .instance import Solution as Solution
    from .online import Residents as Residents


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
        knew=view.knew,
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
        from_counts=True,
    )


def _executor() -> "Callable[[Instance, Solution], object]":
    from .execute import execute

    return execute


def _later() -> Later["Instance", "Solution"]:
    from . import later
    from .instance import for_other_steps

    return Later(joined=later.joined, unchanged=for_other_steps)


def _robust() -> Robust["Instance"]:
    from .later import decide, draw

    return Robust(draw, decide)


PROBLEM = Problem(
    name="placement",
    about=__doc__ or "",
    title="Which experts live on the GPU",
    paper="KTransformers",
    published_rule="frequency",
    restrictions={"restriction": None, "fill": False},
    holdout=Stretch("first_step", "steps"),
    sample_rule="frequency-hindsight",
    exact_methods={"price-and-swap": ExactMethod(_lagrangian, then="cp-sat")},
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
    parts=_parts,
    cpsat=_cpsat,
    generator=_generator,
    executor=_executor,
    later=_later,
    robust=_robust,
)

__getattr__, __dir__ = lazy_names(__name__, {"Known": "fields", "Residents": "online"})
