"""safetensors files: arrays as they were written, and hostile headers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt import InputError
from tests.interop.refusals import MEBIBYTE, frugal_refusal
from tests.rooms.sim import losses, read_tensor, tensor_names

ENTRY = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}


def written(
    folder: Path, header: Any, payload: bytes = b"\0" * 24, length: int | None = None
) -> Path:
    """Return a file with a header of any kind."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = folder / "model.safetensors"
    size = (len(text) if length is None else length).to_bytes(8, "little")
    path.write_bytes(size + text + payload)
    return path


def test_every_type_is_read_as_it_was(tmp_path: Path) -> None:
    """Values that all four types hold exactly, metadata beside them, in any order."""
    values = np.array([[1.5, -2.0, 0.0], [0.25, 384.0, -1.0]])
    payloads = {
        "F64": values.astype("<f8").tobytes(),
        "F32": values.astype("<f4").tobytes(),
        "F16": values.astype("<f2").tobytes(),
        "BF16": (values.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes(),
    }
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    begin = 0
    for kind, payload in payloads.items():
        offsets = [begin, begin + len(payload)]
        header[kind] = {"dtype": kind, "shape": [2, 3], "data_offsets": offsets}
        begin = offsets[1]
    path = written(tmp_path, header, b"".join(payloads.values()))
    assert tensor_names(path) == list(payloads)
    for name in payloads:
        assert read_tensor(path, name).tolist() == values.tolist()


def test_weights_from_a_file_can_be_quantised(tmp_path: Path) -> None:
    """From file to loss: at eight bits nearly nothing is lost, at two a good deal."""
    rng = np.random.default_rng(0)
    weights, activations = rng.standard_normal((8, 16)), rng.standard_normal((40, 16))
    payload = weights.astype("<f4").tobytes()
    entry = {"dtype": "F32", "shape": [8, 16], "data_offsets": [0, len(payload)]}
    read = read_tensor(written(tmp_path, {"w": entry}, payload), "w")
    two, eight = losses(read, activations, (2, 8))
    assert eight < two / 1000


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ([], "header: must be an object"),
        (b"{", "header: not valid JSON"),
        (b"\xff\xfe", "not a safetensors file: the header is no text"),
        ({}, '"w": is not there'),
        ({"w": {"dtype": "F32"}}, '"w": must have dtype, shape and data_offsets'),
        ({"w": ENTRY | {"dtype": "I64"}}, '"w": dtype: must be one of F64, F32, F16, BF16'),
        ({"w": ENTRY | {"shape": [2, -3]}}, '"w": shape: must be whole numbers'),
        ({"w": ENTRY | {"shape": [2, True]}}, '"w": shape: must be whole numbers'),
        ({"w": ENTRY | {"shape": [1] * 9}}, '"w": shape: has more than 8 axes'),
        ({"w": ENTRY | {"shape": [2**47, 2**47]}}, '"w": data_offsets: do not fit'),
        ({"w": ENTRY | {"data_offsets": [8, 32]}}, '"w": data_offsets: do not fit'),
        ({"w": ENTRY | {"data_offsets": [0]}}, '"w": data_offsets: do not fit'),
    ],
)
def test_hostile_headers_are_refused(header: Any, says: str, tmp_path: Path) -> None:
    """File, tensor and reason; no memory is set aside for what is only declared."""
    path = written(tmp_path, header)
    message = frugal_refusal(path, 4 * MEBIBYTE, lambda path: read_tensor(path, "w"))
    assert message.startswith(says)


def test_headers_that_are_longer_than_the_file_are_refused(tmp_path: Path) -> None:
    """Also by 2**63 bytes, and a file of three."""
    for length in (10**6, 2**63):
        with pytest.raises(InputError, match=f"a header of {length} bytes"):
            tensor_names(written(tmp_path, {}, length=length))
    path = tmp_path / "short"
    path.write_bytes(b"abc")
    with pytest.raises(InputError, match="not a safetensors file"):
        tensor_names(path)
