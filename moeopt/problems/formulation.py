"""The shape that CP-SAT and MILP models share: one method per constraint ID."""

import re
from collections.abc import Callable, Collection

_METHOD = re.compile(r"^([a-z]{2})_c(\d+)_")


class Formulation:
    """A model whose constraints are posted by methods named after their IDs.

    ``td_c1_one_domain`` posts TD-C1. A subclass creates its variables in ``__init__`` and leaves
    every constraint to such a method, so that any of them can be left out.
    """

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
