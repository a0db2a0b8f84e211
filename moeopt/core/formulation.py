"""The shape that CP-SAT and MILP models share: one method per constraint ID."""

import re
from collections.abc import Callable, Collection
from typing import ClassVar

FLOAT_RANGE = 10**7
"""Largest number in a MILP. HiGHS was seen to prove wrong optima at coefficients of 10**9."""

_METHOD = re.compile(r"^([a-z]{2})_c(\d+)_")


def float_unit(largest: int) -> int:
    """Return the unit, a power of ten from 1000 up, in which `largest` is within `FLOAT_RANGE`.

    MILP solvers work to absolute tolerances of 1e-6: microseconds suit them better than
    nanoseconds, and numbers far above `FLOAT_RANGE` suit none of them.
    """
    unit = 1000
    while largest > FLOAT_RANGE * unit:
        unit *= 10
    return unit


class Formulation:
    """A model whose constraints are posted by methods named after their IDs.

    ``td_c1_one_domain`` posts TD-C1. A subclass creates its variables in ``__init__`` and leaves
    every constraint to such a method, so that any of them can be left out.
    """

    parameters: ClassVar[dict[str, object]] = {}
    """What CP-SAT is told beside the limits."""

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
        for constraint, method in self.constraints().items():
            if constraint not in without:
                checkpoint()
                getattr(self, method)()
