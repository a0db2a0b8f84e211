"""Which experts stay in GPU memory: a knapsack with a least number of items."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import Algorithm, BuiltModel, ExactMethod, Generator, Parts, Problem

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
    from . import bounds, check, heuristics, view
    from .instance import Instance, Solution

    return Parts(Instance, Solution, check, bounds, heuristics, check, view)


def _cpsat() -> "Callable[[Instance], BuiltModel]":
    from .cpsat import Model

    return Model


def _dynamic_program() -> Algorithm["Instance"]:
    from . import dynamic_program

    return dynamic_program


def _generator() -> Generator["Instance"]:
    from . import generate

    return Generator(generate.Options, generate.generate)


PROBLEM = Problem(
    name="TEMPLATE",
    about=__doc__ or "",
    title="Which experts stay in GPU memory",
    paper="textbook",
    published_rule="densest-first",
    restrictions={"min_kept": 0},
    holdout=None,
    exact_methods={"dp": ExactMethod(_dynamic_program)},
    absent={
        "holdout": "the data are sizes and costs; nothing comes later",
        "robust": "there are no loads to forecast",
        "lanes": "kept experts are no schedule",
        "executor": "the objective is a sum over experts; nothing runs",
    },
    knows={
        "densest-first": "sizes and miss costs",
    },
    parts=_parts,
    cpsat=_cpsat,
    generator=_generator,
)

__getattr__, __dir__ = lazy_names(__name__, {"Expert": "instance"})
