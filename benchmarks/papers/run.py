"""Computing figures in order, each kept as a JSON file if a folder is given."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.papers import data
from benchmarks.papers.figure import Figure, Ours
from benchmarks.papers.kept import circumstances, keep, kept
from benchmarks.papers.published import Interval, published
from benchmarks.papers.registry import FIGURES, figure_function, require_known
from moeopt import InputError

STORED = ("values", "kind", "assumptions", "note", "baseline", "optimum", "seeds", "missing")
"""Fields of `Ours` in a figure's file, as they are; besides these the ends of its intervals."""


def reproduce(
    ids: Iterable[str] = (), folder: Path | None = None, *, resume: bool = False
) -> Iterator[Figure]:
    """Compute figures one after the other, in the order asked for.

    Parameters
    ----------
    ids
        Published ids; none means all. One that is named twice is computed once.
    folder
        Where each figure is kept as ``<id>.json`` as soon as it is known; made if it is missing.
    resume
        Take what the folder has from the same version and with the same data, instead of
        computing it again.

    Yields
    ------
    Figure
        Each as soon as it is known.

    Raises
    ------
    InputError
        If an id is unknown (before anything is computed) or a file cannot be read or written.
    """
    wanted = list(dict.fromkeys(ids)) or list(FIGURES)
    for figure in wanted:
        require_known(figure)
    return _reproduce(wanted, folder, resume)


def _reproduce(ids: list[str], folder: Path | None, resume: bool) -> Iterator[Figure]:
    for name in ids:
        row = published()[name]
        key = {"id": name, "published": row.text} | circumstances()
        path = None if folder is None else folder / f"{name}.json"
        stored = kept(path, key) if resume and path is not None else None
        if stored is not None and path is not None:
            yield Figure(row, _read(stored, path))
            continue
        ours = compute(name)
        if path is not None:
            keep(path, key | _stored(ours))
        yield Figure(row, ours)


def compute(figure: str) -> Ours:
    """Return our value of a figure; if a trace is missing, one that says which."""
    try:
        return figure_function(figure)()
    except data.MissingDataError as error:
        unknown = (None,) * len(published()[figure].values)
        return Ours(unknown, "assumed", (), note=f"not computable: {error}")


def _stored(ours: Ours) -> dict[str, Any]:
    ends = [None if i is None else (i.low, i.high) for i in ours.intervals]
    return {field: getattr(ours, field) for field in STORED} | {"intervals": ends}


def _read(stored: dict[str, Any], path: Path) -> Ours:
    try:
        fields = {name: stored[name] for name in STORED}
        lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        intervals = tuple(None if i is None else Interval(*i) for i in stored["intervals"])
        return Ours(**(fields | lists), intervals=intervals)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: is not a figure of ours: {error}") from None
