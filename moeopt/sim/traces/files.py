"""Reading routing traces and counts, whatever their format."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from moeopt.core.errors import InputError, MoeoptWarning, expect
from moeopt.sim.traces.batching import Batching
from moeopt.sim.traces.readers.checked import CountsOnlyError
from moeopt.sim.traces.readers.formats import FORMATS, format_of
from moeopt.sim.traces.repeats import find_repeats
from moeopt.sim.traces.trace import Counts, Trace

Read = TypeVar("Read", Trace, Counts)

MAX_IDS_SEARCHED = 2**23
"""Largest trace that is searched for repeats when it is read, in ids; a quarter of a second."""

REPEATS_SHARE = 0.01
"""Least share of tokens in repeats that a user is warned of."""


def load_trace(path: str | Path, format: str | None = None, top_k: int | None = None) -> Trace:
    """Read a routing trace, and warn if it reads parts of its text twice.

    Parameters
    ----------
    path
        A file, or a folder where a format keeps one trace in several files.
    format
        One of `moeopt.sim.traces.readers.formats.FORMATS`; by default told from the file.
    top_k
        Experts per token, for the formats that do not say it (SGLang's answers, ESFT's text).

    Returns
    -------
    Trace
        Its `topk_ids` have shape (tokens, layers, top_k); layers without experts are left out.

    Warns
    -----
    MoeoptWarning
        If hold-outs from the trace would see tokens they were decided on, see
        `moeopt.find_repeats`. Traces of more than `MAX_IDS_SEARCHED` ids are not searched.

    Raises
    ------
    InputError
        If the file cannot be read, holds no trace, or is too large; one line with file, field and
        reason.

    Examples
    --------
    >>> import moeopt, numpy as np
    >>> np.savez("routing.npz", topk_ids=np.array([[[0, 1]], [[1, 3]]]))  # two tokens, one layer
    >>> moeopt.load_trace("routing.npz").tokens
    2
    """
    trace = read_trace(path, format, top_k)
    if trace.topk_ids.size <= MAX_IDS_SEARCHED:
        repeats = find_repeats(trace)
        if repeats.share >= REPEATS_SHARE:
            warnings.warn(f"{path}: {repeats.in_words()}", MoeoptWarning, stacklevel=2)
    return trace


def read_trace(path: str | Path, format: str | None = None, top_k: int | None = None) -> Trace:
    """Read a routing trace like `load_trace`, for callers that look for repeats themselves."""
    expect("path", path, str, Path, what="a path")
    path = Path(path)
    if top_k is not None and top_k < 1:
        raise InputError(f"top_k: must be at least 1, not {top_k}")
    name = format_of(path, format)
    reader = FORMATS[name].trace
    if reader is None:
        takers = "`moeopt plan`, `generate placement` and `trace fit` take it, and load_counts"
        raise CountsOnlyError(f"{path}: {name} holds counts only, no tokens: {takers}")
    return _read(reader, path, top_k)


def read_routing(
    path: str | Path,
    where: Mapping[str, str] | None = None,
    read: Callable[[Path], Trace] = read_trace,
) -> Trace | Counts:
    """Read a trace, or counts where a file holds no more.

    Parameters
    ----------
    path, where
        As for `load_counts`; with `where` the file is one of counts.
    read
        What reads a trace: `read_trace`, or `load_trace`, which warns of repeats.

    Returns
    -------
    Trace | Counts
        What the file holds.

    Raises
    ------
    InputError
        As for `load_trace`.
    """
    path = Path(path)
    if where:
        return load_counts(path, where=where)
    try:
        return read(path)
    except CountsOnlyError:
        return load_counts(path)


def load_counts(
    path: str | Path,
    format: str | None = None,
    *,
    batch: int | None = None,
    batching: Batching = "window",
    experts: int | None = None,
    top_k: int | None = None,
    where: Mapping[str, str] | None = None,
) -> Counts:
    """Read how often each expert was chosen, from counts or from a trace.

    Parameters
    ----------
    path, format, top_k
        As for `load_trace`.
    batch, batching
        Steps into which a trace is cut; all its tokens are one step if None. Of no effect on files
        that hold counts, as these cannot be cut again.
    experts
        Experts per layer; by default as many as are seen.
    where
        Label -> value, for a CSV with further columns: only such rows are read.

    Returns
    -------
    Counts
        Tokens per expert, of shape (steps, layers, experts).

    Raises
    ------
    InputError
        As for `load_trace`, or if an expert occurs that the model does not have.

    Examples
    --------
    >>> import moeopt, numpy as np
    >>> np.savez("routing.npz", topk_ids=np.array([[[0, 1]], [[1, 3]]]))  # two tokens, one layer
    >>> moeopt.load_counts("routing.npz", experts=4).counts.tolist()
    [[[1, 2, 0, 1]]]
    """
    expect("path", path, str, Path, what="a path")
    path = Path(path)
    reader = FORMATS[format_of(path, format)].counts
    if where and format_of(path, format) != "count-csv":
        raise InputError(f"{path}: where: only a CSV of counts has labels to choose by")
    if reader is None or (batch is not None and FORMATS[format_of(path, format)].trace):
        trace = read_trace(path, format, top_k)
        return trace.step_counts(trace.tokens if batch is None else batch, batching, experts)
    counts = _read(reader, path, *([where] if where else []))
    return counts if experts is None else counts.padded(experts)


def _read(reader: Callable[..., Read], path: Path, *options: object) -> Read:
    try:
        return reader(path, *options)
    except MemoryError:
        raise InputError(f"{path}: too large for this machine's memory") from None
