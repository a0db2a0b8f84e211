"""Traces as arrays: the project's own npz, and ExFlow's npy.

The ``topk_ids`` npz trace, the project's own form: arrays only.

ExFlow's top-1 traces: an npy array [token, layer] with the one expert of each token.
"""

import io
import json
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import write_bytes
from moeopt.sim.traces.readers.checked import checked_trace, smallest
from moeopt.sim.traces.readers.npy import read_npy, read_npz
from moeopt.sim.traces.trace import Trace

KEYS = ("topk_ids", "topk_weights", "seq_len", "decode", "provenance")

MAX_PROVENANCE_BYTES = 2**20
"""Longest provenance, as JSON text."""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every member, so that the same trace gives the same bytes."""


def read_topk_npz(path: Path, top_k: int | None = None) -> Trace:
    """Read a trace; see `moeopt.load_trace`."""
    arrays = read_npz(path, KEYS)
    if "topk_ids" not in arrays:
        raise InputError(f"{path}: topk_ids: is missing")
    facts: dict[str, object] = {}
    if "provenance" in arrays:
        facts["converted"] = _read_provenance(path, arrays["provenance"])
    return checked_trace(
        path,
        arrays["topk_ids"],
        arrays.get("topk_weights"),
        arrays.get("seq_len"),
        arrays.get("decode"),
        facts,
    )


def save_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace as npz, whole or not at all; the same trace gives the same bytes.

    Ids are stored as the smallest kind of integers that holds them; name and facts go along as
    JSON text, and stand under "converted" in the facts of the trace that is read again.

    Parameters
    ----------
    trace
        Routing with `topk_ids` of shape (tokens, layers, top_k).
    path
        The file to write, by custom with the ending ``.npz``.

    Raises
    ------
    InputError
        If the file cannot be written or the facts are not JSON.

    Examples
    --------
    >>> import moeopt, numpy as np
    >>> from moeopt.sim.traces.trace import Trace
    >>> trace = Trace("two tokens, one layer, top-2", np.array([[[0, 1]], [[1, 3]]]))
    >>> moeopt.save_trace(trace, "trace.npz")
    >>> moeopt.load_trace("trace.npz").topk_ids.tolist()
    [[[0, 1]], [[1, 3]]]
    """
    expect("trace", trace, Trace, what="a trace")
    expect("path", path, str, Path, what="a path")
    path = Path(path)
    arrays = {
        "topk_ids": smallest(trace.topk_ids),
        "topk_weights": trace.topk_weights,
        "seq_len": trace.seq_len,
        "decode": trace.decode,
        "provenance": _provenance(trace, path),
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for key, array in arrays.items():
            if array is not None:
                member = zipfile.ZipInfo(f"{key}.npy", EPOCH)
                member.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(member, _npy(array))
    try:
        write_bytes(stream.getvalue(), path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _npy(array: NDArray[np.generic]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
    return stream.getvalue()


def _provenance(trace: Trace, path: Path) -> NDArray[np.uint8]:
    try:
        known = {"name": trace.name} | (trace.facts or {})
        text = json.dumps(known, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be written: facts: {error}") from None
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _read_provenance(path: Path, array: NDArray[np.generic]) -> dict[str, object]:
    if array.dtype != np.uint8 or array.ndim != 1 or array.size > MAX_PROVENANCE_BYTES:
        raise InputError(f"{path}: provenance: must be bytes of a JSON text")
    try:
        known = json.loads(array.tobytes())
    except (ValueError, RecursionError):
        raise InputError(f"{path}: provenance: is not valid JSON") from None
    if not isinstance(known, dict):
        raise InputError(f"{path}: provenance: must be a JSON object")
    return known


def read_exflow_npy(path: Path, top_k: int | None = None) -> Trace:
    """Read such an array; other tools put other things into three axes, so these are refused."""
    ids = read_npy(path)
    if ids.ndim != 2:
        found = f"{ids.dtype} of shape {ids.shape}"
        raise InputError(f"{path}: topk_ids: must be integers [token, layer], not {found}")
    return checked_trace(path, ids[:, :, None], facts={"format": "exflow-npy"})
