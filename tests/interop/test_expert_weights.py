"""Experts found by their tensors' names, in one file or several; and what is refused."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from moeopt import InputError
from tests.interop.safetensors_files import write_safetensors
from tests.rooms.sim import open_weights, read_activations

Tensors = dict[str, NDArray[np.float32]]
NAMES = ("gate_proj", "up_proj", "down_proj")


def tensors(names: tuple[str, ...] = NAMES, block: str = "mlp") -> Tensors:
    """Return two layers of three experts, each matrix filled with a number that names it."""
    made: Tensors = {"model.embed_tokens.weight": np.zeros((2, 2), np.float32)}
    for layer in (1, 2):
        made[f"model.layers.{layer}.{block}.gate.weight"] = np.zeros((3, 4), np.float32)
        for expert in range(3):
            for part, name in enumerate(names):
                shape = (4, 5) if part == 2 else (5, 4)
                key = f"model.layers.{layer}.{block}.experts.{expert}.{name}.weight"
                made[key] = np.full(shape, 100 * layer + 10 * expert + part, np.float32)
    return made


def marks(path: Path, layer: int, expert: int) -> list[float]:
    """Return what the matrices of an expert are filled with, in order."""
    return [float(matrix[0, 0]) for matrix in open_weights(path).read(layer, expert)]


def test_one_file(tmp_path: Path) -> None:
    """Layers 1 and 2; routers, attention and the rest are left alone."""
    path = write_safetensors(tmp_path / "model.safetensors", tensors())
    found = open_weights(path)
    assert (found.layers, found.experts) == ((1, 2), 3)
    assert marks(path, 2, 1) == [210, 211, 212]


def test_mixtral_names(tmp_path: Path) -> None:
    """w1 is the gate, w3 up, w2 down."""
    made = tensors(("w1", "w3", "w2"), "block_sparse_moe")
    assert marks(write_safetensors(tmp_path / "m.safetensors", made), 1, 2) == [120, 121, 122]


def test_shards_in_a_folder(tmp_path: Path) -> None:
    """An expert's matrices may lie in different files."""
    made = list(tensors().items())
    write_safetensors(tmp_path / "model-1-of-2.safetensors", dict(made[:6]))
    write_safetensors(tmp_path / "model-2-of-2.safetensors", dict(made[6:]))
    assert marks(tmp_path, 1, 0) == [100, 101, 102]
    assert marks(tmp_path, 1, 1) == [110, 111, 112]


def test_npz_by_name_and_stacked(tmp_path: Path) -> None:
    """Arrays of the same names, or one array of single matrices."""
    named, stacked = tmp_path / "named.npz", tmp_path / "stacked.npz"
    np.savez(named, **tensors())  # type: ignore[arg-type]
    assert marks(named, 2, 2) == [220, 221, 222]
    np.savez(stacked, weights=np.arange(48.0).reshape(2, 3, 4, 2))
    found = open_weights(stacked)
    assert (found.layers, found.experts) == ((0, 1), 3)
    assert found.read(1, 0)[0].tolist() == np.arange(24.0, 32.0).reshape(4, 2).tolist()


def refused(path: Path) -> str:
    """Return the one line that a file is refused with."""
    with pytest.raises(InputError) as caught:
        open_weights(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_refusals(tmp_path: Path) -> None:
    """No files, no experts, an expert that lacks a matrix, arrays of the wrong kind."""
    assert "*.safetensors" in refused(tmp_path)
    none = write_safetensors(tmp_path / "none.safetensors", {"a.weight": np.zeros(2, np.float32)})
    assert "holds no tensor" in refused(none)
    made = tensors()
    del made["model.layers.2.mlp.experts.1.up_proj.weight"]
    partial = write_safetensors(tmp_path / "partial.safetensors", made)
    assert "layer 2 expert 1 lacks a matrix" in refused(partial)
    flat = tmp_path / "flat.npz"
    np.savez(flat, weights=np.zeros((2, 3)))
    assert "must be floats [layer, expert, row, column]" in refused(flat)
    assert "cannot be read" in refused(tmp_path / "absent.safetensors")


def test_activations(tmp_path: Path) -> None:
    """Two or three axes of finite floats under the name hidden."""
    path = tmp_path / "x.npz"
    np.savez(path, hidden=np.ones((3, 4), np.float32))
    assert read_activations(path).tolist() == np.ones((3, 4)).tolist()
    for array, reason in (
        (np.ones(3), "must be floats"),
        (np.ones((3, 4), int), "must be floats"),
        (np.full((3, 4), np.inf), "must be finite"),
    ):
        np.savez(path, hidden=array)
        with pytest.raises(InputError, match=reason):
            read_activations(path)
    np.savez(path, other=np.ones(3))
    with pytest.raises(InputError, match="hidden: is missing"):
        read_activations(path)
