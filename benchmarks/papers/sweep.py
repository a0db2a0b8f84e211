"""Sensitivity: one parameter that a paper leaves open, moved alone, and what that changes."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.papers.kept import circumstances, keep, kept
from benchmarks.papers.registry import SWEEPS, resolve
from moeopt import InputError

Cell = float | None


@dataclass(frozen=True)
class Sweep:
    """What some results are at each setting of one parameter, all others at their defaults.

    Attributes
    ----------
    parameter, default, source
        What is moved, what it is otherwise, and where that default comes from.
    results
        Names of the columns, e.g. "T5"; the published value may stand in the name.
    rows
        Setting -> one value per column, None where there is none.
    note
        What follows from it, in a sentence.
    """

    parameter: str
    default: str
    source: str
    results: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    note: str = ""

    def __post_init__(self) -> None:
        for setting, values in self.rows:
            if len(values) != len(self.results):
                raise ValueError(f"{self.parameter}: {setting}: has {len(values)} values")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self)


def require_sweep(name: str) -> None:
    """Raise InputError, with all names in its message, if there is no such sweep."""
    if name not in SWEEPS:
        raise InputError(f"--sweep: {name!r} is unknown; known sweeps: all, {', '.join(SWEEPS)}")


def sweeps(
    names: list[str], folder: Path | None = None, *, resume: bool = False
) -> Iterator[tuple[str, Sweep]]:
    """Compute sweeps by name, "all" for all of them, in the registry's order.

    Parameters
    ----------
    folder, resume
        Where each is kept as ``<name>.json``, and whether to take what is there, as in
        `benchmarks.papers.run.reproduce`.

    Raises
    ------
    InputError
        If a name is unknown, before anything is computed, or a file cannot be read or written.
    """
    for name in names:
        if name != "all":
            require_sweep(name)
    return _sweeps([n for n in SWEEPS if n in names or "all" in names], folder, resume)


def _sweeps(names: list[str], folder: Path | None, resume: bool) -> Iterator[tuple[str, Sweep]]:
    for name in names:
        key = {"sweep": name} | circumstances()
        path = None if folder is None else folder / f"{name}.json"
        stored = kept(path, key) if resume and path is not None else None
        if stored is not None and path is not None:
            yield name, _read(stored, path)
            continue
        found: Sweep = resolve(SWEEPS[name])()
        if path is not None:
            keep(path, key | found.to_dict())
        yield name, found


def _read(stored: dict[str, Any], path: Path) -> Sweep:
    try:
        texts = {name: stored[name] for name in ("parameter", "default", "source", "note")}
        rows = tuple((setting, tuple(values)) for setting, values in stored["rows"])
        return Sweep(**texts, results=tuple(stored["results"]), rows=rows)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: is not a sweep of ours: {error}") from None
