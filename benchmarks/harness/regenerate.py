"""Figures of a page made anew: the command is run, and its numbers are held against the page's.

A command prints a table or lines, or it writes the page itself. Rows of a printed
table are found on the page by their first cell and their number of cells; of a sentence
``figures.json`` says between which words of the page it stands, and its numbers are looked for in
what was printed.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import Any

PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b")
LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclass
class Comparison:
    """A page beside what a command printed.

    Attributes
    ----------
    same
        How many rows and sentences are as they were.
    changed
        (as it stands on the page, as it is now) of rows.
    missing
        Sentences with the numbers that were not printed.
    unplaced
        Rows that were printed and have no row on the page.
    """

    same: int = 0
    changed: list[tuple[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unplaced: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """Yield it for a terminal."""
        yield f"  {self.same} as on the page, {len(self.changed)} changed"
        for was, now in self.changed:
            yield f"  - {was}"
            yield f"  + {now}"
        yield from (f"  not printed: {one}" for one in self.missing)
        if self.unplaced:
            yield f"  {len(self.unplaced)} printed rows have no row on the page"


def placeholders(command: str) -> set[str]:
    """Return the words of a command that stand for a file or folder of the reader."""
    words = shlex.split(command)
    return {word for part in words for word in PLACEHOLDER.findall(part.split("=")[-1])}


def printed(command: str, given: Mapping[str, str], root: Path) -> str:
    """Run a command in `root` and return what it printed.

    Parameters
    ----------
    command
        As it stands on the page: it may begin with settings of the environment, and hold patterns
        of files and the words of `placeholders`.
    given
        Word -> what it stands for.

    Raises
    ------
    ValueError
        If a word is not given, or the command fails.
    """
    absent = sorted(placeholders(command) - given.keys())
    if absent:
        raise ValueError(f"needs {' '.join(f'{word}=PATH' for word in absent)}")
    environment, parts = dict(os.environ), shlex.split(command)
    while "=" in parts[0]:
        name, _, value = parts.pop(0).partition("=")
        environment[name] = given.get(value, value)
    program, *arguments = (PLACEHOLDER.sub(lambda of: given.get(of[0], of[0]), at) for at in parts)
    found = [one for of in arguments for one in _matches(of, root) or [of]]
    start = {"python": [sys.executable], "moeopt": [sys.executable, "-m", "moeopt"]}[program]
    run = subprocess.run(
        [*start, *found], cwd=root, env=environment, text=True, capture_output=True, check=False
    )
    if run.returncode:
        raise ValueError(f"ends with {run.returncode}: {run.stderr.strip().splitlines()[-1:]}")
    return run.stdout


def _matches(pattern: str, root: Path) -> list[str]:
    if "*" not in pattern or pattern.startswith("/"):
        return []
    return sorted(str(path.relative_to(root)) for path in root.glob(pattern))


def cells(line: str) -> tuple[str, ...]:
    """Return the cells of a table's row, without its marks; none of other lines."""
    if not line.startswith("|") or set(line) <= set("|-: "):
        return ()
    bare = LINK.sub(r"\1", line).replace("`", "").replace("*", "")
    return tuple(cell.strip() for cell in bare[1:].split("|"))


def compared(page: str, output: str, sentences: Mapping[str, str]) -> Comparison:
    """Hold what was printed against the page.

    Parameters
    ----------
    page, output
        The texts.
    sentences
        What a sentence is about -> its part of the page.
    """
    found = Comparison()
    rows: dict[tuple[str, int], list[str]] = {}
    for line in page.splitlines():
        if of := cells(line):
            rows.setdefault((of[0], len(of)), []).append(line)
    for line in output.splitlines():
        if not (of := cells(line)):
            continue
        there = rows.get((of[0], len(of)), [])
        if any(cells(one) == of for one in there):
            found.same += 1
        elif len(there) == 1:
            found.changed.append((there[0], line))
        else:
            found.unplaced.append(line)
    numbers = {float(number.replace(",", "")) for number in NUMBER.findall(output)}
    for what, text in sentences.items():
        lost = [number for number in NUMBER.findall(text) if not _printed(number, numbers)]
        if lost:
            found.missing.append(f"{what}: {', '.join(lost)} of {text!r}")
        else:
            found.same += 1
    return found


def _printed(number: str, numbers: set[float]) -> bool:
    """Tell whether a number was printed, with at least as many digits."""
    value = float(number.replace(",", ""))
    half = 0.5 * 10.0 ** -len(number.partition(".")[2])
    return any(abs(value - one) <= half * (1 + 1e-9) for one in numbers)


def regenerate(
    figure: Mapping[str, Any], given: Mapping[str, str], root: Path, write: bool = False
) -> Comparison:
    """Run the command of one block of figures, and compare what it gives with the page.

    Parameters
    ----------
    figure
        The entry of ``figures.json``. ``writes`` is a command that writes the whole page.
    given
        Word of the command -> what it stands for.
    root
        The checkout.
    write
        Put changed rows on the page; a command that writes the page has done so.

    Raises
    ------
    ValueError
        As `printed` does.
    """
    path = root / figure["page"]
    page, changed_ns = path.read_text(), path.stat().st_mtime_ns
    output = printed(figure.get("writes", figure["command"]), given, root)
    now = path.read_text()
    if now != page:
        return by_line(page, now)
    if path.stat().st_mtime_ns != changed_ns:
        return Comparison(same=len(page.splitlines()))
    text = " ".join(page.replace("|", " ").split())
    sentences = {
        what: text.partition(before)[2].partition(after)[0]
        for what, before, after in figure.get("sentences", [])
    }
    found = compared(page, output, sentences)
    if write:
        path.write_text(replaced(page, found))
    return found


def by_line(was: str, now: str) -> Comparison:
    """Compare two versions of a whole page."""
    found = Comparison()
    old, new = was.splitlines(), now.splitlines()
    for kind, *at in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            found.same += at[1] - at[0]
        else:
            pairs = zip_longest(old[at[0] : at[1]], new[at[2] : at[3]], fillvalue="")
            found.changed += list(pairs)
    return found


def replaced(page: str, comparison: Comparison) -> str:
    """Return a page with its changed rows in their places."""
    now = dict(comparison.changed)
    return "".join(
        now.get(line.rstrip("\n"), line.rstrip("\n")) + "\n" for line in page.splitlines(True)
    )
