"""The library's tables: every instance with what is known of it, open ones first."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from textwrap import wrap

from moeopt.core.objective import relative
from moeopt.library.entries import TYPES, Entry, entries_of, problem_folders
from moeopt.problems.registry import get_problem
from moeopt.solvers.result import with_unit

HARDEST_FIRST = {name: rank for rank, name in enumerate(TYPES)}


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
    first = get_problem(problem).check.OBJECTIVE[0]
    return "" if first.endswith("_ns") else first.replace("_", " ")


def problem_table(folder: Path) -> str:
    """Return the table of a problem's instances, the hardest first."""
    return "\n".join(_table(_hardest_first(folder), with_problem=False)) + "\n"


def _hardest_first(folder: Path) -> list[Entry]:
    return sorted(entries_of(folder), key=lambda e: HARDEST_FIRST[e.type])


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
