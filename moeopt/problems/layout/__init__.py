"""Layout and schedule decided together: what is resident, striped or localized (TriMoE 4.3)."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import (
    HINDSIGHT,
    THIS_STEP,
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
    from .instance import Scenario as Scenario
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


def _bound_and_pack() -> Algorithm["Instance"]:
    from . import bound_and_pack

    return bound_and_pack


def _generator() -> Generator["Instance"]:
    from . import generate

    return Generator(generate.Options, generate.generate, resettled=generate.resettled)


def _executor() -> "Callable[[Instance, Solution], object]":
    from .execute import execute

    return execute


def _later() -> Later["Instance", "Solution"]:
    from . import later

    return Later(
        run=later.run,
        adopted=later.adopted,
        windows_of=later.windows_of,
        joined=later.joined,
        is_scheduled=True,
    )


def _robust() -> Robust["Instance"]:
    from .later import decide, draw

    return Robust(draw, decide)


PROBLEM = Problem(
    name="layout",
    about=__doc__ or "",
    title="Where the experts lie",
    paper="TriMoE",
    published_rule="trimoe",
    restrictions={"dimm_slots": None},
    holdout=Stretch("first_window", "windows", spacing="spacing", unseen="held_out"),
    sample_rule="lpt",
    needs=dict.fromkeys(["dual-copies", "two-localized", "copies-by-load"], "copies"),
    exact_methods={"bound-and-pack": ExactMethod(_bound_and_pack, then="cp-sat")},
    labels={
        "trimoe": "cold localized",
        "trimoe-best-schedule": "TriMoE's layout",
        "klotski": "all striped",
        "ktransformers": "all striped",
        "monde": "all localized",
        "fiddler": "all striped",
        "hybrimoe": "all striped",
        "trimoe-layout": "hindsight",
        "trimoe-layout-tuned": "hindsight",
        "lpt": "hindsight",
        "local-search": "hindsight",
        "dual-copies": "striped and on a DIMM by number",
        "two-localized": "on two DIMMs by number",
        "copies-by-load": "hot striped, cold localized, both between",
    },
    knows=dict.fromkeys(
        [
            *("trimoe-layout", "trimoe-layout-tuned", "lpt", "local-search"),
            # of the systems if the instance has no forecast; see view.knew
            *("trimoe", "trimoe-best-schedule", "klotski", "ktransformers", "monde", "fiddler"),
            *("hybrimoe", "copies-by-load"),
        ],
        HINDSIGHT,
    )
    | dict.fromkeys(["dual-copies", "two-localized"], THIS_STEP),
    coincide={"hybrimoe": "ktransformers"},
    unpriced={"LA-C1": "without it nothing has to run"},
    parts=_parts,
    cpsat=_cpsat,
    generator=_generator,
    executor=_executor,
    later=_later,
    robust=_robust,
)

__getattr__, __dir__ = lazy_names(__name__, {"Scenario": "instance"})
