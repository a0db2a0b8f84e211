"""The matrices of a model's experts: safetensors files as on the Hugging Face hub, or npz.

Tensors are found by name, ``...layers.L....experts.E.NAME.weight`` with NAME one of gate_proj,
up_proj, down_proj or w1, w3, w2 (Mixtral). An npz file holds arrays of such names, or one array
``weights`` of shape (layers, experts, rows, columns), whose experts are single matrices.

Tensors from safetensors files: eight bytes of length, a JSON header, then raw data.

Nothing is executed. The header is bounded, and every tensor must lie within the file and be as long
as its shape says. Only the tensors that are asked for are read.
"""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.json_files import parse
from moeopt.core.untrusted import reading
from moeopt.core.wording import shown
from moeopt.sim.traces.readers.checked import MAX_EXPERT, MAX_FILES, MAX_LAYER, check_size
from moeopt.sim.traces.readers.topk_npz import MAX_ARRAY_BYTES, npz_names, read_npz

MAX_HEADER_BYTES = 64 * 2**20

MAX_AXES = 8

TYPES: dict[str, str] = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""Types that are read, with how they are stored; BF16 is the upper half of an F32."""


def tensor_names(path: Path) -> list[str]:
    """Return the names of the tensors in a file, in the order of its header.

    Raises
    ------
    InputError
        If the file cannot be read or its header is none.
    """
    return list(_header(path)[0])


def read_tensor(path: Path, name: str) -> NDArray[np.generic]:
    """Return a tensor of a file as an array of floats, BF16 as 32 bits.

    Raises
    ------
    InputError
        If it is not there, not of floats, not where the header says, or more than 2 GiB.
    """
    header, begin, size = _header(path)
    where = f"{path}: {shown(name)}"
    if name not in header:
        raise InputError(f"{where}: is not there")
    kind, shape, first, last = _entry(where, header[name], size - begin)
    if last - first > MAX_ARRAY_BYTES:
        raise InputError(f"{where}: more than {MAX_ARRAY_BYTES // 2**30} GiB in all")
    with reading(path), path.open("rb") as stream:
        stream.seek(begin + first)
        payload = stream.read(last - first)
    if len(payload) < last - first:
        raise InputError(f"{where}: the file ends within it")
    array = np.frombuffer(payload, dtype=TYPES[kind]).reshape(shape)
    return (array.astype(np.uint32) << 16).view(np.float32) if kind == "BF16" else array


def _header(path: Path) -> tuple[dict[str, object], int, int]:
    """Return the header's tensors, where the data begins, and the size of the file."""
    with reading(path), path.open("rb") as stream:
        size = path.stat().st_size
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(MAX_HEADER_BYTES, size - 8):
            raise InputError(f"{path}: not a safetensors file: a header of {length} bytes")
        try:
            text = stream.read(length).decode()
        except UnicodeDecodeError:
            raise InputError(f"{path}: not a safetensors file: the header is no text") from None
    header = parse(text, f"{path}: header")
    if not isinstance(header, dict):
        raise InputError(f"{path}: header: must be an object")
    header.pop("__metadata__", None)
    return header, 8 + length, size


def _entry(where: str, entry: object, held: int) -> tuple[str, tuple[int, ...], int, int]:
    """Return type, shape and place of a tensor, checked against each other and the file."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise InputError(f"{where}: must have dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in TYPES:
        raise InputError(f"{where}: dtype: must be one of {', '.join(TYPES)}, not {shown(kind)}")
    for name, numbers in (("shape", shape), ("data_offsets", offsets)):
        if not isinstance(numbers, list) or not all(
            type(number) is int and 0 <= number < 2**48 for number in numbers
        ):
            raise InputError(f"{where}: {name}: must be whole numbers")
    if len(shape) > MAX_AXES:
        raise InputError(f"{where}: shape: has more than {MAX_AXES} axes")
    needed = math.prod(shape) * np.dtype(TYPES[kind]).itemsize
    if len(offsets) != 2 or offsets[1] - offsets[0] != needed or offsets[1] > held:
        raise InputError(f"{where}: data_offsets: do not fit {needed} bytes within {held}")
    return kind, tuple(shape), offsets[0], offsets[1]


_NAME = re.compile(r"(?:^|\.)layers\.(\d{1,4})\.(?:\w+\.)*experts\.(\d{1,5})\.(\w+)\.weight$")

_PARTS = {"gate_proj": 0, "up_proj": 1, "down_proj": 2, "w1": 0, "w3": 1, "w2": 2}
"""A tensor's name within its expert -> gate, up or down."""


@dataclass(frozen=True)
class ExpertWeights:
    """Where the matrices of every expert are; they are read one expert at a time.

    Attributes
    ----------
    path
        The file or folder.
    layers
        Numbers in the model of the layers that have experts, rising.
    experts
        How many every layer has.
    """

    path: Path
    layers: tuple[int, ...]
    experts: int
    places: dict[tuple[int, int], tuple[tuple[Path, str], ...]]
    stacked: NDArray[Any] | None = None

    def read(self, layer: int, expert: int) -> list[NDArray[Any]]:
        """Return an expert's matrices: gate, up and down, or a single one.

        Raises
        ------
        InputError
            If a file cannot be read.
        """
        if self.stacked is not None:
            return [self.stacked[layer, expert]]
        return [_tensor(path, name) for path, name in self.places[layer, expert]]


def open_weights(path: str | Path) -> ExpertWeights:
    """Find the experts in a safetensors file, a folder of such files, or an npz file.

    Raises
    ------
    InputError
        If nothing can be read, no experts are there, or some expert lacks a matrix.
    """
    path = Path(path)
    files = [path]
    if path.is_dir():
        files = sorted(path.glob("*.safetensors"))
        if not files or len(files) > MAX_FILES:
            raise InputError(f"{path}: must hold 1 to {MAX_FILES} *.safetensors files")
    names = {file: _names(file) for file in files}
    if path.suffix == ".npz" and "weights" in names[path]:
        return _stacked(path)
    places: dict[tuple[int, int], dict[int, tuple[Path, str]]] = {}
    for file, tensors in names.items():
        for name in tensors:
            match = _NAME.search(name)
            if match is None or match[3] not in _PARTS:
                continue
            layer, expert = int(match[1]), int(match[2])
            if layer > MAX_LAYER or expert > MAX_EXPERT:
                raise InputError(f"{file}: {name}: layer or expert is too large a number")
            places.setdefault((layer, expert), {})[_PARTS[match[3]]] = (file, name)
    if not places:
        raise InputError(f"{path}: holds no tensor ...layers.L....experts.E.gate_proj.weight")
    layers = tuple(sorted({layer for layer, _ in places}))
    experts = 1 + max(expert for _, expert in places)
    whole = {}
    for layer in layers:
        for expert in range(experts):
            parts = places.get((layer, expert), {})
            if sorted(parts) != [0, 1, 2]:
                raise InputError(f"{path}: layer {layer} expert {expert} lacks a matrix of three")
            whole[layer, expert] = tuple(parts[part] for part in range(3))
    return ExpertWeights(path, layers, experts, whole)


def read_activations(path: str | Path) -> NDArray[np.float64]:
    """Return the array ``hidden`` of an npz file: (tokens, hidden) or (layers, tokens, hidden).

    Raises
    ------
    InputError
        If the file cannot be read or has no such array of finite numbers.
    """
    path = Path(path)
    arrays = read_npz(path, ("hidden",))
    if "hidden" not in arrays:
        raise InputError(f"{path}: hidden: is missing")
    hidden = arrays["hidden"]
    if hidden.ndim not in (2, 3) or hidden.dtype.kind != "f" or 0 in hidden.shape:
        found = f"{hidden.dtype} of shape {hidden.shape}"
        raise InputError(f"{path}: hidden: must be floats [layer,] token, column, not {found}")
    numbers = hidden.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InputError(f"{path}: hidden: must be finite")
    return numbers


def _names(file: Path) -> list[str]:
    if file.suffix == ".npz":
        check_size(file)
        return sorted(npz_names(file))
    return tensor_names(file)


def _stacked(path: Path) -> ExpertWeights:
    weights = read_npz(path, ("weights",))["weights"]
    if weights.ndim != 4 or weights.dtype.kind != "f" or 0 in weights.shape:
        found = f"{weights.dtype} of shape {weights.shape}"
        raise InputError(
            f"{path}: weights: must be floats [layer, expert, row, column], not {found}"
        )
    return ExpertWeights(path, tuple(range(len(weights))), weights.shape[1], {}, weights)


def _tensor(path: Path, name: str) -> NDArray[Any]:
    if path.suffix != ".npz":
        return read_tensor(path, name)
    array = read_npz(path, (name,))[name]
    if array.dtype.kind != "f":
        raise InputError(f"{path}: {name}: must be floats, not {array.dtype}")
    return array
