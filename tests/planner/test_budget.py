"""What cannot fit is refused before solving, with the deficit and with options that really help."""

import json
import re
import shlex
from typing import Any

import pytest

from moeopt import InfeasibleError
from tests.planner.small_plans import (
    GIB,
    MODEL,
    machine_of,
    planned_for,
    request,
)
from tests.refusals import refused_command
from tests.rooms.cli import run
from tests.rooms.planner import (
    Planned,
    check_memory,
    decision,
    gpu_deficit,
    host_memory,
    memory,
    page,
)
from tests.rooms.planner import planned as planned_module

MIB = 2**20


def refused(**options: Any) -> str:
    """Return what is said where nothing fits; it is said before anything is solved."""
    with pytest.raises(InfeasibleError) as error:
        planned_for(**options)
    assert error.value.exit_code == 3
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture(autouse=True)
def _nothing_is_solved(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "refused" in request.node.name:
        monkeypatch.setattr(decision, "solve", None)


NAMES = {
    "--context": ("context", int),
    "--depth": ("depth", int),
    "--kv-bits": ("kv_bits", float),
    "--other-bits": ("other_bits", float),
    "--bits": ("bits", float),
    "--average-bits": ("average_bits", float),
    "--batch": ("batch", int),
    "--reserved-gib": ("reserved_gib", float),
    "--host-reserved-gib": ("host_reserved_gib", float),
}


def remedies(said: str) -> list[dict[str, Any]]:
    """Return the options of every remedy, as keywords."""
    found = re.search(r"it fits with (.*)$", said)
    assert found is not None, said
    ways = []
    for way in found[1].split(" or "):
        words = way.split()
        pairs = zip(words[::2], words[1::2], strict=True)
        ways.append({NAMES[name][0]: NAMES[name][1](value) for name, value in pairs})
    return ways


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"machine": machine_of(2.0)}, {"other_bits", "bits"}),  # the other weights
        ({"context": 500_000}, {"context"}),
        ({"context": 180_000, "reserved_gib": 1.0}, {"context", "kv_bits", "other_bits", "bits"}),
        ({"reserved_gib": 50.0}, {"reserved_gib"}),
        ({"batch": 32, "context": 16384, "depth": 16384}, {"depth", "kv_bits", "batch"}),
        (
            {"machine": machine_of(1.5), "average_bits": 12.0, "reserved_gib": 1.0},
            {"average_bits", "other_bits"},
        ),
    ],
)
def test_refused_on_the_gpu(options: dict[str, Any], named: set[str]) -> None:
    """Dense weights, KV cache or reserve are too much; every option that is named helps."""
    said = refused(**options)
    ways = remedies(said)
    assert named <= {name for way in ways for name in way}
    for way in ways:
        fits(**options | way)


def fits(**options: Any) -> None:
    """Check that with such options solving would begin."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(planned_module, "Search", _stop)
        with pytest.raises(_SolvingError):
            planned_for(**options)


def test_refused_by_the_deficit() -> None:
    """The parts, their sum and the deficit agree to a MiB, rounded up."""
    asked = request(reserved_gib=50.0)
    said = refused(reserved_gib=50.0)
    parts = memory(asked)
    assert f"dense {-(-parts['dense'] // MIB):,} " in said
    assert "reserved 51,200 MiB" in said
    assert f"{-(-gpu_deficit(asked) // MIB):,} MiB more than the 6,144 MiB" in said
    short = parts["dense"] + parts["kv_cache"] + 50 * GIB - 6 * GIB
    assert gpu_deficit(asked) == short > 0


def test_what_just_fits() -> None:
    """To the byte: with one more nothing fits."""
    asked = request()
    parts = memory(asked)
    exact = (parts["total"] - parts["dense"] - parts["kv_cache"]) / GIB
    check_memory(request(reserved_gib=exact))
    with pytest.raises(InfeasibleError):
        check_memory(request(reserved_gib=exact + 1e-6))


def test_several_options_together() -> None:
    """Where none is enough by itself, those that are together are named."""
    options: dict[str, Any] = {
        "machine": machine_of(0.75),
        "context": 100_000,
        "reserved_gib": 0.5,
    }
    (way,) = remedies(refused(**options))
    assert len(way) >= 2
    fits(**options | way)


def test_nothing_helps() -> None:
    """What still lacks is said."""
    said = refused(machine=machine_of(0.01))
    assert re.search(r"even .* leaves [\d,]+ MiB too much$", said)


def test_refused_by_the_host() -> None:
    """3 GiB of experts, up to some on the GPU, in less memory; narrower ones fit."""
    said = refused(machine=machine_of(3.0, host_gib=3.0), host_reserved_gib=1.0)
    assert said.startswith("host memory: experts 3,072 MiB")
    ways = remedies(said)
    assert {"bits"} <= {name for way in ways for name in way}
    for way in ways:
        fits(**{"host_reserved_gib": 1.0} | way, machine=machine_of(3.0, host_gib=3.0))


def test_no_copies_where_the_host_has_no_room_for_them() -> None:
    """What the host cannot hold is on the GPU, in every plan that is compared."""
    machine = machine_of(6.0, host_gib=2.5)
    planned = planned_for(machine=machine, host_reserved_gib=0.5, steps=5)
    host = host_memory(planned.request)
    assert not host.holds_all
    room = 2 * GIB // MODEL.expert_bytes
    for comparison in planned.comparisons:
        on_gpu = sum(map(len, comparison.plan.resident or ()))
        assert 64 - on_gpu <= room, comparison.plan.name
    assert not any("--cpu-moe" in name for name in names(planned))
    assert "no copies of those on the GPU" in page(planned)


def test_an_average_width_counts_for_the_host() -> None:
    """At 4 bits on average the experts take a quarter."""
    assert host_memory(request(average_bits=4.0)).experts * 4 == host_memory(request()).experts


def names(planned: Planned) -> list[str]:
    """Return the names of the plans that are compared."""
    return [comparison.plan.name for comparison in planned.comparisons]


class _SolvingError(Exception):
    """Solving would have begun."""


def _stop(*_: object) -> None:
    raise _SolvingError


def test_an_unstated_host_is_not_checked() -> None:
    """A machine that does not say how much it has holds anything."""
    check_memory(request(machine=machine_of(host_gib=None)))
    with pytest.raises(InfeasibleError):
        check_memory(request(machine=machine_of(2.0, host_gib=1.5)))


def test_one_memory_holds_every_expert_once(capsys: pytest.CaptureFixture[str]) -> None:
    """GPU and host share it: all experts are the GPU's, and what exceeds it does not fit."""
    command = "plan --machine dgx-spark --bits Q4_K_M --steps 4 --time-limit 5 --joint-time 0"
    assert run(shlex.split(f"{command} --model gpt-oss-20b --json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert all(len(layer) == 32 for layer in found["plan"]["resident"])
    assert found["host_memory_bytes"]["copies_of_all"] is False
    line = refused_command(capsys, shlex.split(f"{command} --model deepseek-v3"), 3)
    assert "MiB more than the " in line
