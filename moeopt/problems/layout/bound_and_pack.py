"""Bound and pack: a proven bound and an incumbent for one scenario or for several.

Proof. With one scenario `single_scenario` branches over how many experts the hosts read striped and
localized; its bound is the least over branches that together cover every solution, and so optimal
when the incumbent meets it. With several, `multi_scenario` reports wait and see, the sum of what
the scenarios take by themselves. Where several copies are permitted, wait and see still holds, as a
scenario by itself needs one copy. The lemmas stand in `formulations/layout/spec.md`, sections
"Bound and pack", "Several scenarios" and "Copies".
"""

from moeopt.core.search import Search

from .instance import Instance


def solve(instance: Instance, search: Search) -> None:
    """Solve an instance; incumbents and bounds go to the search as they are found."""
    # Compiled code and solvers are imported when they are run.
    if instance.copies is not None:
        from . import with_copies

        with_copies.solve(instance, search)
    elif len(instance.scenarios) == 1:
        from . import single_scenario

        single_scenario.solve(instance, search)
    else:
        from . import multi_scenario

        multi_scenario.solve(instance, search)
