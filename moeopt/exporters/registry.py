"""The targets there are: every module in `moeopt.exporters.targets` that declares some.

A new one is one file in that folder with its `TARGETS`; nothing else has to know of it.
"""

import pkgutil
from functools import cache
from importlib import import_module

from moeopt.core.errors import InputError
from moeopt.exporters import targets
from moeopt.exporters.target import Target


@cache
def all_targets() -> dict[str, Target]:
    """Return name -> target, by problem and name, those for any problem last."""
    found: list[Target] = []
    for info in pkgutil.iter_modules(targets.__path__):
        found += import_module(f"{targets.__name__}.{info.name}").TARGETS
    found.sort(key=lambda target: (not target.problems, target.problems, target.name))
    return {target.name: target for target in found}


def targets_of(problem: str) -> tuple[Target, ...]:
    """Return the targets that hold a plan of this problem and are made for it."""
    return tuple(t for t in all_targets().values() if t.plan and problem in t.problems)


def get_target(name: str, problem: str) -> Target:
    """Return a target for a problem.

    Raises
    ------
    InputError
        If there is none of that name, or it is for another problem; it lists those that fit.
    """
    known = all_targets()
    fitting = ", ".join(target.name for target in known.values() if target.fits(problem))
    if name not in known:
        raise InputError(f"--to: {name!r} is unknown; for {problem} there are: {fitting}")
    if not known[name].fits(problem):
        raise InputError(
            f"--to: {name} does not take {problem}; for {problem} there are: {fitting}"
        )
    return known[name]
