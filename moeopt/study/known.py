"""What a library has proven already: brackets are read and checked instead of proven again.

A library is a folder with ``index.json``, which lists the instances' files with their SHA-256, and
``best_known.json``: objective, bound, the exact method that proved it, and a solution below
``solutions/``. An entry counts only if the file is the one that was indexed, the checker accepts
the solution and counts the objective, and the bound is recorded as a method's that can prove.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from moeopt.core.envelope import InstanceEnvelope, Name, SolutionEnvelope, validated
from moeopt.core.errors import InputError
from moeopt.core.json_files import MAX_FILE_BYTES, read_object
from moeopt.core.objective import Objective, below, difference, entries
from moeopt.core.untrusted import digest
from moeopt.core.wording import shown
from moeopt.problems.files import load_solution
from moeopt.problems.registry import get_problem
from moeopt.solvers.methods import method_kind
from moeopt.solvers.result import check, with_unit

INDEX, BEST, SOLUTIONS = "index.json", "best_known.json", "solutions"

Standing = Literal["better", "equal", "worse"]

LEVELS = 2
"""A library's instances stand in its folder, or in that of their family."""


@dataclass(frozen=True)
class Known:
    """The bracket of an instance's optimum that its library has, checked.

    Attributes
    ----------
    method
        The exact method that proved the bound.
    objective, bound
        What the solution costs, by the checker, and what nothing is below.
    solution
        The decision.
    """

    method: str
    objective: Objective
    bound: Objective | None
    solution: SolutionEnvelope

    @property
    def proven(self) -> bool:
        """Whether the solution is proven to be optimal."""
        return self.bound == self.objective


_Value = Annotated[int, Field(strict=True)]


class Claim(BaseModel):
    """What is read of an entry of ``best_known.json``."""

    model_config = ConfigDict(frozen=True)

    objective: _Value | tuple[_Value, ...]
    bound: _Value | tuple[_Value, ...] | None
    status: Literal["optimal", "feasible"]
    method: Name
    solution: str
    certificate: str | None = None
    by: Name | None = None
    date: Name | None = None


def standing(objective: Objective, best: Objective) -> Standing:
    """Tell how an objective compares with the best known."""
    if entries(objective) == entries(best):
        return "equal"
    return "better" if below(objective, best) else "worse"


def compared(problem: str, objective: Objective, best: Objective, known: str = "best known") -> str:
    """Return in words how an objective compares with the best that is known."""
    how = standing(objective, best)
    if how == "equal":
        return f"equals {known}"
    pair = (best, objective) if how == "better" else (objective, best)
    by = with_unit(problem, difference(*pair))
    return f"{how} than {known} by {by}"


class Libraries:
    """Looks instances up in the libraries that their files stand in; each index is read once."""

    def __init__(self) -> None:
        self._indexes = cache(_indexes)

    def known(self, file: Path, instance: InstanceEnvelope) -> Known | None:
        """Return what the library of an instance's file knows; None if it stands in none.

        Raises
        ------
        InputError
            If there is an entry that does not hold; the message says why.
        """
        inside = file.parent.resolve()
        for folder in [inside, *inside.parents][:LEVELS]:
            index, best = self._indexes(folder)
            key = (inside / file.name).relative_to(folder).as_posix()
            if key in index and key in best:
                try:
                    return _checked(folder, key, index[key], best[key], instance)
                except InputError as error:
                    raise InputError(f"{file}: {BEST} does not hold: {error}") from None
        return None


def _indexes(folder: Path) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """Return both indexes of a library, empty ones if the folder is none."""
    if not (folder / INDEX).is_file() or not (folder / BEST).is_file():
        return {}, {}
    return read_object(folder / INDEX), read_object(folder / BEST)


def _checked(
    folder: Path, key: str, indexed: object, claimed: object, instance: InstanceEnvelope
) -> Known:
    """Return an entry's bracket if all that it claims holds."""
    with validated():
        entry = Claim.model_validate(claimed)
    sha256 = digest(folder / key, MAX_FILE_BYTES)
    if not isinstance(indexed, dict) or indexed.get("sha256") != sha256:
        raise InputError(f"the file is not the one that {INDEX} lists")
    if entry.solution != f"{SOLUTIONS}/{key}":  # a name in a file is no path to be opened
        raise InputError(f"solution: must be {SOLUTIONS}/{key}")
    if method_kind(get_problem(instance.problem), entry.method) != "exact":
        raise InputError(f"method: {shown(entry.method)} can prove no bound")
    solution = load_solution(folder / entry.solution)
    verdict = check(instance, solution)
    if not verdict.valid:
        raise InputError(f"the solution breaks {': '.join(verdict.violations[0])}")
    if verdict.objective != entry.objective:
        raise InputError(f"the solution costs {verdict.objective}, not {entry.objective}")
    known = Known(entry.method, entry.objective, entry.bound, solution)
    if entry.bound is not None and entries(entry.bound) > entries(entry.objective):
        raise InputError(f"the bound {entry.bound} is above the objective {entry.objective}")
    if known.proven != (entry.status == "optimal"):
        raise InputError(f"status: {entry.status!r} contradicts bound and objective")
    return known
