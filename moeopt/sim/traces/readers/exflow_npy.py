"""ExFlow's top-1 traces: an npy array [token, layer] with the one expert of each token."""

from pathlib import Path

from moeopt.core.errors import InputError
from moeopt.sim.traces.readers.checked import checked_trace
from moeopt.sim.traces.readers.npy import read_npy
from moeopt.sim.traces.trace import Trace


def read_exflow_npy(path: Path, top_k: int | None = None) -> Trace:
    """Read such an array; other tools put other things into three axes, so these are refused."""
    ids = read_npy(path)
    if ids.ndim != 2:
        found = f"{ids.dtype} of shape {ids.shape}"
        raise InputError(f"{path}: topk_ids: must be integers [token, layer], not {found}")
    return checked_trace(path, ids[:, :, None], facts={"format": "exflow-npy"})
