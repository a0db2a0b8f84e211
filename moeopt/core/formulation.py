"""The shape that CP-SAT and MILP models share: one method per constraint ID."""

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

from moeopt.core.signals import signals_wait


class _Pandas(ModuleType):
    """Stands for pandas in CP-SAT's interface, and imports it when something of it is used.

    It names pandas' types beside methods for series, which no model here has. To import pandas
    takes 0.2 CPU s, four times as long as the rest.
    """

    def __getattr__(self, name: str) -> object:
        if sys.modules.get("pandas") is self:
            del sys.modules["pandas"]
        return getattr(import_module("pandas"), name)


@contextmanager
def _without_pandas() -> Iterator[None]:
    """Let an import find the names of two types in place of pandas, if that is not imported."""
    pandas = _Pandas("pandas")
    vars(pandas).update(Index=object, Series=object)
    found = sys.modules.setdefault("pandas", pandas)
    try:
        yield
    finally:
        if found is pandas is sys.modules.get("pandas"):
            del sys.modules["pandas"]
        del pandas.Index, pandas.Series


with signals_wait(), _without_pandas():
    from ortools.sat.python import cp_model as cp_model
    from ortools.sat.python.cp_model import IntVar as IntVar
    from ortools.sat.python.cp_model import LinearExpr as LinearExpr
    from ortools.sat.python.cp_model import LinearExprT as LinearExprT

FLOAT_RANGE = 10**7
"""Largest number in a MILP. HiGHS was seen to prove wrong optima at coefficients of 10**9."""

_METHOD = re.compile(r"^([a-z]{2})_c(\d+)_")


class Formulation:
    """A model whose constraints are posted by methods named after their IDs.

    ``td_c1_one_domain`` posts TD-C1. A subclass creates its variables in ``__init__`` and leaves
    every constraint to such a method, so that any of them can be left out.
    """

    parameters: ClassVar[dict[str, object]] = {}
    """What CP-SAT is told beside the limits."""

    whole: Sequence[str] = ()
    """Beginnings of names of variables, beside binaries, that a MILP has to keep whole."""

    model: Any
    """The CP-SAT model, or for `moeopt.core.linear` the MILP once it is posted."""

    objective_unit: int
    """Packed objective of one unit of the model's objective."""

    look: Callable[[], None] = staticmethod(lambda: None)
    """The `checkpoint` of `post`, for a method that posts for longer than a tenth of a second."""

    @classmethod
    def constraints(cls) -> dict[str, str]:
        """Return the constraint IDs of this model with the names of the methods that post them."""
        found = {}
        for name in dir(cls):
            if match := _METHOD.match(name):
                found[f"{match[1].upper()}-C{match[2]}"] = name
        return dict(sorted(found.items()))

    def post(
        self, without: Collection[str] = (), checkpoint: Callable[[], None] = lambda: None
    ) -> None:
        """Post every constraint but those in `without`, calling `checkpoint` before each.

        `checkpoint` may raise to abandon the build when the time limit has passed.
        """
        self.look = checkpoint
        for constraint, method in self.constraints().items():
            if constraint not in without:
                checkpoint()
                getattr(self, method)()

    def start_from(self, solution: Any, objective: Any) -> None:
        """Start from a solution, and allow none that is worse."""
        raise NotImplementedError

    def decode(self, value: Callable[[Any], int]) -> Any:
        """Return the solution that the variables' values stand for."""
        raise NotImplementedError


def first_of(flags: Iterable[IntVar], value: Callable[[IntVar], int]) -> int | None:
    """Return the place of the first variable that is 1; None if none is, a rule being left out."""
    return next((place for place, flag in enumerate(flags) if value(flag)), None)
