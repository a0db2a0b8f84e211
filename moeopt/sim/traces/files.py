"""Reading routing traces and counts, whatever their format.

Which formats are known, and which one a file is in.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from numbers import Integral
from pathlib import Path
from types import NoneType
from typing import TypeVar

from moeopt.core.errors import InputError, MoeoptWarning, about, expect
from moeopt.core.json_files import read_json
from moeopt.core.plugins import entries, loaded
from moeopt.core.untrusted import reading
from moeopt.core.wording import LONGEST, shown, unknown_name
from moeopt.sim.traces.readers.arrays import (
    COUNT_NAMES,
    array_kind,
    read_count_array,
    read_token_array,
)
from moeopt.sim.traces.readers.checked import MAX_TEXT_BYTES, CountsOnlyError, read_head
from moeopt.sim.traces.readers.count_csv import read_count_csv
from moeopt.sim.traces.readers.count_json import (
    json_form,
    read_count_json,
    read_count_jsonl,
    read_usage_json,
)
from moeopt.sim.traces.readers.imatrix import read_imatrix
from moeopt.sim.traces.readers.route_jsonl import ROUTE, read_route_jsonl
from moeopt.sim.traces.readers.routed_experts import read_routed_json, read_routed_npz
from moeopt.sim.traces.readers.sglang_recorder import read_sglang_counts, read_sglang_trace
from moeopt.sim.traces.readers.topk_npz import npz_names, read_topk_npz
from moeopt.sim.traces.trace import Batching

from .repeats import find_repeats
from .trace import Counts, Trace


@dataclass(frozen=True)
class Format:
    """Format of a trace or of counts, and the functions that read it.

    Attributes
    ----------
    what
        Words for a list of formats.
    trace
        Function of a path and the experts per token (None where the file says it) that returns a
        `Trace`; None for a format of counts only.
    counts
        Function of a path that returns `Counts`; None where the trace is counted.
    """

    what: str
    trace: Callable[[Path, int | None], Trace] | None = None
    counts: Callable[..., Counts] | None = None


FORMATS = {
    "topk-npz": Format("npz with topk_ids: moeopt's own", read_topk_npz),
    "routed-experts-npz": Format(
        "npz with routed_experts, of one request or a folder", read_routed_npz
    ),
    "routed-experts-json": Format(
        "answers of vLLM or SGLang with routed_experts", read_routed_json
    ),
    "sglang-pt": Format(
        "SGLang's recorder, one rank or a folder of ranks",
        read_sglang_trace,
        read_sglang_counts,
    ),
    "token-array": Format("npy or npz of experts [token, layer, k]", read_token_array),
    "count-array": Format(
        "npy or npz of counts [layer, expert] or [step, layer, expert]", counts=read_count_array
    ),
    "count-csv": Format(
        "layer,expert,count[,frac_of_layer], SGLang's old layer_id,expert_id,count, or a column for"
        " each expert",
        counts=read_count_csv,
    ),
    "count-json": Format(
        "lists of counts, alone or under a key such as logical_count", counts=read_count_json
    ),
    "count-jsonl": Format(
        "one object per step with counts, as vLLM's statistics of EPLB", counts=read_count_jsonl
    ),
    "usage-json": Format("object of layers with counts by expert", counts=read_usage_json),
    "imatrix-gguf": Format(
        "importance matrix of llama.cpp (GGUF), counts only", counts=read_imatrix
    ),
    "route-jsonl": Format("one object per token and layer", read_route_jsonl),
}
"""Name, as `format=` takes it -> what it is."""

GROUP = "moeopt.readers"
"""Entry points of other packages: a format's name -> an object of `Format`.

Their formats are read where ``format=`` names them; a file's own name or content leads to none.
"""


def get_format(name: str) -> Format:
    """Return a format by its name, ours or that of an installed plug-in.

    Raises
    ------
    InputError
        If there is none of that name; the message lists the known ones.
    """
    expect("format", name, str, what="the name of a format")
    if name in FORMATS:
        return FORMATS[name]
    others = entries(GROUP)
    if name not in others:
        raise unknown_name("format", name, [*FORMATS, *others])
    return loaded(others[name], Format)


def format_of(path: Path, given: str | None) -> str:
    """Return the name of a file's or folder's format: the given one, or by name and content.

    Raises
    ------
    InputError
        If the format is not known or cannot be told; the message lists the known ones.
    """
    if given is not None:
        with about(path):
            get_format(given)
        return given
    with reading(path):
        path.stat()
    found = _of_folder(path) if path.is_dir() else _of_file(path)
    if found is None:
        known = ", ".join(FORMATS)
        raise InputError(
            f"cannot be told from {_seen(path)}; known: {known}", where=path, field="format"
        )
    return found


def _seen(path: Path) -> str:
    """Return what a file or folder shows whose format cannot be told."""
    if path.is_dir():
        kinds = sorted({file.suffix for file in islice(path.iterdir(), MOST_SEEN)})
        return f"a folder with {', '.join(map(shown, kinds))}" if kinds else "an empty folder"
    head = read_head(path, LONGEST)
    first = head.splitlines()[0].decode(errors="backslashreplace") if head else ""
    return f"a file that begins with {shown(first)}" if head else "an empty file"


MOST_SEEN = 1000
"""How many files of a folder are looked at for what a message says of it."""


def _of_folder(path: Path) -> str | None:
    by_pattern = {
        "*.pt": "sglang-pt",
        "*.csv": "count-csv",
        "*.npz": "routed-experts-npz",
    }
    found = [name for pattern, name in by_pattern.items() if any(path.glob(pattern))]
    return found[0] if len(found) == 1 else None


def _of_file(path: Path) -> str | None:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix == ".npz":
        names = npz_names(path)
        if "topk_ids" in names or not names:
            return "topk-npz"
        return "routed-experts-npz" if "routed_experts" in names else array_kind(path)
    if suffix == ".npy" and path.suffix.lower() == suffix:
        return array_kind(path)
    if suffix == ".json":
        return _of_json(path)
    plain = {".pt": "sglang-pt", ".pth": "sglang-pt", ".csv": "count-csv", ".gguf": "imatrix-gguf"}
    return plain.get(suffix) or _of_content(read_head(path), suffix)


def _of_json(path: Path) -> str:
    """Return the format of a JSON file: by its first bytes, or else by its outermost keys."""
    head = read_head(path, HEAD_BYTES)
    if any(field in head for field in OF_ANSWERS):
        return "routed-experts-json"
    return json_form(path, read_json(path, MAX_TEXT_BYTES))


HEAD_BYTES = 2**16
"""How much of a JSON file is searched for the keys of answers before all of it is read."""


def _of_content(head: bytes, suffix: str) -> str | None:
    """Return the format of a text by its first bytes, or of an unknown suffix by its magic."""
    if suffix == ".jsonl":
        if any(field in head for field in OF_ANSWERS):
            return "routed-experts-json"
        is_route = any(f'"{field}"'.encode() in head for field in ROUTE)
        counted = not is_route and any(field in head for field in OF_COUNTS)
        return "count-jsonl" if counted else "route-jsonl"
    return "imatrix-gguf" if head.startswith(b"GGUF") else None


OF_ANSWERS = (b'"routed_experts"', b'"meta_info"', b'"choices"')
"""Keys by which a line is known for a runtime's answer."""

OF_COUNTS = (b'"eplb_load_stats"', *(f'"{name}"'.encode() for name in COUNT_NAMES))
"""Words by which a line is known for the counts of a step."""


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
        One of `moeopt.sim.traces.files.FORMATS`, or of an installed plug-in (entry points
        ``moeopt.readers``); by default told from the file.
    top_k
        Experts per token, for the format that does not say it (SGLang's answers).

    Returns
    -------
    Trace
        Its `topk_ids` have shape (tokens, layers, top_k); layers without experts are left out.

    Warns
    -----
    MoeoptWarning
        If a test part of the trace would repeat tokens of the train part, see
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
    expect("top_k", top_k, int, Integral, NoneType, what="an integer")
    if top_k is not None and top_k < 1:
        raise InputError(f"must be at least 1, not {top_k}", field="top_k")
    name = format_of(path, format)
    reader = get_format(name).trace
    if reader is None:
        takers = "`moeopt plan` and `generate placement` take it, and load_counts"
        raise CountsOnlyError(f"{path}: {name} holds counts only, no tokens: {takers}")
    return _read(reader, path, top_k)


def read_routing(
    path: str | Path,
    where: Mapping[str, str] | None = None,
    read: Callable[[Path], Trace] = read_trace,
    format: str | None = None,
) -> Trace | Counts:
    """Read a trace, or counts where a file holds no more.

    Parameters
    ----------
    path, where
        As for `load_counts`; with `where` the file is one of counts.
    read
        What reads a trace: `read_trace`, or `load_trace`, which warns of repeats.
    format
        As for `load_counts`, where a file holds no more.

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
        return load_counts(path, format, where=where)
    try:
        return read(path)
    except CountsOnlyError:
        return load_counts(path, format)


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
    expect("where", where, Mapping, NoneType, what="a mapping from labels to values")
    name = format_of(path, format)
    reader = get_format(name).counts
    if where and name != "count-csv":
        raise InputError("only a CSV of counts has labels to choose by", where=path, field="where")
    if reader is None or (batch is not None and get_format(name).trace):
        trace = read_trace(path, format, top_k)
        return trace.step_counts(trace.tokens if batch is None else batch, batching, experts)
    counts = _read(reader, path, *([where] if where else []))
    return counts if experts is None else counts.padded(experts)


def _read(reader: Callable[..., Read], path: Path, *options: object) -> Read:
    try:
        return reader(path, *options)
    except MemoryError:
        raise InputError("too large for this machine's memory", where=path) from None
