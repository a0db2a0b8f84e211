"""Reading routing traces, by file kind."""

from pathlib import Path

from moeopt.errors import InputError
from moeopt.interop.topk_npz import read_topk_npz
from moeopt.sim.trace import Trace

READERS = {".npz": read_topk_npz}
"""File suffix -> reader."""


def load_trace(path: str | Path) -> Trace:
    """Read a routing trace.

    Parameters
    ----------
    path
        An ``.npz`` with ``topk_ids`` of shape (tokens, layers, k), and optionally ``topk_weights``
        of the same shape and ``seq_len``.

    Raises
    ------
    InputError
        If the file cannot be read, is not such a file or is too large.
    """
    path = Path(path)
    reader = READERS.get(path.suffix)
    if reader is None:
        raise InputError(f"{path}: trace files of kind {path.suffix!r} are not known; known: .npz")
    return reader(path)
