"""The entries of a library: what is known of each instance, and where its files are.

A library is a folder with a folder for each problem, which holds ``index.json``,
``best_known.json``, ``solutions/``, ``certificates/`` and ``reference.json``, the CPU seconds of
the reference methods.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Literal, TypeVar, get_args

from cyclopts import Parameter
from pydantic import BaseModel, TypeAdapter

from benchmarks.rooms.core import (
    MAX_FILE_BYTES,
    InstanceEnvelope,
    Objective,
    digest,
    entries,
    inside,
    of_json,
    read_object,
    relative,
    shortened,
    shown,
    validated,
)
from benchmarks.rooms.problems import PROBLEMS, get_problem
from benchmarks.rooms.solvers import with_unit
from benchmarks.rooms.study import BEST, INDEX, Claim
from moeopt import InputError, load, save

T = TypeVar("T")

CERTIFICATES, REFERENCE, SUMS = "certificates", "reference.json", "SHA256SUMS"

LIBRARY = Path("instances")
"""The library, in the folder of a checkout."""

Where = Annotated[Path, Parameter("--library", help="Folder of the instance library.")]
"""Option of the commands."""

EASY_CPU_S, MEDIUM_CPU_S = 1.0, 10.0
"""Limits of the types, in CPU seconds with one worker."""

Type = Literal["open", "closed", "hard", "medium", "easy"]

TYPES: tuple[Type, ...] = get_args(Type)
"""The types of instances, the hardest first, as ``instances/README.md`` defines them."""


@dataclass(frozen=True)
class Entry:
    """What is known of an instance.

    Attributes
    ----------
    folder, key
        The problem's folder, and the instance's file in it.
    fields
        Its object in ``best_known.json``.
    times
        Method -> CPU seconds of its proof, None where it had none within its limit.
    quantum_ns
        To what the instance's times are rounded up; None if it has none.
    """

    folder: Path
    key: str
    fields: Mapping[str, Any]
    times: Mapping[str, float | None]
    quantum_ns: int | None = None

    @property
    def problem(self) -> str:
        """The problem's name."""
        return self.folder.name

    @property
    def family(self) -> str:
        """The family's name."""
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The instance's name: its file's."""
        return stem(self.key)

    @property
    def objective(self) -> Objective:
        """Of the best known solution."""
        return of_json(self.fields["objective"])

    @property
    def bound(self) -> Objective | None:
        """The best known bound."""
        bound = self.fields["bound"]
        return None if bound is None else of_json(bound)

    @property
    def type(self) -> Type:
        """How hard it is (`TYPES`)."""
        if self.fields["status"] != "optimal":
            return "open"
        within = {name: s for name, s in self.times.items() if s is not None}
        if within.get("cp-sat", EASY_CPU_S + 1) <= EASY_CPU_S:
            return "easy"
        if not within:
            return "closed"
        return "medium" if min(within.values()) <= MEDIUM_CPU_S else "hard"


def stem(file: str) -> str:
    """Return a file's name without folder, .gz, and .json, .sol or .sol.json."""
    name = Path(file).name.removesuffix(".gz")
    return name.removesuffix(".json").removesuffix(".sol")


def problem_folders(library: Path) -> list[Path]:
    """Return the folders of a library's problems.

    Raises
    ------
    InputError
        If there is none.
    """
    found = [library / name for name in PROBLEMS if (library / name / BEST).is_file()]
    if not found:
        raise InputError(
            f"--library: {library} has no */{BEST}; it is not an instance library: name the folder "
            "`instances` of a checkout"
        )
    return found


def entries_of(folder: Path) -> list[Entry]:
    """Return the entries of a problem's folder, in the order of its index."""
    best = claims(folder)
    times = _read(_TIMES, folder / REFERENCE) if (folder / REFERENCE).is_file() else {}
    index = _read(_INDEX, folder / INDEX)
    return [
        Entry(folder, key, fields, times.get(key, {}), index[key].quantum_ns)
        for key, fields in best.items()
        if key in index
    ]


def claims(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Return the entries of a problem's ``best_known.json``, of usable form.

    Raises
    ------
    InputError
        If one is of another form, or its key leads out of the folder.
    """
    names = get_problem(folder.name).minimises()
    for key, claim in _read(_CLAIMS, folder / BEST).items():
        if inside(folder, key) is None:
            raise InputError(f"{folder / BEST}: {shown(key)}: must be a file below {folder}")
        for of in (claim.objective, claim.bound):
            if of is not None and len(entries(of)) != len(names):
                raise InputError(f"{folder / BEST}: {key}: {of}: must be {' and '.join(names)}")
    return read_object(folder / BEST)


def _read(form: "TypeAdapter[T]", file: Path) -> T:
    with validated(f"{file}: "):
        return form.validate_python(read_object(file))


class _Indexed(BaseModel):
    """What is read of an entry of ``index.json``."""

    sha256: str
    quantum_ns: int | None = None


_CLAIMS = TypeAdapter(dict[str, Claim])
_INDEX = TypeAdapter(dict[str, _Indexed])
_TIMES = TypeAdapter(dict[str, dict[str, float | None]])


def find(library: Path, name: str, problem: str | None = None) -> Entry:
    """Return the entry of an instance by its name.

    Raises
    ------
    InputError
        If there is none, or one of several problems.
    """
    folders = [f for f in problem_folders(library) if problem in (None, f.name)]
    found = [entry for f in folders for entry in entries_of(f) if entry.name == name]
    if not found:
        of = "" if problem is None else f"{shortened(problem)} "
        raise InputError(f"{library} has no {of}instance called {shortened(name)!r}")
    if len(found) > 1:
        raise InputError(f"{shortened(name)!r} is one of several problems: name the file")
    return found[0]


def instance_of(entry: Entry) -> InstanceEnvelope:
    """Return an entry's instance, if the file is the one that was indexed."""
    file = entry.folder / entry.key
    index = _read(_INDEX, entry.folder / INDEX).get(entry.key)
    if index is None or index.sha256 != digest(file, MAX_FILE_BYTES):
        raise InputError(f"{file}: is not the file that {INDEX} lists")
    return load(file)


def sums(library: Path) -> str:
    """Return the text of ``SHA256SUMS``, which ``sha256sum -c`` checks: every instance's hash."""
    return "".join(
        f"{entry.sha256}  {folder.name}/{key}\n"
        for folder in problem_folders(library)
        for key, entry in _read(_INDEX, folder / INDEX).items()
    )


def today() -> str:
    """Return the date of a new entry (UTC)."""
    return datetime.now(UTC).date().isoformat()


def write_best(folder: Path, key: str, fields: Mapping[str, Any]) -> None:
    """Replace an instance's entry."""
    best = read_object(folder / BEST)
    best[key] = json.loads(json.dumps(fields))
    save(best, folder / BEST)


def short_table(library: Path, problem: str | None) -> str:
    """Return what is known of a problem's instances, or of all open ones, for a terminal."""
    folders = [f for f in problem_folders(library) if problem in (None, f.name)]
    found = [e for folder in folders for e in _hardest_first(folder)]
    shown = found if problem else [e for e in found if e.type == "open"]
    rows = [("instance", "best objective", "gap")]
    family = ""
    for e in shown:
        folder, _, file = f"{e.problem}/{e.key}".rpartition("/")
        if folder != family:
            rows.append((family := folder, "", ""))
        value = with_unit(e.problem, e.objective).removeprefix(f"{_words(e.problem)} ")
        value = value.removesuffix(" ns")
        rows.append((f"  {file}", value, _gap(e) if e.type == "open" else "proven"))
    first, second, third = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = [f"{a:{first}}  {b:>{second}}  {c:>{third}}".rstrip() for a, b, c in rows]
    named = {name: _words(name) or "ns" for name in dict.fromkeys(e.problem for e in shown)}
    parts = ["in ns"] * ("ns" in named.values())
    parts += [f"of {name} in {words}" for name, words in named.items() if words != "ns"]
    note = f"Objectives {', '.join(parts)}. "
    note += f"{len(shown)} instances" if problem else f"{len(shown)} of {len(found)} are open"
    note += "; --markdown adds bound, method and date."
    return "\n".join([*lines, *wrap(note, 100)]) + "\n"


def _words(problem: str) -> str:
    """Return what a problem minimises first, if that is no time."""
    first = get_problem(problem).minimises()[0]
    return "" if first.endswith("_ns") else first.replace("_", " ")


def problem_table(folder: Path) -> str:
    """Return the table of a problem's instances, the hardest first."""
    return "\n".join(_table(_hardest_first(folder), with_problem=False)) + "\n"


def _hardest_first(folder: Path) -> list[Entry]:
    return sorted(entries_of(folder), key=lambda e: TYPES.index(e.type))


def open_table(library: Path) -> str:
    """Return the table of the open instances, alone."""
    found = (e for folder in problem_folders(library) for e in entries_of(folder))
    return "\n".join(_table((e for e in found if e.type == "open"), with_problem=True)) + "\n"


def _table(found: Iterable[Entry], with_problem: bool) -> Iterator[str]:
    head = ["instance", "best objective", "best bound", "gap", "type", "solved by", "rounding"]
    head.append("date")
    yield f"| {' | '.join(head)} |"
    yield "|---|---:|---:|---:|---|---|---:|---|"
    for e in found:
        place = f"{e.problem}/{e.key}" if with_problem else e.key
        cells = [
            f"`{place}`",
            with_unit(e.problem, e.objective),
            with_unit(e.problem, e.bound),
            _gap(e),
            e.type,
            solved_by(e),
            "-" if e.quantum_ns is None else f"{e.quantum_ns:,} ns",
            str(e.fields.get("date", "-")),
        ]
        yield f"| {' | '.join(cells)} |"


def solved_by(entry: Entry) -> str:
    """Return the method of the bound, with who handed the entry in, where someone did."""
    how = f"`{entry.fields['method']}`" + ", certificate" * ("certificate" in entry.fields)
    return f"{how}, {entry.fields['by']}" if "by" in entry.fields else how


def _gap(entry: Entry) -> str:
    if entry.bound is None or entry.type != "open":
        return "0" if entry.type != "open" else "-"
    gap = relative(entry.objective, entry.bound, entry.objective)
    return "-" if gap is None else f"{gap:.3%}".replace("%", " %")
