"""What the KV cache has room for, and what is in it: two numbers, the same in every command."""

import json
import shlex

import pytest

import moeopt
from tests.refusals import refused
from tests.rooms.cli import run
from tests.rooms.sim import Context

AIR = "--model glm-4.5-air --bits Q4_K_M"
ONE, TWO = "rtx4090+epyc-9004", "2xrtx3090+epyc-7002"


def predicted(machine: str, **options: object) -> dict[str, object]:
    """Return a prediction of GLM-4.5-Air in 4 bits as JSON has it."""
    return moeopt.predict(machine, "glm-4.5-air", bits="Q4_K_M", **options).to_dict()


@pytest.mark.parametrize("machine", [ONE, TWO])
def test_room_costs_memory_and_depth_costs_time(machine: str) -> None:
    """With the experts where they were; a cache of 64k with 1,500 tokens in it is as fast."""
    placed = {"n_cpu_moe": 46}
    small = predicted(machine, context=4096, depth=1500, **placed)
    large = predicted(machine, context=65536, depth=1500, **placed)
    full = predicted(machine, context=65536, depth=65536, **placed)
    assert small["tokens_per_s"] == large["tokens_per_s"]
    assert full["tokens_per_s"] < 0.9 * large["tokens_per_s"]  # type: ignore[operator]

    def mib(found: dict[str, object]) -> int:
        return sum(found["memory_mib"].values())  # type: ignore[attr-defined]

    assert mib(large) == mib(full) > mib(small)


def test_what_is_taken_where_nothing_is_said() -> None:
    """32,768 tokens allocated and 500 in them, or all that there is room for."""
    assert Context() == Context(500, 32768)
    speed, *others = predicted(ONE)["speeds"]  # type: ignore[misc]
    assert [other["depth"] for other in others] == [0, 4096, 32768]
    assert (speed["depth"], predicted(ONE)["context_allocated"]) == (500, 32768)
    assert predicted(ONE, context=256)["depth"] == 256
    assert Context.at(100_000) == Context(100_000, 100_000)


@pytest.mark.parametrize(
    "command",
    [
        f"predict --machine {ONE} {AIR}",
        f"predict --machine {TWO} {AIR}",
        f"plan --machine {ONE} {AIR}",
        pytest.param(f"plan --machine {TWO} {AIR} --work-limit 2", marks=pytest.mark.slow),
    ],
)
def test_every_command_prints_both(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """And takes both; JSON has them as numbers."""
    assert run(shlex.split(command)) == 0
    assert "at 500 tokens of context, 32,768 allocated" in capsys.readouterr().out
    asked = "--context 16k --depth 4k"
    assert run(shlex.split(f"{command} {asked}")) == 0
    assert "at 4,096 tokens of context, 16,384 allocated" in capsys.readouterr().out
    if command.startswith("predict"):
        assert run(shlex.split(f"{command} {asked} --json")) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["context_allocated"] == 16384
        assert found["speeds"][0]["depth"] == 4096
        assert found["interval"] == {"low": found["low"], "high": found["high"]}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"context": 4096, "depth": 5000}, "depth: must be from 0 to the 4096 tokens allocated"),
        ({"context": 0}, "context: must be at least 1, not 0"),
        ({"depth": -1}, "depth: "),
    ],
)
def test_what_cannot_be_is_one_line(options: dict[str, object], said: str) -> None:
    """More in the cache than there is room for."""
    assert said in refused(moeopt.predict, ONE, "glm-4.5-air", **options)
