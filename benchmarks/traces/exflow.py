"""ExFlow's top-1 traces: an npy array [token, layer] with the one expert of each token."""

from pathlib import Path

from benchmarks.rooms.core import reading
from benchmarks.rooms.sim import Trace, check_size, checked_trace, npy_from_bytes
from moeopt import InputError


def read_exflow(path: Path, top_k: int | None = None) -> Trace:
    """Read such an array; other tools put other things into three axes, so these are refused."""
    check_size(path)
    with reading(path):
        payload = path.read_bytes()
    ids = npy_from_bytes(payload, str(path))
    if ids.ndim != 2:
        found = f"{ids.dtype} of shape {ids.shape}"
        raise InputError(f"{path}: topk_ids: must be integers [token, layer], not {found}")
    return checked_trace(path, ids[:, :, None], facts={"format": "exflow-npy"})
