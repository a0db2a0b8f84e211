"""Two sockets: what is set reaches what is predicted, and more of it is never slower."""

import itertools
from pathlib import Path

import pytest

import moeopt
from moeopt import get_machine, predict, set_machine
from tests.rooms.cli import run
from tests.rooms.sim import Machine

NAME = "rtx5090+2xxeon-spr"


def speed(machine: Machine, runtime: str = "llama.cpp") -> float:
    """Return the tokens per second of Kimi-K2 in 4 bits."""
    found = predict(machine, "kimi-k2", bits="Q4_K_M", context=512, runtime=runtime)
    return found.tokens_per_s


def changed(field: str, value: object) -> Machine:
    """Return the machine with a field of both sockets changed."""
    return set_machine(get_machine(NAME), {field: value})


FELT = {
    "dram.speed_mt_s": (3200, 4800, 5600, 8800),
    "dram.channels": (2, 4, 8, 12),
    "dram.gb_s": (80, 150, 307.2, 400),
    "dram.reached": (0.2, 0.4, 0.72, 1.0),
    "dram.measured_gb_s": (80, 110, 150, 221),
    "cpu.most_gb_s": (80, 140, 200),
}
"""Field -> values of which each makes decoding faster than the one before."""


@pytest.mark.parametrize(
    ("field", "runtime"),
    [
        *((field, "llama.cpp") for field in FELT),
        *((field, "ktransformers") for field in ("dram.gb_s", "cpu.most_gb_s")),
        *(
            pytest.param(field, "ktransformers", marks=pytest.mark.slow)
            for field in FELT
            if field not in ("dram.gb_s", "cpu.most_gb_s")
        ),
    ],
)
def test_more_bandwidth_is_faster(field: str, runtime: str) -> None:
    """By whichever field it is stated, with a runtime that knows of nodes and one that does not."""
    speeds = [speed(changed(field, value), runtime) for value in FELT[field]]
    for slower, faster in itertools.pairwise(speeds):
        assert faster > slower * 1.005, speeds


def test_one_socket_gains_as_two_do() -> None:
    """The same memory speed makes the same difference in kind on one socket."""
    one = get_machine("rtx5090+xeon-spr")
    slow, fast = (speed(set_machine(one, {"dram.speed_mt_s": s})) for s in (3200, 5600))
    assert fast > 1.2 * slow


def test_half_of_everything_is_slower() -> None:
    """Less bandwidth in both sockets and between them; between them alone, too."""
    fields = {"dram.measured_gb_s": 110, "socket.gb_s": 63}
    base = speed(changed("dram.measured_gb_s", 221))
    both = speed(set_machine(get_machine(NAME), fields))
    link = speed(changed("socket.gb_s", 63))
    assert both < link < base
    aware = [speed(changed("socket.gb_s", rate), "ktransformers") for rate in (63, 126)]
    assert aware[0] == aware[1]  # each socket reads its own slice


def test_one_of_two_sockets_that_is_slower_slows_both_down() -> None:
    """A full path changes one of them alone: between none and both."""
    full = "devices.numa1.memory.gb_s"
    whole, part = speed(get_machine(NAME)), speed(changed(full, 150))
    both = speed(changed("dram.gb_s", 150))
    assert both < part < whole


def test_decoding_feels_the_kernel_in_use() -> None:
    """That of few tokens, not the main one."""
    curve = {"scale": "linear", "points": [[1, 0.5]]}
    slow = [{"name": "x", "max_tokens": 4, "tflops": curve}]
    main = [{"name": "y", "tflops": curve | {"points": [[1, 20.0]]}}]
    base = speed(get_machine(NAME))
    assert speed(changed("cpu.kernels", slow + main)) < 0.9 * base
    assert speed(changed("cpu.tflops", 40)) == base


def test_a_model_that_both_memories_cannot_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twice 128 GiB: exit 3 with what there is; twice 512 GiB hold it, by command and in Python."""
    monkeypatch.chdir(tmp_path)
    asked = ["predict", "--model", "kimi-k2", "--bits", "Q4_K_M", "--context", "512"]
    for gib, code in ((128, 3), (512, 0)):
        assert run(["machine", "set", NAME, f"dram.capacity_gib={gib}", "--out", "m.json"]) == 0
        told = capsys.readouterr().out.splitlines()
        assert told == [f"devices.numa{n}.memory.capacity_gib: {gib} GiB" for n in range(2)]
        assert run([*asked, "--machine", "m.json"]) == code
        said = capsys.readouterr()
        if code:
            [line] = said.err.splitlines()
            assert "591,259 MiB are needed; there are gpu0 28,176, host 262,144 MiB" in line
            with pytest.raises(moeopt.InfeasibleError, match="591,259 MiB are needed"):
                speed(get_machine("m.json"))
        else:
            assert "--numa distribute" in said.out
            assert speed(get_machine("m.json")) > 0


@pytest.mark.parametrize(
    ("field", "over"),
    [("dram.speed_mt_s", 5600), ("dram.channels", 4), ("dram.gb_s", 300)],
)
def test_what_a_measurement_overrides_is_refused_on_both(field: str, over: int) -> None:
    """Nothing is taken that would change nothing."""
    measured = changed("dram.measured_gb_s", 150)
    with pytest.raises(moeopt.InputError, match="has no effect beside") as caught:
        set_machine(measured, {field: over})
    for node in ("numa0", "numa1"):
        assert f"devices.{node}.memory.measured_gb_s=null" in str(caught.value)
