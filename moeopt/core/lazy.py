"""Public names of a package, imported when first used: importing the package costs nothing."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version


def installed(distribution: str) -> bool:
    """Tell whether a package that is optional is installed, without importing it."""
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


EVERY_PROBLEM = {
    "Instance": "instance",
    "Solution": "instance",
    "CONSTRAINTS": "check",
    "OBJECTIVE": "check",
    "violations": "check",
    "objective": "check",
    "lower_bound": "bounds",
}
"""Public name of every problem's package -> the module it lives in."""

HEURISTICS = "HEURISTICS"
"""Public name of every problem's package: its heuristics' functions by name."""


def lazy_names(
    package: str, more: Mapping[str, str] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for the package of a problem.

    Parameters
    ----------
    package
        Its ``__name__``.
    more
        Public name -> module, beside those that every problem has: one of the package's own, or
        one with its full name, for what needs a machine and so lives in `moeopt.sim`.
    """
    home = EVERY_PROBLEM | dict(more or {})

    def get(name: str) -> object:
        here = sys.modules[package]
        if name == HEURISTICS:
            value = here.PROBLEM.functions()
        elif name in home:
            module = home[name] if "." in home[name] else f"{package}.{home[name]}"
            value = getattr(import_module(module), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(here, name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home, HEURISTICS})

    return get, names
