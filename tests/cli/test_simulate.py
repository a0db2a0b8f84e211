"""`moeopt simulate`: options, output and exit codes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError
from tests.problems.tri_domain.random_instances import random_instance
from tests.raising_cli import call
from tests.rooms.tri_domain import check, trimoe

Capture = pytest.CaptureFixture[str]
WORKLOAD = ["--machine", "trimoe", "--model", "deepseek-v2-lite", "--workload", "trimoe-skew"]
SMALL = ["--layers", "2", "--steps", "3", "--batch", "4"]


def run(*arguments: str) -> int:
    """Run the command; errors are raised, as the command line expects."""
    return call(["simulate", *arguments])


def run_json(capsys: Capture, *arguments: str) -> dict[str, Any]:
    assert run(*arguments, "--json") == 0
    [line] = capsys.readouterr().out.splitlines()
    data: dict[str, Any] = json.loads(line)
    return data


@pytest.fixture
def solved(tmp_path: Path) -> list[str]:
    """Return the options for an instance and a solution of it."""
    instance = random_instance(4, experts=7)
    moeopt.save(instance, tmp_path / "instance.json")
    moeopt.save(trimoe(instance), tmp_path / "solution.json")
    return [
        "--instance",
        str(tmp_path / "instance.json"),
        "--solution",
        str(tmp_path / "solution.json"),
    ]


def test_people_read_a_summary(capsys: Capture) -> None:
    """Rate, steps and the utilisation of every resource."""
    assert run(*WORKLOAD, *SMALL) == 0
    text = capsys.readouterr().out
    for word in ("deepseek-v2-lite on trimoe", "tokens/s", "3, 2 of 26 layers, 12 tokens"):
        assert word in text
    assert "2 of 26 layers alone, so not the model's rate" in text
    assert "DIMM 15" in text
    assert run(*WORKLOAD, "--steps", "1") == 0
    text = capsys.readouterr().out
    assert "1, 26 layers, 1 tokens" in text
    assert "alone" not in text


def test_json_is_one_object_per_line(capsys: Capture) -> None:
    """The same seed gives the same, another one does not; a policy changes the outcome."""
    one = run_json(capsys, *WORKLOAD, *SMALL)
    assert one == run_json(capsys, *WORKLOAD, *SMALL, "--seed", "0")
    assert one["step_ns"] != run_json(capsys, *WORKLOAD, *SMALL, "--seed", "1")["step_ns"]
    other = run_json(capsys, *WORKLOAD, *SMALL, "--policy", "gpu-only")
    assert other["experts_run"]["cpu"] == 0 < one["experts_run"]["cpu"]
    slower = run_json(capsys, *WORKLOAD, *SMALL, "--attention-ns", "1000", "--other-ns", "7")
    assert [s - o for s, o in zip(slower["step_ns"], one["step_ns"], strict=True)] == [2014] * 3


def test_plans_and_traces_come_from_files(tmp_path: Path, capsys: Capture) -> None:
    """--plan and --trace; the plan's name is in the result."""
    rng = np.random.default_rng(0)
    ids = np.stack([rng.permutation(64)[:6] for _ in range(20)])[:, None, :]
    np.savez(tmp_path / "t.npz", topk_ids=ids)
    (tmp_path / "p.json").write_text('{"name": "mine", "cache_ways": 8}')
    files = ["--trace", str(tmp_path / "t.npz"), "--plan", str(tmp_path / "p.json")]
    data = run_json(capsys, *WORKLOAD[:4], *files, "--batch", "2")
    assert (data["plan"], data["steps"], data["layers"]) == ("mine", 10, 1)
    assert data["hits"] + data["misses"] == sum(data["experts_run"].values())


def test_chrome_traces_change_nothing(tmp_path: Path, capsys: Capture) -> None:
    """The event core gives the same latencies, and a file."""
    fast = run_json(capsys, *WORKLOAD, *SMALL)
    slow = run_json(capsys, *WORKLOAD, *SMALL, "--chrome", str(tmp_path / "c.json"))
    assert (fast["step_ns"], fast["layer_ns"]) == (slow["step_ns"], slow["layer_ns"])
    events = json.loads((tmp_path / "c.json").read_text())["traceEvents"]
    assert sum(event.get("cat") == "expert" for event in events) == sum(
        fast["experts_run"].values()
    )


def test_solutions_are_executed(solved: list[str], tmp_path: Path, capsys: Capture) -> None:
    """Exit 0 and the word "equals"; measured and judged as JSON; a trace."""
    assert run(*solved, "--chrome", str(tmp_path / "c.json")) == 0
    text = capsys.readouterr().out
    assert "which equals the checker's" in text
    assert "critical path" in text
    assert json.loads((tmp_path / "c.json").read_text())["traceEvents"]
    data = run_json(capsys, *solved)
    assert data["agree"] is True
    assert data["measured"] == data["judged"] > [0]


def test_disagreement_is_exit_5(
    solved: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A checker that says something else."""
    monkeypatch.setattr(check, "objective", lambda instance, solution: 1)
    assert run(*solved) == 5
    assert "which DIFFERS from the checker's 1 ns" in capsys.readouterr().out


def test_a_solution_of_another_instance(solved: list[str], tmp_path: Path) -> None:
    """The line names the file."""
    moeopt.save(random_instance(5), tmp_path / "instance.json")
    with pytest.raises(InputError, match=r"solution\.json: instance: the solution is for"):
        run(*solved)


def test_a_context_adds_what_is_not_routed_experts(capsys: pytest.CaptureFixture[str]) -> None:
    """KTransformers states 5.87 tokens/s for DeepSeek-V3 in BF16 without deferral.

    The preset's efficiencies were derived with that figure: this checks that all parts of a step
    are there, it predicts nothing.
    """
    command = ["--machine", "ktransformers-a100", "--model", "deepseek-v3"]
    command += ["--workload", "trimoe-skew", "--steps", "1", "--json"]
    rates = []
    for more in ([], ["--depth", "0"]):
        assert run(*command, *more) == 0
        rates.append(json.loads(capsys.readouterr().out)["tokens_per_s"])
    assert rates[0] > rates[1] == pytest.approx(5.87, rel=0.05)
