"""``moeopt predict`` and ``moeopt calibrate``, and the commands of docs/predict.md."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.exporters.llama_cpp_arguments import parsed
from tests.facts import assert_same_facts
from tests.refusals import refused_command
from tests.rooms.cli import run

EXAMPLE = re.compile(r"```sh\n(.*?)\n```", re.DOTALL)
TEXT = re.compile(r"```text\n(.*?)```", re.DOTALL)


def test_the_pages_commands_run(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From nothing to llama.cpp's command line, then calibrated; the page shows what is printed."""
    page = (root / "docs" / "predict.md").read_text()
    shown, why, points = TEXT.findall(page)
    monkeypatch.chdir(tmp_path)
    Path("points.csv").write_text(points)
    commands = [line for block in EXAMPLE.findall(page) for line in block.splitlines()]
    assert len(commands) == 10
    printed = []
    for command in commands:
        program, *arguments = shlex.split(command)
        assert (program, run(arguments)) == ("moeopt", 0), command
        printed.append(capsys.readouterr().out)
    assert_same_facts(printed[1], shown)
    assert "llama-server" in printed[1]
    for text in (printed[1], printed[6]):
        [line] = [line for line in text.splitlines() if "llama-server" in line]
        assert {"-m", "-ngl", "-fa", "-c", "-ub", "-t"} <= set(parsed(shlex.split(line)[1:]))
    assert "not calibrated: expect" in printed[1]
    assert printed[2].count("\n") == 5
    told = printed[4][printed[4].index("measured 19") : printed[4].index("llama-server")]
    assert_same_facts(told, why)
    assert "calibrated on this model" in printed[6]


def test_json_has_what_the_contract_names(capsys: pytest.CaptureFixture[str]) -> None:
    """Speed, interval and bottleneck; a plan's residents and counts of calls are taken."""
    command = "predict --machine rtx4090+epyc-9004 --model qwen3-30b-a3b --bits 4.5"
    assert (
        run(shlex.split(f"{command} --runtime llama.cpp --n-cpu-moe 24 --context 512 --json")) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["low"] < found["tokens_per_s"] < found["high"]
    assert found["bottleneck"] in found["parts_ms"]
    assert run(shlex.split(f"{command} --runtime ktransformers --gpu-experts 32 --json")) == 0
    other = json.loads(capsys.readouterr().out)
    assert other["n_cpu_moe"] is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--bits FP8 --gpu-experts 20", "--kt-num-gpu-experts 20 --kt-expert-placement-strategy"
         " uniform --context-length 32768 --chunked-prefill-size 512 --kt-cpuinfer {threads}"
         " --kt-threadpool-count 2 --kt-weight-path glm-4.5-air-FP8 --kt-method FP8"),
        ("--bits Q4_K_M --context 9k --n-cpu-moe 34", "--kt-expert-placement-strategy front-loading"
         " --kt-gpu-experts-ratio 0.26666666666666666 --context-length 9216 --chunked-prefill-size"
         " 512 --kt-cpuinfer {threads} --kt-threadpool-count 2 --kt-weight-path"
         " glm-4.5-air-Q4_K_M.gguf --kt-method LLAMAFILE"),
        ("--bits 8 --n-cpu-moe 46 --kv-bits fp8 --ubatch 64", "--kt-expert-placement-strategy"
         " front-loading --kt-gpu-experts-ratio 0.0 --context-length 32768 --kv-cache-dtype"
         " fp8_e4m3 --chunked-prefill-size 64 --kt-cpuinfer {threads} --kt-threadpool-count 2"
         " --kt-weight-path glm-4.5-air-AMXINT8 --kt-method AMXINT8"),
    ],
)  # fmt: skip
def test_ktransformers_has_a_command_line(
    asked: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Experts of every layer, or whole layers: 12 of the 45 with experts; its own flags only."""
    machine = "--machine rtx5090+2xepyc-9004 --model glm-4.5-air --runtime ktransformers"
    assert run(shlex.split(f"predict {machine} {asked}")) == 0
    printed = capsys.readouterr().out
    start = "  python3 -m sglang.launch_server --model-path glm-4.5-air "
    [threads] = re.findall(r"--kt-cpuinfer (\d+)", printed)
    assert 1 <= int(threads) <= 64
    assert printed.splitlines()[-1] == start + said.format(threads=threads)
    assert "n-cpu-moe" not in printed


def test_plans_residents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What counts say is called often makes a plan faster than the same number of any."""
    plan, counts = tmp_path / "plan.json", tmp_path / "counts.csv"
    plan.write_text(json.dumps({"name": "p", "resident": [[0, 1]] * 32}))
    rows = [f"{layer},{e},{90 if e < 2 else 5}" for layer in range(32) for e in range(8)]
    counts.write_text("layer,expert,count\n" + "\n".join(rows) + "\n")
    command = f"predict --machine rtx4090+epyc-9004 --model mixtral-8x7b --bits 4.5 --plan {plan}"
    command += " --context 4096"
    speeds = []
    for more in ("", f"--counts {counts}"):
        assert run(shlex.split(f"{command} {more} --json")) == 0
        speeds.append(json.loads(capsys.readouterr().out)["tokens_per_s"])
    assert speeds[1] > 1.3 * speeds[0]


@pytest.mark.parametrize("what", ["predict", pytest.param("plan", marks=pytest.mark.slow)])
@pytest.mark.parametrize("machine", ["rtx4090+ryzen-am5", "2xrtx3090+ryzen-am5"])
def test_host_memory_that_nobody_states_is_checked(
    what: str, machine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against the most that such a host takes: two channels with two DIMMs of 48 GiB each."""
    command = f"{what} --machine {machine} --bits Q4_K_M --context 4096 --model"
    line = refused_command(capsys, shlex.split(f"{command} deepseek-v3"), 3)
    assert "196,608" in line
    assert "it fits with --bits Q2_K" in line
    quick = " --work-limit 0.2" if what == "plan" and machine.startswith("2x") else ""
    assert run(shlex.split(f"{command} glm-4.5-air{quick}")) == 0
    assert "192 GiB, the most that such a host takes, are assumed" in capsys.readouterr().err


def test_a_type_that_the_runtime_does_not_read_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """llama.cpp reads no type of ik_llama.cpp and no AWQ; what would fit is one that it reads."""
    command = "predict --machine rtx4090+ryzen-am5 --model mixtral-8x7b --bits"
    for bits, said in (
        ("IQ3_K", "bits: IQ3_K is a type of ik_llama.cpp, which llama.cpp does not read"),
        ("AWQ", "bits: llama.cpp reads no files of AWQ: it reads GGUF"),
        ("Q4_K_M", ""),
        ("IQ3_K --runtime ik_llama.cpp", ""),
    ):
        assert run(shlex.split(f"{command} {bits}")) == 0
        found = [line for line in capsys.readouterr().err.splitlines() if "bits:" in line]
        assert found == ([f"moeopt: warning: {said}"] if said else [])
    line = refused_command(capsys, shlex.split(f"{command} Q4_K_M --flags '-ngl all -c 4096'"), 3)
    assert line.endswith("it fits with --bits Q3_K_M")  # IQ4_KSS would, too, were it read


def test_a_table_has_prompts_where_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Each row with the number that the machine alone has."""
    machines = ("rtx4090+ryzen-am5", "2xrtx3090+epyc-7002")
    command = "predict --model glm-4.5-air --bits Q4_K_M --prompt 4000"
    assert run(shlex.split(command + "".join(f" --machine {name}" for name in machines))) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert "prompt/s" in head
    for machine, row in zip(machines, rows, strict=True):
        assert run(shlex.split(f"{command} --machine {machine} --json")) == 0
        speed = json.loads(capsys.readouterr().out)["prompt_tokens_per_s"]
        assert f"{speed:g}" in row.split()


@pytest.mark.parametrize("command", ["predict", pytest.param("plan", marks=pytest.mark.slow)])
def test_a_context_that_no_quantisation_makes_room_for(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The largest that fits is named, a power of two; with it the command runs."""
    words = [command, "--machine", "rtx4090+ryzen-am5", "--model", "glm-4.5-air"]
    words += ["--bits", "Q4_K_M", "--context"]
    assert run([*words, "10m"]) == 3
    [fits] = re.findall(r"no quantisation fits, but --context (\d+) does", capsys.readouterr().err)
    assert run([*words, fits]) == 0
    capsys.readouterr()
    assert run([*words, str(2 * int(fits))]) == 3
