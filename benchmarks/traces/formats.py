"""Forms of published traces, and the one function that reads any of them."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.rooms.core import unknown
from benchmarks.rooms.sim import Trace
from benchmarks.traces.esft import read_esft
from benchmarks.traces.exflow import read_exflow
from benchmarks.traces.hdmoe import read_hdmoe
from benchmarks.traces.moe_balance import read_moe_balance
from benchmarks.traces.moe_trace import read_moe_trace
from moeopt import InputError

FORMATS: dict[str, Callable[[Path, int | None], Trace]] = {
    "exflow-npy": read_exflow,
    "hdmoe-json": read_hdmoe,
    "moe-balance-jsonl": read_moe_balance,
    "moe-trace-csv": read_moe_trace,
    "esft-txt": read_esft,
}
"""Name of a format -> its reader, which takes a file and the experts per token if told."""


def read_published(path: str | Path, format: str, top_k: int | None = None) -> Trace:
    """Read a trace in one of `FORMATS`.

    Parameters
    ----------
    path
        A file; for ``esft-txt`` a folder with a file for each layer as well.
    format
        One of `FORMATS`.
    top_k
        Experts per token, which ``esft-txt`` does not say.

    Raises
    ------
    InputError
        If the format is unknown, or the file cannot be read, holds no such trace, or is too large;
        one line with file, field and reason.
    """
    path = Path(path)
    if format not in FORMATS:
        raise InputError(f"{path}: format: {unknown(format, FORMATS)}")
    if top_k is not None and top_k < 1:
        raise InputError(f"top_k: must be at least 1, not {top_k}")
    try:
        return FORMATS[format](path, top_k)
    except MemoryError:
        raise InputError(f"{path}: too large for this machine's memory") from None
