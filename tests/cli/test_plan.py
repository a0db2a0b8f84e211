"""``moeopt plan``: the page, JSON, files, and one line where it cannot be done."""

import json
from pathlib import Path

import pytest

import moeopt
from tests.planner.test_planner import LAYERS, MODEL, request
from tests.refusals import refused_command
from tests.rooms.cli import run


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the small request's trace; its model's file stands beside it."""
    path = tmp_path_factory.mktemp("plan") / "trace.npz"
    moeopt.save_trace(request().trace, path)
    path.with_name("model.json").write_text(MODEL.model_dump_json(exclude_none=True))
    return path


def command(trace: Path, *options: str) -> list[str]:
    """Return a command for a dozen steps."""
    common = "--machine rtx4090-7960x --steps 12 --time-limit 5 --joint-time 0"
    model = str(trace.with_name("model.json"))
    return ["plan", *common.split(), "--model", model, "--trace", str(trace), *options]


def test_a_page_and_files(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan's file runs in the engine and gives the page's held-out latency or better."""
    out, folder = tmp_path / "plan.json", tmp_path / "runtimes"
    assert run(command(trace, "--out", str(out), "--export", str(folder))) == 0
    said = capsys.readouterr().out
    assert "residency" in said
    assert "ktransformers uniform" in said
    assert (folder / "residency-sglang.json").exists()
    assert moeopt.load_plan(out) == moeopt.load_plan(folder / "plan.json")


def test_json(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object on one line."""
    assert run(command(trace, "--max-deferred", "0", "--json")) == 0
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    assert json.loads(line)["deferred"] == 0


def test_no_room(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 3, one line with the deficit, and nothing on stdout."""
    assert run(command(trace, "--reserved-gib", "50")) == 3
    said = capsys.readouterr()
    assert "MiB more than the 24,576 MiB of rtx4090-7960x; it fits with --reserved-gib" in said.err
    assert (said.out, said.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--machine", "cxl-ndp"], "cpu: is missing"),
        (["--model", "deepseek-v3"], f"{LAYERS} layers x 64 experts"),
        (["--bits", "0.1"], "bits: must be from 0.5 to 64, not 0.1"),
        (["--bits", "nan"], "bits: must be from 0.5 to 64, not nan"),
        (["--average-bits", "nan"], "average_bits: must be from 0.5 to 64, not nan"),
        (["--other-bits", "99"], "other_bits: must be from 0.5 to 64, not 99"),
        (["--kv-bits", "0"], "kv_bits: must be from 0.5 to 64, not 0"),
    ],
)
def test_one_line(
    options: list[str], reason: str, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Errors are one line and an exit code."""
    assert reason in refused_command(capsys, command(trace, *options))


@pytest.mark.parametrize("option", ["--out", "--export"])
def test_where_files_are_to_go_is_checked_first(
    option: str,
    trace: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anything is solved, in one line."""
    monkeypatch.setattr("moeopt.plan", None)
    assert run(command(trace, option, "/proc/x")) == 2
    assert f"{option}: /proc/x: " in capsys.readouterr().err
