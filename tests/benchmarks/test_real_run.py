"""The real run: what is computed of its measurements. Nothing is built or measured here."""

import json
import os
import re
from pathlib import Path

import pytest

from benchmarks.real import compare, llama_cpp, quiet
from benchmarks.real.setting import Setting
from moeopt import get_machine, save, set_machine
from tests.rooms.sim import GroupedQuery, ModelShape

ABOUT = {
    "date": "2026-01-02",
    "machine": {"cpu": "Any", "cores": 2, "memory_gib": 8.0, "os": "Linux", "python": "3.11.7"},
    "threads": [1, 2],
    "tokens": 4,
    "rounds": 3,
}

SMALL = ModelShape(
    name="small",
    layers=2,
    dense_layers=0,
    routed_experts=4,
    shared_experts=0,
    top_k=2,
    hidden_size=32,
    expert_intermediate_size=64,
    bytes_per_weight=2,
    source="made up",
    vocab_size=128,
    attention=GroupedQuery(kind="grouped_query", heads=2, kv_heads=1, head_dim=16),
    expert_bits=8.5,
    router_bits=32.0,
)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a work folder in which every token took 1 s per GB and 1 ms."""
    measured = tmp_path / "measured"
    measured.mkdir()
    others = {f"{s}-round{t}": t / 100 for s in Setting.all(ABOUT["threads"]) for t in (1, 2, 3)}
    (measured / "about.json").write_text(json.dumps(ABOUT | {"others": others}))
    for threads in ABOUT["threads"]:
        for turn, gb_s in enumerate((9.0, 1.0, 2.0), 1):
            file = measured / f"machine-t{threads}-round{turn}.json"
            machine = set_machine(get_machine("ryzen-am5"), {"dram.measured_gb_s": gb_s})
            save(machine, file)
    for setting in Setting.all(ABOUT["threads"]):
        speed = 1 / (compare.bytes_per_token(shape(setting)) / 1e9 + 1e-3)
        for turn in (1, 2, 3):
            samples = [speed / 10, speed, speed]  # one in three was disturbed
            row = {"samples_ts": samples, "build_commit": "abc"}
            (measured / f"{setting}-round{turn}.json").write_text(json.dumps([row]))
    monkeypatch.setattr(compare, "model_from_gguf", lambda path: shape(of_file(path)))
    return tmp_path


def of_file(path: Path) -> Setting:
    return next(setting for setting in Setting.all([1]) if setting.model == path.name)


def shape(setting: Setting) -> ModelShape:
    bits = {"Q8_0": 8.5, "Q4_0": 4.5}[setting.width]
    return SMALL.model_copy(update={"top_k": setting.top_k // 2, "expert_bits": bits})


def test_a_token_reads_every_matrix_that_it_uses_once() -> None:
    """Counted by hand: two layers of attention, router and two experts of three, and the head."""
    attention = 2 * 32 * (2 + 1 + 1 + 2) * 16 * 2
    router, head = 2 * 32 * 4 * 4, 32 * 128 * 2
    experts = 2 * 2 * 3 * 32 * 64 * 34 // 32
    assert compare.bytes_per_token(SMALL) == attention + router + head + experts


def test_the_table_has_medians_and_marks_what_a_calibration_saw(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calibration on 2 and 8 experts; a quarter too fast without it, a tenth too slow on others."""
    asked: list[tuple[str, ...]] = []

    def moeopt(*arguments: str) -> str:
        asked.append(arguments)
        if arguments[0] == "calibrate":
            return ""
        given = dict(zip(arguments[1::2], arguments[2::2], strict=False))
        setting = of_file(Path(given["--model"]))
        fitted = Path(given["--machine"]).name
        own = fitted.endswith(f"-{setting.width.lower()}.json")
        off = 1.25 if fitted.startswith("machine") else 1.0 if own else 0.9
        speed = off / (compare.bytes_per_token(shape(setting)) / 1e9 + 1e-3)
        said = {"tokens_per_s": speed, "low": speed * 0.95, "high": speed * 1.05}
        return json.dumps(said | {"bottleneck": "host_memory", "certainty": "not calibrated"})

    monkeypatch.setattr(compare, "_moeopt", moeopt)
    document = compare.compare(work)
    rows = document["rows"]
    assert len(rows) == 12
    assert document["versions"]["llama.cpp"] == "abc"
    machines = {
        name for line in asked if line[0] == "calibrate" for name in line if "round" in name
    }
    assert {Path(name).name for name in machines} == {f"machine-t{t}-round3.json" for t in (1, 2)}
    for row in rows:
        speed = 1 / (row["bytes_per_token"] / 1e9 + 1e-3)
        assert row["tokens_per_s"] == pytest.approx(speed, rel=1e-5)
        assert row["of_bandwidth"] == pytest.approx(speed * row["bytes_per_token"] / 2e9, abs=1e-4)
        assert row["others"] == 0.03
        seen = {kind for kind, found in row["predicted"].items() if found["seen"]}
        assert seen == ({"own width"} if row["top_k"] != 4 else set())
    found = compare.summary(rows)
    assert [found[kind]["points"] for kind in compare.KINDS] == [12, 4, 12]
    assert [round(found[kind]["median_error"], 3) for kind in compare.KINDS] == [0.25, 0.0, 0.1]
    assert [found[kind]["inside"] for kind in compare.KINDS] == [0, 4, 0]
    text = compare.to_markdown(document)
    assert len(re.findall(r"\([+-]0\.0%\)\*", text)) == 8
    assert "| Q4_0 | 2 | 4 |" in text
    assert "2 threads 9, 1, 2.\n\nMedians" in text
    assert str(work) not in text + json.dumps(document)


@pytest.mark.slow
def test_points_are_a_table_that_calibrate_reads(work: Path) -> None:
    """Two rows, each with a model file; the same columns as `moeopt calibrate` names."""
    setting = Setting("Q8_0", 2, 1)
    with pytest.raises(SystemExit, match="calibrate"):
        compare._calibrated(work, work / "none.json", {setting: {"tokens_per_s": 5.0}}, "x")
    lines = (work / "measured" / "points-x.csv").read_text().splitlines()
    assert lines[0] == "model,runtime,n_cpu_moe,context,tokens_per_s"
    assert lines[1] == f"{work / 'models' / setting.model},llama.cpp,0,0,5.0"


def test_a_disturbed_run_is_repeated_and_the_least_disturbed_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three runs with 30, 10 and 20 % of the time taken by others; a quiet one ends it."""
    runs = iter([("a", 0.3), ("b", 0.1), ("c", 0.2), ("d", 0.0)])
    monkeypatch.setattr(quiet, "watched", lambda run: next(runs))
    assert quiet.undisturbed(str, 0.0, 3) == ("b", 0.1)
    assert quiet.undisturbed(str, 0.0, 3) == ("d", 0.0)


def test_what_child_processes_compute_is_not_by_others(tmp_path: Path) -> None:
    """Idle and waiting for disks are not busy; a machine without the file is not known."""
    stat = tmp_path / "stat"
    assert quiet.busy_s(stat) is None
    stat.write_text("cpu  1 2 3 1000 1000 4 5 6 0 0\ncpu0 9 9 9 9 9 9 9 9 9 9\n")
    assert quiet.busy_s(stat) == 21 / os.sysconf("SC_CLK_TCK")


def test_the_commit_is_the_first_one_that_the_changes_name() -> None:
    """As the package's list of changes has the newest first."""
    text = "## [2]\n- feat: update llama.cpp to ggml-org/llama.cpp@0c1e57098\n" * 2
    found = llama_cpp.BUILD_COMMIT.search(text + "ggml-org/llama.cpp@1111111")
    assert found is not None
    assert found[1] == "0c1e57098"


SIZES = ("median", "largest")


def test_the_documents_have_the_committed_figures(root: Path) -> None:
    """Of results.json, whose page is results.md; no other figure of it is quoted."""
    document = json.loads((root / "benchmarks" / "real" / "results.json").read_text())
    found = compare.summary(document["rows"])
    own, other = found["own width"], found["other width"]
    uncalibrated = found["not calibrated"]["median_error"]
    each = [uncalibrated, *(kind[f"{size}_error"] for kind in (own, other) for size in SIZES)]
    said = " ".join((root / "benchmarks/real/README.md").read_text().split())
    assert all(f"{error:.1%}".replace("%", " %") in said for error in each)
    assert compare.to_markdown(document) == (root / "benchmarks/real/results.md").read_text()
