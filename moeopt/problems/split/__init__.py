"""Where each layer's attention and routed experts lie, on several GPUs and memory nodes."""

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
    from .heuristics import HEURISTICS as HEURISTICS
    from .instance import Device as Device
    from .instance import Instance as Instance
    from .instance import Layer as Layer
    from .instance import Solution as Solution


def _parts() -> Parts["Instance", "Solution"]:
    from . import bounds, check, heuristics, view
    from .instance import Instance, Solution

    return Parts(Instance, Solution, check, bounds, heuristics, check, view, heuristics.SETTLEMENTS)


def _cpsat() -> "Callable[[Instance], BuiltModel]":
    from .cpsat import Model

    return Model


def _labels() -> Algorithm["Instance"]:
    from . import labels

    return labels


def _generator() -> Generator["Instance"]:
    from . import generate

    return Generator(generate.Options, generate.generate, quantum_ns=generate.QUANTUM_NS)


def _executor() -> "Callable[[Instance, Solution], object]":
    from .execute import execute

    return execute


PROBLEM = Problem(
    name="split",
    about=__doc__ or "",
    title="Layers over several GPUs and memory nodes",
    paper="llama.cpp",
    published_rule="llama.cpp-fit",
    restrictions={"order": None},
    holdout=None,
    exact_methods={"labels": ExactMethod(_labels, then="cp-sat")},
    absent={
        "holdout": "times and sizes do not depend on which experts a token chooses",
        "robust": "there are no loads to forecast",
        "lanes": "nothing overlaps: the sums that `facts` states say all",
    },
    knows={
        "llama.cpp-fit": NOTHING,
        "tensor-split-then-n-cpu-moe": NOTHING,
        "ik-auto-fit": NOTHING,
        "first-fit": NOTHING,
        "one-gpu-only": NOTHING,
    },
    unpriced={
        "SP-C1": "it says what is decided",
        "SP-C5": "it says what the objective is",
        "SP-C6": "it says what the objective is",
    },
    parts=_parts,
    cpsat=_cpsat,
    generator=_generator,
    executor=_executor,
)

__getattr__, __dir__ = lazy_names(__name__, {"Device": "instance", "Layer": "instance"})
