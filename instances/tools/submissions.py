"""Submissions: solutions, compared with the best known one, and certificates of bounds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.rooms.certificates import proven_bound, read_certificate
from benchmarks.rooms.core import (
    InstanceEnvelope,
    Objective,
    SolutionEnvelope,
    below,
    entries,
    of_json,
)
from benchmarks.rooms.exporters import read_answer
from benchmarks.rooms.solvers import with_unit
from benchmarks.rooms.study import BEST, Standing, compared, standing
from instances.tools.entries import (
    CERTIFICATES,
    Entry,
    claims,
    find,
    instance_of,
    stem,
    today,
    write_best,
)
from moeopt import ContradictionError, InputError, check, load, load_solution, save

LONGEST_NAME = 100
"""Most characters of the name that an entry is credited to."""


@dataclass(frozen=True)
class Submitted:
    """A valid solution, beside what was known.

    Attributes
    ----------
    entry
        What the library has.
    solution, objective
        The submission, and what the checker says that it costs.
    """

    entry: Entry
    solution: SolutionEnvelope
    objective: Objective

    @property
    def standing(self) -> Standing:
        """How it compares with the best known solution."""
        return standing(self.objective, self.entry.objective)

    def sentence(self) -> str:
        """Return it in words."""
        return compared(self.entry.problem, self.objective, self.entry.objective)


def submitted(library: Path, file: Path, instance: Path | None = None) -> Submitted:
    """Check a solution file against the library.

    Parameters
    ----------
    library
        The library's folder.
    file
        A solution (.json, .json.gz), or a solver's answer to the exported model (.sol), whose name
        is the instance's unless `instance` is given.
    instance
        The instance's file; it must be one of the library.

    Raises
    ------
    InputError
        If file or instance cannot be used, or the solution breaks a constraint.
    ContradictionError
        If it costs less than what is recorded as proven.
    """
    answer = file.name.removesuffix(".gz").endswith(".sol")
    given = None if instance is None else load(instance)
    solution = None if answer else load_solution(file)
    try:
        entry = _entry(library, file, given, solution)
        known = instance_of(entry)
        if given is not None and _data(given) != _data(known):
            raise InputError(f"{instance}: is another instance than {entry.folder / entry.key}")
        if solution is None:
            solution = read_answer(known, file).solution
        verdict = check(known, solution)
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(f"{file}:") else f"{file}: {text}") from None
    if verdict.objective is None:
        raise InputError(f"{file}: {': '.join(verdict.violations[0])}")
    if entry.bound is not None and below(verdict.objective, entry.bound):
        costs = with_unit(entry.problem, verdict.objective)
        proven = with_unit(entry.problem, entry.bound)
        raise ContradictionError(f"{file}: costs {costs}, below the bound {proven} on record")
    return Submitted(entry, solution, verdict.objective)


def _entry(
    library: Path, file: Path, given: InstanceEnvelope | None, solution: SolutionEnvelope | None
) -> Entry:
    if solution is not None:
        return find(library, solution.instance, solution.problem)
    if given is not None:
        return find(library, given.name, given.problem)
    try:
        return find(library, stem(file.name))
    except InputError as error:
        raise InputError(f"{error}; --instance FILE says whose answer it is") from None


def _data(instance: InstanceEnvelope) -> dict[str, Any]:
    """Return what an instance is, but for where it comes from."""
    return instance.model_dump(mode="json", exclude={"provenance"})


def credited(by: str | None) -> str | None:
    """Return the name that an entry is credited to.

    Raises
    ------
    InputError
        If it is empty, long, or not plain text.
    """
    if by is not None and not (0 < len(by) <= LONGEST_NAME and by.isprintable() and "|" not in by):
        raise InputError(f"--by: must be a name of at most {LONGEST_NAME} characters, without |")
    return by


def enter(found: Submitted, by: str | None) -> list[Path]:
    """Write a better solution and its entry; return the files, none if it is not better."""
    if found.standing != "better":
        return []
    entry = found.entry
    file = entry.folder / entry.fields["solution"]
    if entry.fields["solution"] != f"solutions/{entry.key}":
        raise InputError(f"{entry.key}: solution: must be solutions/{entry.key}")
    save(found.solution, file)
    proven = entry.bound is not None and entries(entry.bound) == entries(found.objective)
    fields = dict(entry.fields) | {
        "objective": found.objective,
        "status": "optimal" if proven else "feasible",
        "date": today(),
    }
    write_best(entry.folder, entry.key, _by(fields, by))
    return [file, entry.folder / BEST]


def _by(fields: dict[str, Any], by: str | None) -> dict[str, Any]:
    return fields if by is None else fields | {"by": by}


@dataclass(frozen=True)
class Certified:
    """A bound that holds, beside what was known; `certificate` is the JSON object."""

    entry: Entry
    certificate: dict[str, Any]
    bound: Objective

    @property
    def raises(self) -> bool:
        """Whether it is above the best known bound."""
        known = self.entry.bound
        return known is None or below(known, self.bound)

    def sentence(self) -> str:
        """Return it in words."""
        known = self.entry.bound
        if known is None:
            return "the first bound"
        # as an objective the one below would be the better one, and as a bound it is the worse one
        return compared(self.entry.problem, known, self.bound, "best known bound")


def certified(library: Path, file: Path, instance: Path | None = None) -> Certified:
    """Verify a certificate of a bound on an instance of the library.

    The model is made anew from the instance; what the file says is checked by `certificate` alone.

    Raises
    ------
    InputError
        If the file is no certificate, its instance is unknown, or it does not prove its bound.
    ContradictionError
        If it proves more than the best known solution costs.
    """
    try:
        data = read_certificate(file)
        entry = find(library, str(data.get("instance")), str(data.get("problem")))
        known = instance_of(entry)
        if instance is not None and _data(load(instance)) != _data(known):
            raise InputError(f"{instance}: is another instance than {entry.folder / entry.key}")
        bound = proven_bound(known, data)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    if below(entry.objective, bound):
        raise ContradictionError(f"{file}: proves more than the best known solution costs")
    return Certified(entry, data, bound)


def enter_bound(found: Certified, by: str | None) -> list[Path]:
    """Write a certificate and its entry; return the files.

    None if the bound is lower than the best known, or equal to it and that has a certificate.
    """
    entry, bound = found.entry, found.bound
    repeats = entry.bound is not None and entries(entry.bound) == entries(bound)
    if not found.raises and (not repeats or "certificate" in entry.fields):
        return []
    place = certificate_place(entry.key)
    file = entry.folder / place
    file.parent.mkdir(parents=True, exist_ok=True)
    save(found.certificate, file)
    fields = dict(entry.fields) | {"certificate": place}
    if found.raises:
        fields |= {
            "bound": bound,
            "status": "optimal" if entries(bound) == entries(entry.objective) else "feasible",
            "method": "milp",
            "date": today(),
        }
    write_best(entry.folder, entry.key, _by(fields, by))
    return [file, entry.folder / BEST]


def certificates(folder: Path) -> int:
    """Return how many entries of a problem have a certificate."""
    return sum("certificate" in fields for fields in claims(folder).values())


def certificate_place(key: str) -> str:
    """Return the file of the certificate of an instance's bound, in the problem's folder."""
    return f"{CERTIFICATES}/{key.removesuffix('.gz')}.gz"


def certificate_faults(folder: Path, share: tuple[int, int] = (0, 1)) -> list[str]:
    """Return what is wrong with the certificates that a problem's entries name, one line each.

    With a share (k, n), of certificates k, k + n, k + 2 n, ... only.
    """
    wrong = []
    named = {key: entry for key, entry in claims(folder).items() if "certificate" in entry}
    for key, fields in list(named.items())[share[0] :: share[1]]:
        if fields["certificate"] != certificate_place(key):
            wrong.append(f"{key}: certificate: must be {certificate_place(key)}")
            continue
        try:
            found = certified(folder.parent, folder / fields["certificate"])
            if entries(found.bound) != entries(of_json(fields["bound"])):
                wrong.append(f"{key}: its certificate proves {found.bound}")
        except (InputError, ContradictionError) as error:
            wrong.append(f"{key}: {error}")
    return wrong
