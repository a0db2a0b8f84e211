"""The ``topk_ids`` npz trace: arrays only, read without pickle and within bounds."""

import hashlib
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import InputError
from moeopt.sim.trace import Trace

MAX_FILE_BYTES = 2 * 2**30
MAX_ARRAY_BYTES = 2 * 2**30
"""Most bytes that the arrays read may declare, together; checked before any is expanded."""

KEYS = ("topk_ids", "topk_weights", "seq_len")


def read_topk_npz(path: Path) -> Trace:
    """Read a trace; see `moeopt.load_trace`."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"{path}: larger than {MAX_FILE_BYTES // 2**30} GiB")
        with zipfile.ZipFile(path) as archive:
            _refuse_bombs(path, archive)
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in KEYS if key in file.files}
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except InputError:
        raise
    except Exception as error:  # zipfile and numpy raise a dozen kinds on hostile bytes
        raise InputError(f"{path}: not a usable npz file: {_first_line(error)}") from None
    if "topk_ids" not in arrays:
        raise InputError(f"{path}: topk_ids: is missing")
    _check_arrays(path, arrays)
    facts = {"sha256": digest, "tokens": int(arrays["topk_ids"].shape[0])}
    return Trace(f"{path.absolute().parent.name}/{path.name}", **arrays, facts=facts)


def _refuse_bombs(path: Path, archive: zipfile.ZipFile) -> None:
    """Bound what the members expand to and what the arrays declare, before reading any of them."""
    members = [m for m in archive.infolist() if m.filename.removesuffix(".npy") in KEYS]
    total = 0
    for member in members:
        with archive.open(member) as stream:
            version = np.lib.format.read_magic(stream)
            read = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }.get(version)
            if read is None:
                raise InputError(f"{path}: {member.filename}: npy version {version} is not known")
            shape, _, dtype = read(stream)
        total += max(math.prod(shape) * dtype.itemsize, member.file_size)
        if total > MAX_ARRAY_BYTES:
            limit = MAX_ARRAY_BYTES // 2**30
            raise InputError(f"{path}: {member.filename}: declares more than {limit} GiB")


def _check_arrays(path: Path, arrays: dict[str, NDArray[Any]]) -> None:
    ids = arrays["topk_ids"]
    if ids.ndim != 3 or ids.dtype.kind not in "iu":
        found = f"{ids.dtype} of shape {ids.shape}"
        raise InputError(f"{path}: topk_ids: must be integers [token, layer, k], not {found}")
    if 0 in ids.shape:
        raise InputError(f"{path}: topk_ids: is empty, shape {ids.shape}")
    if int(ids.min()) < 0:
        raise InputError(f"{path}: topk_ids: must not be negative, not {int(ids.min())}")
    weights = arrays.get("topk_weights")
    if weights is not None and weights.shape != ids.shape:
        raise InputError(f"{path}: topk_weights: shape {weights.shape} is not that of topk_ids")
    if weights is not None and not (
        np.issubdtype(weights.dtype, np.floating) and np.isfinite(weights).all()
    ):
        raise InputError(f"{path}: topk_weights: must be finite floats")
    lengths = arrays.get("seq_len")
    if lengths is None:
        return
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu" or not lengths.size:
        raise InputError(f"{path}: seq_len: must be a list of integers")
    if int(lengths.min()) < 0 or int(lengths.max()) > ids.shape[0]:
        raise InputError(f"{path}: seq_len: must be from 0 to {ids.shape[0]}, the tokens")
    if int(lengths.sum()) != ids.shape[0]:
        raise InputError(f"{path}: seq_len: sums to {lengths.sum()}, not {ids.shape[0]} tokens")


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
