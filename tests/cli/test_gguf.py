"""GGUF files on the command line: taken where a model is, refused in one line with exit code 2."""

import json
from pathlib import Path

import pytest

import moeopt
from tests.gguf_files import write_gguf
from tests.rooms.cli import run
from tests.rooms.sim import Workload, find, get_model, routing_trace
from tests.sim.gguf_models import SMALL, SMALL_TENSORS

GENERATE = "generate placement --machine rtx4090-7960x --workload hdmoe-mixtral --steps 4 --model"

SIMULATE = "simulate --machine rtx4090-7960x --workload hdmoe-mixtral --json --depth 100 --model"


@pytest.fixture
def model(tmp_path: Path) -> str:
    """Return the path of a small model."""
    return str(write_gguf(tmp_path / "small-Q4_K_M.gguf", SMALL, SMALL_TENSORS))


def test_commands_take_a_gguf_file(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An instance has the file's name and its experts' bytes; the engine runs it."""
    out = tmp_path / "out.json"
    assert run([*GENERATE.split(), model, "--share", "0.5", "--out", str(out)]) == 0
    made = json.loads(out.read_text())
    assert made["provenance"]["model"] == "small-Q4_K_M"
    assert (made["gpu_slots"], len(made["steps"][0])) == (4, 2)
    capsys.readouterr()
    assert run([*SIMULATE.split(), model]) == 0
    assert json.loads(capsys.readouterr().out)["model"] == "small-Q4_K_M"
    assert get_model(model).model_class is None


@pytest.mark.parametrize("command", [GENERATE, SIMULATE])
def test_a_bad_file_is_one_line_and_exit_code_2(
    command: str, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a header."""
    whole = Path(model).read_bytes()
    Path(model).write_bytes(whole[:600])
    assert run([*command.split(), model]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert said.err.startswith(f"moeopt: error: {model}: ")
    assert "cannot be in" in said.err


def test_bits_of_a_plan_are_those_of_every_weight(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At 2 bits a weight that stays on the GPU takes a quarter of a byte; the page says it."""
    law = find("workloads", Workload, "hdmoe-mixtral")
    trace = tmp_path / "trace.npz"
    moeopt.save_trace(routing_trace(law, experts=4, top_k=2, layers=2, tokens=20, seed=3), trace)
    command = ["plan", "--machine", "rtx4090-7960x", "--model", model, "--trace", str(trace)]
    options = ["--steps", "4", "--max-deferred", "0", "--bits", "2", "--joint-time", "0"]
    assert run([*command, *options, "--json"]) == 0
    memory = json.loads(capsys.readouterr().out)["gpu_memory_bytes"]
    assert memory["dense"] == get_model(model).resident_weights // 4
    assert memory["kv_cache"] == 2 * 32768 * 2 * 2 * 64 * 2
    assert run([*command, *options]) == 0
    assert "bits       2 per weight; 16 in the KV cache\n" in capsys.readouterr().out


def test_a_fractional_width_in_a_model_file(tmp_path: Path) -> None:
    """4.5 bits, with a KV cache of 16."""
    path = tmp_path / "mine.json"
    data = get_model("qwen3-30b-a3b").model_dump() | {"bytes_per_weight": 0.5625}
    path.write_text(json.dumps(data))
    found = get_model(path)
    assert found.expert_bytes == 3 * 2048 * 768 * 9 // 16
    assert found.bytes_of("attention") == found.weights_of("attention") * 9 // 16
    assert found.kv_bytes(1) == 2 * 4 * 128 * 2
