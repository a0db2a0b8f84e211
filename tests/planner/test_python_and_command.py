"""What `moeopt.predict` and `moeopt.plan` return is what the commands of these names print."""

import json

import pytest

import moeopt
from tests.refusals import refused
from tests.rooms.cli import run
from tests.rooms.planner import PlanOptions, SeveralOptions

MACHINES = (
    *("rtx3090+epyc-7002", "epyc-9004", "dgx-spark"),  # one of each
    *("2xrtx3090+epyc-7002", "7xrtx3090+epyc-7003", "rtx5090+2xrtx3090+epyc-9005"),
    *("rtx4090+2xepyc-9004", "2xepyc-9004", "2xrtx3090+4xxeon-spr"),
)
QUICK = {(0, 0), (3, 1), (6, 2), (2, 1)}
"""Row and column: one GPU, several, two nodes, and unified memory; all options."""

OPTIONS = (
    {},
    {"context": 16384, "kv_bits": "q8_0", "prompt": 3000, "ubatch": 1024},
    {"runtime": "ik_llama.cpp", "prompt": 100},
)


@pytest.mark.parametrize(
    ("machine", "options"),
    [
        pytest.param(machine, options, marks=[pytest.mark.slow] * ((row, column) not in QUICK))
        for row, machine in enumerate(MACHINES)
        for column, options in enumerate(OPTIONS)
    ],
)
def test_predictions(
    machine: str, options: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    """All numbers, with one GPU and node or several."""
    words = ["predict", "--machine", machine, "--model", "glm-4.5-air", "--bits", "Q4_K_M"]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    assert run([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    del printed["schema_version"]
    found = moeopt.predict(machine, "glm-4.5-air", bits="Q4_K_M", **options)
    assert json.loads(json.dumps(found.to_dict())) == printed


def test_predictions_by_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """A command line's flags as text or as words."""
    flags = "-ngl 99 --n-cpu-moe 40 -c 8192"
    given = {"machine": "rtx3090+epyc-7002", "model": "glm-4.5-air", "bits": "Q4_K_M"}
    words = [word for name, value in given.items() for word in (f"--{name}", value)]
    assert run(["predict", *words, "--flags", flags, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    for one in (flags, flags.split()):
        found = moeopt.predict(flags=one, **given)
        assert (found.tokens_per_s, found.command) == (printed["tokens_per_s"], printed["command"])


@pytest.mark.parametrize(
    "machine",
    [
        *("2xrtx3090+epyc-7002", "rtx3090+epyc-7002"),
        pytest.param("rtx4090+2xepyc-9004", marks=pytest.mark.slow),
    ],
)
def test_plans(machine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of one GPU, of several, or of nodes: all numbers and the command."""
    asked = {"bits": "Q4_K_M", "context": 8192}
    words = ["--bits", "Q4_K_M", "--context", "8k", "--prompt-tokens", "2000"]
    if "2x" in machine:
        asked["work_limit"] = 2.0
        words += ["--work-limit", "2"]
    assert run(["plan", "--machine", machine, "--model", "glm-4.5-air", *words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    del printed["schema_version"]
    several = SeveralOptions(prompt_tokens=2000)
    found = moeopt.plan(machine, "glm-4.5-air", options=PlanOptions(**asked), several=several)
    assert json.loads(json.dumps(found.to_dict())) == printed


@pytest.mark.parametrize(
    ("machine", "given", "says"),
    [
        ("2xrtx3090+epyc-7002", {"workload": "olmoe-1b-7b"}, "workload: needs one GPU"),
        ("2xrtx3090+epyc-7002", {"batch": 2}, "batch: needs one GPU and one node"),
        ("2xrtx3090+epyc-7002", {"seed": 1}, "seed: has no effect on whole layers"),
        ("rtx3090+epyc-7002", {"strategy": "devices"}, "strategy: must be layers for one GPU"),
        ("2xrtx3090+epyc-7002", {"strategy": "layers"}, "strategy: must be devices for several"),
        (
            "rtx3090+epyc-7002",
            {"several": SeveralOptions(granularity="tensor")},
            "granularity: needs several GPUs or nodes",
        ),
        (
            "rtx3090+epyc-7002",
            {"several": SeveralOptions(ubatch=1024), "workload": "olmoe-1b-7b"},
            "ubatch: has no effect on plans of single experts",
        ),
    ],
)
def test_what_a_plan_would_not_feel_is_refused(
    machine: str, given: dict[str, object], says: str
) -> None:
    """By its name in Python."""
    assert refused(moeopt.plan, machine, "glm-4.5-air", **given).startswith(says)
