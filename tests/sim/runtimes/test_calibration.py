"""Calibration: made-up machines are found again, files are read or refused in one line."""

import json
from pathlib import Path

import numpy as np
import pytest

import moeopt
from moeopt import InputError, calibrate, get_machine, read_measurements
from tests.rooms.sim import (
    PRIOR,
    TERMS,
    Context,
    Machine,
    Measurement,
    ModelShape,
    Placement,
    Setting,
    amounts,
    as_vector,
    at_bits,
    get_model,
    get_runtime,
    measurements,
    token_us,
)

QWEN = get_model("qwen3-30b-a3b")

HEAD = "model,bits,runtime,n_cpu_moe,context,tokens_per_s\n"


@pytest.fixture
def machine() -> Machine:
    """Return an RTX 4090 beside an EPYC."""
    return get_machine("rtx4090+epyc-9004")


def host_calls(point: Measurement, machine: Machine) -> tuple[float, ...]:
    """Return the share of calls on the host of each layer with experts."""
    setting, placement = point.on(machine)
    return placement.host_calls(setting)


def speeds_elsewhere(machine: Machine, name: str, blocks: list[int]) -> list[Measurement]:
    """Return what a machine would measure that is unlike its profile: twice the hand-overs."""
    costs = as_vector(get_runtime("llama.cpp").costs)
    slower = costs * np.array([1.2 if "read" in term else 2.0 for term in TERMS])
    slower = np.where(["of" in term for term in PRIOR.values()], costs, slower)
    model = at_bits(get_model(name), "Q4_K_M")
    found = []
    for n in blocks:
        setting = Setting(machine, model, context=Context.at(64))
        needs = amounts(setting, Placement.of_blocks(setting, n).host_calls(setting))
        speed = 1e6 / float(token_us(needs, slower))
        found.append(Measurement(model, "llama.cpp", n, None, 64, speed))
    return found


def test_two_points_say_what_lies_between(machine: Machine) -> None:
    """Far off before, within 3 % after; the interval shrinks; other models gain part of it.

    A fifth comes over: factors of wide memories, versions and barriers are not the machine's, so
    that less of what its points say is left for the terms of other models.
    """
    points = speeds_elsewhere(machine, "qwen3-30b-a3b", [4, 24, 44])
    ends, middle = [points[0], points[2]], points[1]
    own = calibrate(machine, ends).machine
    before = moeopt.predict(machine, middle.model, n_cpu_moe=24, context=64)
    after = moeopt.predict(own, middle.model, n_cpu_moe=24, context=64)
    assert before.tokens_per_s > 1.3 * middle.tokens_per_s
    assert after.tokens_per_s == pytest.approx(middle.tokens_per_s, rel=0.03)
    assert (before.certainty, after.certainty) == ("not calibrated", "calibrated on this model")
    assert after.high / after.low < before.high / before.low
    [other] = speeds_elsewhere(machine, "gpt-oss-20b", [12])
    there = moeopt.predict(own, other.model, n_cpu_moe=12, context=64)
    naive = moeopt.predict(machine, other.model, n_cpu_moe=12, context=64)
    assert there.certainty == "calibrated on another model"
    assert abs(there.tokens_per_s - other.tokens_per_s) < 0.8 * abs(
        naive.tokens_per_s - other.tokens_per_s
    )


def test_residuals_are_what_is_predicted(machine: Machine) -> None:
    """Of the very points, by the machine that comes back."""
    points = speeds_elsewhere(machine, "mixtral-8x7b", [8, 16, 32])
    found = calibrate(machine, points)
    for left in found.residuals:
        blocks = left.measurement.n_cpu_moe
        again = moeopt.predict(found.machine, left.measurement.model, n_cpu_moe=blocks, context=64)
        assert again.tokens_per_s == pytest.approx(left.predicted, rel=2e-3)
        assert abs(left.error) < 0.03


def test_a_point_alone_is_too_little(machine: Machine) -> None:
    """Of each runtime two are needed."""
    with pytest.raises(InputError, match="at least two of a runtime"):
        calibrate(machine, speeds_elsewhere(machine, "mixtral-8x7b", [8]))
    with pytest.raises(InputError, match="there are none"):
        calibrate(machine, [])


def test_a_calibrated_machine_is_a_file(machine: Machine, tmp_path: Path) -> None:
    """Written, read and shown as any other; a term too few is refused."""
    found = calibrate(machine, speeds_elsewhere(machine, "mixtral-8x7b", [8, 32])).machine
    moeopt.save(found, tmp_path / "m.json")
    assert moeopt.get_machine(tmp_path / "m.json") == found
    data = json.loads((tmp_path / "m.json").read_text())
    del data["runtimes"][0]["costs"]["token_us"]
    (tmp_path / "m.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"runtimes\[0\].costs: must have exactly"):
        moeopt.get_machine(tmp_path / "m.json")


def test_tables_of_points(tmp_path: Path) -> None:
    """Columns in any order, a byte-order mark, empty cells, experts by number."""
    file = tmp_path / "points.csv"
    file.write_text(
        "\ufefftokens_per_s,model,bits,runtime,n_cpu_moe,gpu_experts,context\n"
        "10.5,qwen3-30b-a3b,4.5,llama.cpp,24,,512\n"
        "11,qwen3-30b-a3b,Q8_0,ktransformers,,32,\n"
    )
    one, two = read_measurements(file)
    assert (one.n_cpu_moe, one.context, one.tokens_per_s, one.model.bits) == (24, 512, 10.5, 4.5)
    assert (two.gpu_experts, two.context, two.runtime) == (32, 0, "ktransformers")
    assert two.model.bits == pytest.approx(8.5)


BENCH = {
    "model_filename": "qwen3.gguf",
    "n_gpu_layers": 99,
    "n_cpu_moe": 12,
    "n_prompt": 0,
    "n_gen": 128,
    "n_depth": 256,
    "avg_ts": 88.5,
    "backends": "CUDA",
}


def test_llama_bench(tmp_path: Path) -> None:
    """Tests that read prompts are left out; the context is half full on average."""
    file = tmp_path / "bench.json"
    tests = [BENCH, BENCH | {"n_prompt": 512, "n_gen": 0}, BENCH | {"n_gpu_layers": 0}]
    file.write_text(json.dumps(tests))
    with pytest.raises(InputError, match=r"model_filename: .*--model says"):
        read_measurements(file)
    gpu, cpu = read_measurements(file, model="qwen3-30b-a3b", bits="Q4_K_M")
    assert (gpu.n_cpu_moe, gpu.context, gpu.tokens_per_s, gpu.cpu_only) == (12, 320, 88.5, False)
    assert cpu.cpu_only
    machine = get_machine("rtx4090+epyc-9004")
    assert cpu.on(machine)[0].machine.gpus == ()
    assert sum(host_calls(gpu, machine)) == 12


def test_what_llama_bench_really_wrote(root: Path) -> None:
    """A CPU-only run with one and two threads: only those of the machine count."""
    file = root / "tests" / "sim" / "data" / "llama_bench" / "threads_prompt_depth.json"
    points = read_measurements(file, model="qwen3-30b-a3b", bits="Q8_0")
    assert {point.threads for point in points} == {1, 2}
    assert all(point.cpu_only for point in points)
    two = moeopt.set_machine(get_machine("ryzen-am5"), {"cpu.cores": 2})
    kept = calibrate(two, points).residuals
    assert 2 <= len(kept) < len(points)
    assert {left.measurement.threads for left in kept} == {2}
    with pytest.raises(InputError, match="measured with 1, 2 threads"):
        calibrate(get_machine("ryzen-am5"), points)


def test_two_models_that_llama_bench_really_wrote(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 and 8 experts per token: each file is looked for beside the results; --model is none."""
    file = root / "tests" / "sim" / "data" / "llama_bench" / "two_models.json"

    def model_of(name: str) -> ModelShape:
        assert Path(name).parent == file.parent
        top_k = int(Path(name).name.removeprefix("random-q4_0-top")[0])
        return QWEN.model_copy(update={"name": name, "top_k": top_k})

    monkeypatch.setattr(measurements, "get_model", model_of)
    points = read_measurements(file)
    assert [point.model.top_k for point in points] == [2, 8]
    fitted = calibrate(get_machine("epyc-9004"), points)
    assert max(abs(left.error) for left in fitted.residuals) < 0.05
    with pytest.raises(InputError, match="has 2 models; --model can name one only"):
        read_measurements(file, model="qwen3-30b-a3b")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "tokens_per_s: this column is missing"),
        ("model,tokens\nx,1\n", "tokens_per_s: this column is missing"),
        (HEAD, "there are no points"),
        (HEAD + "qwen3-30b-a3b,4.5,llama.cpp,24,512,fast\n", "line 2: tokens_per_s: must be a num"),
        (HEAD + "qwen3-30b-a3b,4.5,llama.cpp,24,512,-3\n", "tokens_per_s: must be from 1e-06"),
        (HEAD + "qwen3-30b-a3b,4.5,llama.cpp,2.5,512,3\n", "line 2: n_cpu_moe: must be a whole"),
        (HEAD + "qwen3-30b-a3b,4.5,vllm,2,512,3\n", "line 2: runtime: must be one of"),
        (HEAD + "no-such,4.5,llama.cpp,2,512,3\n", "line 2: "),
        (HEAD + ",4.5,llama.cpp,2,512,3\n", "line 2: model: is missing"),
        (HEAD + "qwen3-30b-a3b,Q99,llama.cpp,2,512,3\n", "line 2: bits: "),
        ("[", "not valid JSON at line 1 column 2"),
        ("a\rb,c\n", "line 1: new-line character"),
        ("{}", "must be a list of tests"),
        ('[{"n_gen": 3}]', "avg_ts: is missing"),
        ("[]", "no test generates tokens only"),
        (json.dumps([BENCH | {"avg_ts": "x"}]), "must be numbers from 1e-06"),
        (json.dumps([BENCH, BENCH | {"model_filename": "b.gguf"}]), "has 2 models"),
        (json.dumps([BENCH | {"n_cpu_moe": True}]), "n_cpu_moe: must be a whole number"),
    ],
)
def test_files_that_are_none(text: str, words: str, tmp_path: Path) -> None:
    """One line each, naming file, place and what would be right."""
    file = tmp_path / "points"
    file.write_text(text)
    model = "qwen3-30b-a3b" if text.startswith("[") else ""
    with pytest.raises(InputError, match=words) as raised:
        read_measurements(file, model=model)
    assert str(raised.value).startswith(str(file))


def test_only_gguf_files_are_opened_by_a_name_in_results(tmp_path: Path) -> None:
    """Results come from strangers, and an error must not say what is in another file."""
    (tmp_path / "secret.json").write_text("secret")
    file = tmp_path / "bench.json"
    file.write_text(json.dumps([BENCH | {"model_filename": str(tmp_path / "secret.json")}]))
    with pytest.raises(InputError, match=r"is no \.gguf; --model says which it is"):
        read_measurements(file)


def test_files_that_are_not_text(tmp_path: Path) -> None:
    """Missing, and binary."""
    with pytest.raises(InputError, match="No such file"):
        read_measurements(tmp_path / "none.csv")
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_measurements(tmp_path / "b")


LLAMA_BENCH = Path(__file__).parents[1] / "data" / "llama_bench"


@pytest.mark.parametrize("model", ["", "qwen3-30b-a3b"])
@pytest.mark.parametrize("kind", ["md", "json", "jsonl", "csv"])
def test_llama_bench_says_the_same_in_each_format(kind: str, model: str) -> None:
    """The model and its bits by its type; only Markdown leaves out usual threads."""
    points = read_measurements(LLAMA_BENCH / f"bench.{kind}", model=model)
    assert [point.model.name for point in points] == ["qwen3-30b-a3b"] * 2
    shape = read_measurements(LLAMA_BENCH / "bench.json", bits="Q4_K_M")[0].model
    assert {point.model for point in points} == {shape}
    assert [(point.n_cpu_moe, point.context) for point in points] == [(20, 64), (48, 64)]
    assert [point.tokens_per_s for point in points] == [62.11, 33.5]
    assert {point.threads for point in points} == ({None} if kind == "md" else {8})
    assert not any(point.cpu_only for point in points)


def test_llama_bench_in_markdown(tmp_path: Path) -> None:
    """With what is printed around it, depths, patterns, prompts and a CPU alone."""
    file = tmp_path / "bench.md"
    heads = "| model | size | params | backend | threads | ngl | ot | test | t/s |"
    rows = [
        heads,
        "| --- | ---: | ---: | --- | --: | --: | --- | ---: | ---: |",
        "| glm4moe 106B.A12B Q4_K - Medium | 68 GiB | 110 B | CUDA | 12 | 99 | exps=CPU | pp512 |"
        " 91.00 ± 1.00 |",
        "| glm4moe 106B.A12B Q4_K - Medium | 68 GiB | 110 B | CUDA | 12 | 99 | exps=CPU |"
        " tg128 @ d4096 | 9.50 ± 0.10 |",
        "| glm4moe 106B.A12B Q4_K - Medium | 68 GiB | 110 B | CUDA | 12 | 0 | none | tg64 | 7.5 |",
    ]
    file.write_text("\n".join(["ggml_cuda_init: found 1 CUDA devices:", *rows, "", "build: 1 (2)"]))
    all_experts, cpu = read_measurements(file)
    assert (all_experts.model.name, all_experts.n_cpu_moe) == ("glm-4.5-air", None)
    assert (all_experts.context, all_experts.tokens_per_s) == (4160, 9.5)
    assert (all_experts.threads, all_experts.cpu_only, cpu.cpu_only) == (12, False, True)
    machine = get_machine("rtx4090+epyc-9004")
    assert all(host_calls(all_experts, machine)[-4:])
    for wrong, right, words in (
        ("exps=CPU", "blk.1=CPU", "tensor_buft_overrides: of -ot only exps=CPU is read"),
        ("tg128 @ d4096", "bench", "line 5: test: must be as tg128"),
        ("9.50 ± 0.10", "fast", "line 5: t/s: must be as 62.11"),
        ("| 12 | 0 |", "| 12 | x |", "line 6: n_gpu_layers: must be a whole number"),
        ("7.5 |", "7.5 | 3 |", "line 6: has 10 cells, not 9"),
        ("glm4moe 106B.A12B", "glm4moe 999B", r"no model that is known \(--model says"),
    ):
        spoilt = tmp_path / "spoilt.md"
        spoilt.write_text(file.read_text().replace(wrong, right))
        with pytest.raises(InputError, match=words):
            read_measurements(spoilt)


def test_llama_sweep_bench() -> None:
    """It says neither the model nor what the CPU computed."""
    file = LLAMA_BENCH / "sweep.md"
    with pytest.raises(InputError, match="does not say --model and --n-cpu-moe"):
        read_measurements(file)
    points = read_measurements(file, model="glm-4.5-air", bits="Q4_K_M", n_cpu_moe=40)
    assert [(point.context, point.tokens_per_s) for point in points] == [(64, 13.39), (576, 13.2)]
    assert {(point.runtime, point.n_cpu_moe) for point in points} == {("ik_llama.cpp", 40)}
    other = read_measurements(file, model="glm-4.5-air", n_cpu_moe=40, runtime="llama.cpp")
    assert {point.runtime for point in other} == {"llama.cpp"}


def test_models_by_the_name_of_their_file(tmp_path: Path) -> None:
    """Where the type says nothing and the file is not at hand."""
    file = tmp_path / "bench.json"
    named = {"model_filename": "/m/GLM-4.5-Air-Q4_K_M-00001-of-00002.gguf"}
    file.write_text(json.dumps([BENCH | named]))
    (point,) = read_measurements(file, bits="Q4_K_M")
    assert point.model.name == "glm-4.5-air"
