"""The list of problems, and lazy access to each one's modules."""

from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from moeopt.core.errors import InputError
from moeopt.core.info import FORECAST, ROBUST, ProblemInfo
from moeopt.core.objective import Packing
from moeopt.core.settlements import Settlement, split_name
from moeopt.core.wording import shown

PROBLEMS: dict[str, str] = {
    "tri_domain": "moeopt.problems.tri_domain",
    "relayout": "moeopt.problems.relayout",
    "layout": "moeopt.problems.layout",
    "deferral": "moeopt.problems.deferral",
    "balance": "moeopt.problems.balance",
    "cache": "moeopt.problems.cache",
    "bitwidth": "moeopt.problems.bitwidth",
    "placement": "moeopt.problems.placement",
    "joint": "moeopt.problems.joint",
    "replication": "moeopt.problems.replication",
    "split": "moeopt.problems.split",
}
"""Problem name -> package. A new problem is one line here."""

REQUIRED_MODULES = (
    "instance",
    "solution",
    "check",
    "bounds",
    "heuristics",
    "cpsat",
    "milp",
    "oracle",
    "view",
)
"""The modules every problem package has."""


@dataclass(frozen=True)
class Problem:
    """One problem: a name, and modules that are imported when first asked for."""

    name: str
    package: str

    def part(self, module: str) -> ModuleType:
        """Return one of the problem's modules, e.g. ``part("check")``."""
        return imported(f"{self.package}.{module}")

    def has(self, module: str) -> bool:
        """Tell whether the problem has a module, without importing it."""
        return find_spec(f"{self.package}.{module}") is not None

    @cached_property
    def info(self) -> ProblemInfo:
        """What the problem says about itself."""
        info: ProblemInfo = import_module(self.package).INFO
        return info

    @cached_property
    def settlements(self) -> tuple[Settlement, ...]:
        """What its papers leave open, and how it is read; empty if nothing is listed."""
        if not self.has("settlements"):
            return ()
        found: tuple[Settlement, ...] = self.part("settlements").SETTLEMENTS
        return found

    def knew(self, method: str, instance: Any) -> str | None:
        """Return which information about loads a heuristic decided by on an instance, in words.

        Parameters
        ----------
        method
            The heuristic's name; settlements in brackets change nothing.

        Returns
        -------
        str or None
            None for methods that are none of the problem's heuristics: exact ones decide by
            everything in the instance, users' rules by what they like.
        """
        plain, _ = split_name(method)
        if plain == ROBUST and self.info.robust:
            return FORECAST
        usual = self.info.knows.get(plain)
        depends = getattr(self.part("view"), "knew", None)
        said: str | None = usual if usual is None or depends is None else depends(instance, plain)
        return usual if said is None else said

    @cached_property
    def formulation_dir(self) -> Path:
        """The folder with ``spec.md`` and ``<problem>.mod``: in an installed copy or a checkout."""
        package = Path(__file__).parents[1]
        installed = package / "_formulations"
        return (installed if installed.is_dir() else package.parent / "formulations") / self.name

    def packing(self, instance: Any) -> Packing:
        """Return how an objective of this instance becomes one integer for a solver."""
        radix = getattr(self.part("bounds"), "second_key_radix", None)
        return Packing(radix(instance) if radix else None)

    @property
    def mathprog_file(self) -> Path:
        """The algebraic model."""
        return self.formulation_dir / f"{self.name}.mod"

    @property
    def constraint_ids(self) -> tuple[str, ...]:
        """The IDs that the checker knows."""
        return tuple(self.part("check").CONSTRAINTS)


def get_problem(name: object) -> Problem:
    """Return the problem called `name`.

    Raises
    ------
    InputError
        If there is no such problem; the message lists those that exist.
    """
    if not isinstance(name, str) or name not in PROBLEMS:
        known = ", ".join(PROBLEMS)
        raise InputError(f"problem: {shown(name)} is unknown; known problems: {known}")
    return _problem(name, PROBLEMS[name])


@cache
def imported(name: str) -> ModuleType:
    """Return a module; asking Python for one anew takes longer than parts of some solves."""
    return import_module(name)


@cache
def _problem(name: str, package: str) -> Problem:
    """Return the one `Problem` of a package: what it remembers is looked up once."""
    return Problem(name, package)
