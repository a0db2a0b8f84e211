"""Loss tables from CSV, npz and JSON: what is read, and what is refused."""

import gzip
from pathlib import Path

import numpy as np
import pytest

import moeopt
from moeopt import InputError
from tests.interop.refusals import refusal
from tests.rooms.sim import load_loss_table

ROWS = [
    "layer,expert,bits,loss",
    "# a comment",
    "3,0,2,0.5",
    "3,0,4,0.125",
    "7,0,4,1e-3",
    "7,0,2,2",
    "3,5,2,0",
    "3,5,4,0",
    "7,5,2,9",
    "7,5,4,8",
]
EXPECTED = [[[0.5, 0.125], [0.0, 0.0]], [[2.0, 1e-3], [9.0, 8.0]]]


def written(folder: Path, rows: list[str], name: str = "table.csv") -> Path:
    """Return a CSV file."""
    path = folder / name
    payload = "\n".join(rows).encode()
    path.write_bytes(gzip.compress(payload) if name.endswith(".gz") else payload)
    return path


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz"])
def test_a_csv_in_any_order(name: str, tmp_path: Path) -> None:
    """Layers and experts in the order of their numbers, here 3 and 7, 0 and 5."""
    table = load_loss_table(written(tmp_path, ROWS, name))
    assert table.bits == (2, 4)
    assert table.losses.tolist() == EXPECTED
    assert table.name.endswith(f"/{name}")
    assert len(table.facts["sha256"]) == 64


def test_further_columns_and_their_order_do_not_matter(tmp_path: Path) -> None:
    """Named columns are found by name."""
    rows = ["bits,group,loss,expert,layer", "2,a,0.5,0,0", "4,a,0.25,0,0"]
    table = load_loss_table(written(tmp_path, rows))
    assert table.losses.tolist() == [[[0.5, 0.25]]]


def test_npz_and_json_hold_the_same(tmp_path: Path) -> None:
    """Floats survive all three forms exactly."""
    losses = np.random.default_rng(0).random((3, 4, 2))
    np.savez(tmp_path / "table.npz", loss=losses, bits=np.array([1, 3]))
    whole = {"bits": [1, 3], "loss": losses.tolist(), "facts": {"by": "hand"}}
    moeopt.save(whole, tmp_path / "table.json")
    rows = ["layer,expert,bits,loss"] + [
        f"{layer},{expert},{bits},{losses[layer, expert, column]!r}".replace("np.float64(", "")
        for layer in range(3)
        for expert in range(4)
        for column, bits in enumerate((1, 3))
    ]
    written(tmp_path, [row.rstrip(")") for row in rows])
    for name in ("table.npz", "table.json", "table.csv"):
        table = load_loss_table(tmp_path / name)
        assert table.bits == (1, 3)
        assert (table.losses == losses).all()
    facts = load_loss_table(tmp_path / "table.json").facts
    assert facts["by"] == "hand"


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (["layer,expert,loss"], "line 1: must be layer,expert,bits,loss"),
        (ROWS[:1], "holds no losses"),
        ([*ROWS, "3,0,2,1"], "line 11: layer 3 expert 0 at 2 stands twice"),
        (ROWS[:-1], "loss: layer 7 expert 5 has none at 4 bits"),
        ([*ROWS[:-1], "7,5,4"], "line 10: must have 4 fields, not 3"),
        ([*ROWS[:-1], "7,5,4,nan"], "line 10: loss: must be a finite number, not negative"),
        ([*ROWS[:-1], "7,5,4,-1"], "line 10: loss: must be a finite number, not negative"),
        ([*ROWS[:-1], "7,-5,4,1"], "line 10: expert: must be an integer from 0 to 65535"),
        ([*ROWS[:-1], "7,5,0,1"], "line 10: bits: must be an integer from 1 to 64"),
        ([*ROWS[:-1], "99999,5,4,1"], "line 10: layer: must be an integer from 0 to 4095"),
    ],
)
def test_what_is_wrong_in_a_csv_is_named(rows: list[str], says: str, tmp_path: Path) -> None:
    """Line, column and reason."""
    assert refusal(written(tmp_path, rows), load_loss_table).startswith(says)


def test_what_is_wrong_in_an_npz_is_named(tmp_path: Path) -> None:
    """Missing arrays, other types, and objects, which are never unpickled."""
    path = tmp_path / "t.npz"
    losses = np.ones((1, 1, 2))
    np.savez(path, loss=losses)
    assert refusal(path, load_loss_table) == "bits: is missing"
    np.savez(path, loss=losses, bits=np.array([1.0, 2.0]))
    assert refusal(path, load_loss_table) == "bits: must be a list of integers"
    np.savez(path, loss=losses, bits=np.array([1, 2, 3]))
    assert refusal(path, load_loss_table) == "loss: 2 widths, and 3 in bits"
    np.savez(path, loss=np.array([[[{}]]]), bits=np.array([1]), allow_pickle=True)
    assert "npz" in refusal(path, load_loss_table)


def test_other_endings_are_refused(tmp_path: Path) -> None:
    """The form is told from the name."""
    path = tmp_path / "table.txt"
    path.write_text("x")
    assert refusal(path, load_loss_table).startswith("must end in .csv, .npz or .json")
    assert "cannot be read" in refusal(tmp_path / "none.csv", load_loss_table)


def test_one_row_per_expert(tmp_path: Path) -> None:
    """Widths as columns, as Mixture Compressor's measurements have them; others are not read."""
    path = tmp_path / "wide.csv"
    path.write_text("layer,expert,frequency,loss_1bit,loss_3bit\n0,0,9,4.5,1\n0,1,8,2,0.5\n")
    table = load_loss_table(path)
    assert (table.bits, table.losses.tolist()) == ((1, 3), [[[4.5, 1.0], [2.0, 0.5]]])
    path.write_text("layer,expert,loss_1bit,loss_3bit\n0,0,4.5\n")
    with pytest.raises(InputError, match="line 2: must have 4 fields"):
        load_loss_table(path)
