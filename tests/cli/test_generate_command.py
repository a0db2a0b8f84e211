"""``moeopt generate``: several instances in one call, whose trace it is, options without effect."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from tests.refusals import refused_command
from tests.rooms.cli import run

LITE = ["--machine", "trimoe", "--model", "deepseek-v2-lite"]
MADE = ["generate", "tri_domain", *LITE, "--workload", "olmoe-1b-7b"]


def trace(folder: Path, layers: int = 26, top_k: int = 6, tokens: int = 40) -> str:
    """Return the file of a trace of 64 experts."""
    every = np.tile(np.arange(64, dtype=np.int16), (tokens, layers, 1))
    ids = np.random.default_rng(1).permuted(every, axis=2)[:, :, :top_k]
    np.savez(folder / "t.npz", topk_ids=ids)
    return str(folder / "t.npz")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return what a command prints that succeeds."""
    capsys.readouterr()
    assert run([*words]) == 0
    return capsys.readouterr().out.splitlines()


def test_every_combination_is_a_file_of_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which is made, and each file is as if made alone."""
    out = f"{tmp_path}/new/deep/"
    several = ["--layer", "1,5-6", "--batch", "16,32"]
    lines = printed(capsys, *MADE, *several, "--out", out)
    assert [Path(line).name for line in lines] == [
        f"deepseek-v2-lite-layer{layer}-batch{batch}-step1-seed0.json"
        for layer in (1, 5, 6)
        for batch in (16, 32)
    ]
    alone = ["--layer", "5", "--batch", "32", "--out", str(tmp_path / "one.json")]
    assert printed(capsys, *MADE, *alone) == [str(tmp_path / "one.json")]
    assert Path(lines[3]).read_bytes() == (tmp_path / "one.json").read_bytes()
    assert {path.name for path in Path(out).iterdir()} == {Path(line).name for line in lines}


def test_written_files_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An object each, with what was given."""
    lines = printed(capsys, *MADE, "--layer", "0-1", "--out", f"{tmp_path}/d/", "--json")
    found = [json.loads(line) for line in lines]
    assert [(one["layer"], one["problem"]) for one in found] == [
        (0, "tri_domain"),
        (1, "tri_domain"),
    ]
    assert all("batch" not in one and Path(one["file"]).exists() for one in found)
    assert moeopt.load(found[1]["file"]).name == found[1]["name"]


def test_all_layers_are_those_of_the_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a name of one's own, to which layer and batch are added."""
    words = ["generate", "replication", *LITE[2:], "--trace", trace(tmp_path), "--name", "x"]
    lines = printed(capsys, *words, "--layer", "all", "--batch", "8", "--out", f"{tmp_path}/d/")
    assert [Path(line).name for line in lines] == [f"x-layer{n}-batch8.json" for n in range(26)]


def test_later_loads_of_several_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both of each layer are written."""
    words = ["generate", "layout", *MADE[2:], "--layer", "1,2", "--batch", "32"]
    first, second = f"{tmp_path}/a/", f"{tmp_path}/b/"
    lines = printed(capsys, *words, "--out", first, "--later-out", second)
    assert [Path(line).parent.name for line in lines] == ["a", "b", "a", "b"]


def test_a_file_that_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is written where one of several is there; a file that is named is replaced."""
    out = ["--out", f"{tmp_path}/d/"]
    [line] = printed(capsys, *MADE, "--layer", "2", *out)
    Path(line).write_text("mine")
    said = refused_command(capsys, [*MADE, "--layer", "1-3", *out])
    assert said == f"moeopt: error: {line}: is there already: nothing was written"
    assert Path(line).read_text() == "mine"
    assert len([*Path(line).parent.iterdir()]) == 1
    assert printed(capsys, *MADE, "--layer", "2", "--out", line) == [line]
    assert moeopt.load(line).problem == "tri_domain"


WRONG = {
    "--layer 1,2": "--out: must be a folder for 2 instances, with a slash at its end: DIR/",
    "--layer 1,2 --out x.json": "--out: must be a folder for 2 instances",
    "--layer 1,x --out d/": "such as 1,5-7 or all, not 'x'",
    "--layer 5-2 --out d/": "such as 1,5-7 or all, not '5-2'",
    "--layer 1-3,2 --out d/": "--layer: 2 stands twice in '1-3,2'",
    "--layer 0-9999999999 --out d/": "such as 1,5-7 or all, not '0-9",
    "--batch all --out d/": "--batch: must be whole numbers and ranges such as 1,5-7, not 'all'",
    "--layer 0-1000 --batch 1-9 --out d/": "9009 instances are more than 4096 at once",
    "--layer 3,99 --out d/": "layer: must be below 26, not 99: workload olmoe-1b-7b has no more",
    "--layer -1": "layer: must be at least 0, not -1",
    "--json": "--json: needs --out: without it the instance itself is printed",
    "--format topk-npz": "--format: is of a file of --trace or --counts, which is missing",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_list_is_refused_before_anything_is_written(
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one line."""
    monkeypatch.chdir(tmp_path)
    assert WRONG[words] in refused_command(capsys, [*MADE, *words.split()])
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("model", "wanted"), [("deepseek-v2", "59 x 160, top-6"), ("mixtral-8x7b", "32 x 8, top-2")]
)
@pytest.mark.parametrize("problem", ["tri_domain", "placement", "cache", "replication"])
def test_a_trace_of_another_model_is_refused(
    problem: str,
    model: str,
    wanted: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With both shapes."""
    machine = ["--machine", "trimoe"] if problem != "replication" else []
    words = ["generate", problem, *machine, "--model", model]
    said = refused_command(capsys, [*words, "--trace", trace(tmp_path)])
    own = "26 layers x 64 experts (the highest number that occurs, plus one), top-6,"
    assert said.endswith(f"t.npz: {own} are not those of {model}: {wanted}")


def test_a_top_k_of_another_model_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where layers and experts are right."""
    words = ["generate", "tri_domain", *LITE, "--trace", trace(tmp_path, top_k=8)]
    said = refused_command(capsys, words)
    assert "top-8, are not those of deepseek-v2-lite: 26 x 64, top-6" in said


NO_EFFECT = {
    "split --machine 2xrtx3090+epyc-7002 --workload olmoe-1b-7b": "--workload: has no effect",
    "split --machine 2xrtx3090+epyc-7002 --trace T": "--trace: has no effect",
    "split --machine 2xrtx3090+epyc-7002 --counts T": "counts: has no effect without prompt_tokens",
    "replication --workload olmoe-1b-7b --kernel a100-bf16": "kernel: can be used with work",
    "replication --workload olmoe-1b-7b --kernel h100-fp8": "kernel: can be used with work",
    "replication --trace T --drawn-windows 4": "drawn_windows: is for a workload",
    "replication --workload olmoe-1b-7b --quantum-ns 5": "quantum_ns: has no effect",
    "bitwidth --workload olmoe-1b-7b --quantum-ns 5": "quantum_ns: has no effect",
    "bitwidth --trace T --tokens 64": "tokens: is for a workload",
    "bitwidth --weight none --tokens 64": "tokens: is for a workload",
    "tri_domain --workload olmoe-1b-7b": "--machine: is missing",
}


@pytest.mark.parametrize("words", NO_EFFECT)
def test_an_option_without_effect_is_refused(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line that names it."""
    given = [trace(tmp_path) if word == "T" else word for word in words.split()]
    said = refused_command(capsys, ["generate", *given, "--model", "deepseek-v2-lite"])
    assert NO_EFFECT[words] in said


@pytest.mark.parametrize("problem", ["bitwidth", "replication"])
def test_a_machine_that_says_nothing_may_be_absent(problem: str) -> None:
    """The instance is the same but for the provenance."""
    given: dict[str, Any] = {"model": "deepseek-v2-lite", "workload": "olmoe-1b-7b"}
    without = moeopt.generate(problem, **given)
    other = moeopt.generate(problem, machine="cxl-ndp", **given)
    assert (without.provenance or {})["machine"] is None
    assert (other.provenance or {})["machine"] == "cxl-ndp"
    assert without.model_copy(update={"provenance": other.provenance}) == other


def test_the_format_of_a_file_may_be_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where an array may be either: three tokens of two layers, or counts in three steps."""
    np.save(tmp_path / "c.npy", np.tile([3, 1, 2, 0], (3, 2, 1)) + np.arange(3)[:, None, None])
    words = ["trace", "info", str(tmp_path / "c.npy")]
    assert "format: holds an array of int64 of shape (3, 2, 4): may be" in refused_command(
        capsys, words
    )
    said = printed(capsys, *words, "--format", "count-array")
    assert said[0].endswith("c.npy: 2 layers, 4 experts, 60 accesses")
    said = printed(capsys, *words, "--format", "token-array")
    assert "c.npy: 3 tokens, 2 layers, 6 experts, 4 k" in said[0]
    flat = np.random.default_rng(2).permuted(np.tile(np.arange(64), (26, 1)), axis=1)[:, :32]
    np.save(tmp_path / "f.npy", np.hstack([flat, 64 - flat]))
    made = ["generate", "replication", *LITE[2:], "--counts", str(tmp_path / "f.npy")]
    assert printed(capsys, *made, "--format", "count-array")
