"""``moeopt losses``: tables from weights and from files, and on to an instance."""

from pathlib import Path

import numpy as np
import pytest

import moeopt
from tests.refusals import refused_command
from tests.rooms.cli import run
from tests.rooms.sim import read_loss_table


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Return Mixtral's shape of experts, with tiny matrices, two layers of them."""
    path = tmp_path / "weights.npz"
    np.savez(path, weights=np.random.default_rng(0).standard_normal((2, 8, 6, 10)))
    return path


def test_measure_then_generate(weights: Path, tmp_path: Path) -> None:
    """Weights become a table, the table an instance, and that is solved."""
    table, instance = tmp_path / "table.json", tmp_path / "instance.json"
    assert run(["losses", "measure", str(weights), "--bits", "2,3,4", "--out", str(table)]) == 0
    found = read_loss_table(table)
    assert (found.bits, found.losses.shape) == ((2, 3, 4), (2, 8, 3))
    assert found.facts is not None
    assert (found.facts["quantiser"], found.facts["inputs"]) == ("gptq", "standard normal")
    command = "generate bitwidth --machine cxl-ndp --model mixtral-8x7b --workload hdmoe-mixtral"
    options = f"--layers 2 --bits 2,3,4 --average-bits 3 --loss-table {table} --out {instance}"
    assert run([*command.split(), *options.split()]) == 0
    assert moeopt.solve(moeopt.load(instance), "dp").status == "optimal"


def test_widths_follow_the_table(
    weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table at 2 and 4 bits needs no `--bits`; what was measured is said in a line."""
    table, instance = tmp_path / "table.json", tmp_path / "instance.json"
    assert run(["losses", "measure", str(weights), "--bits", "2,4", "--out", str(table)]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{table}: 2 layers x 8 experts at 2, 4 bits; mean loss ")
    command = "generate bitwidth --machine cxl-ndp --model mixtral-8x7b --workload hdmoe-mixtral"
    options = f"--layers 2 --average-bits 3 --loss-table {table} --out {instance}"
    assert run([*command.split(), *options.split()]) == 0
    made = moeopt.load(instance)
    assert made.bits == (2, 4)  # type: ignore[attr-defined]
    assert (made.provenance or {})["options"]["bits"] == "2,4"


def test_measure_on_given_inputs(weights: Path, tmp_path: Path) -> None:
    """Activations from a file, rounding alone, the first layer only."""
    inputs, table = tmp_path / "x.npz", tmp_path / "table.json"
    np.savez(inputs, hidden=np.random.default_rng(1).standard_normal((20, 10)))
    options = ["--activations", str(inputs), "--method", "rtn", "--layers", "1"]
    assert run(["losses", "measure", str(weights), *options, "--out", str(table)]) == 0
    found = read_loss_table(table)
    assert found.losses.shape == (1, 8, 4)
    assert found.facts is not None
    assert (found.facts["inputs"], found.facts["tokens"]) == ("given", 20)


def test_convert(tmp_path: Path) -> None:
    """CSV becomes the project's JSON."""
    source, table = tmp_path / "t.csv", tmp_path / "t.json"
    source.write_text("layer,expert,bits,loss\n0,0,2,0.5\n0,0,3,0.25\n")
    assert run(["losses", "convert", str(source), "--out", str(table)]) == 0
    assert read_loss_table(table).losses.tolist() == [[[0.5, 0.25]]]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--bits", "2,x"], "--bits: must be whole numbers"),
        (["--bits", "3,2"], "--bits[1]: must rise"),
        (["--bits", "17"], "bits: must be from 1 to 16"),
        (["--activations", "absent.npz"], "absent.npz: cannot be read"),
    ],
)
def test_one_line_and_exit_2(
    options: list[str], reason: str, weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """What cannot be used is said in one line, and nothing is written."""
    out = tmp_path / "table.json"
    line = refused_command(capsys, ["losses", "measure", str(weights), *options, "--out", str(out)])
    assert reason in line
    assert not out.exists()
