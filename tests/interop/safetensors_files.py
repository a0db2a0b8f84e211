"""safetensors files, written by their description."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def write_safetensors(path: Path, tensors: dict[str, NDArray[np.float32]]) -> Path:
    """Write tensors as F32, one after the other."""
    header, payload = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.astype("<f4").tobytes()
        offsets = [len(payload), len(payload) + len(raw)]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
        payload += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + payload)
    return path
