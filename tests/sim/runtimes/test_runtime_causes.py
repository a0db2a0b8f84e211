"""A measured speed beside the predicted one: inside, or by what it differs; what is asked for."""

import json

import pytest

import moeopt
from moeopt import InputError, get_machine
from tests.rooms.sim import Machine

MODEL = {"bits": "Q4_K_M", "n_cpu_moe": 40}


@pytest.fixture
def machine() -> Machine:
    """Return an RTX 4090 beside an EPYC."""
    return get_machine("rtx4090+epyc-9004")


def test_inside_the_interval(machine: Machine) -> None:
    """Nothing is to be explained."""
    found = moeopt.predict(machine, "glm-4.5-air", **MODEL)
    near = moeopt.predict(machine, "glm-4.5-air", measured=0.95 * found.tokens_per_s, **MODEL)
    assert near.explained.inside
    assert near.explained.causes == ()
    [line] = near.explained.in_words()
    assert "inside the interval of" in line
    assert found.explained is None
    assert found.to_dict()["explained"] is None


@pytest.mark.parametrize(
    ("changes", "more", "name", "words"),
    [
        ({"dram.channels": 2}, {}, "channels", "2 of 12 memory channels are filled"),
        ({}, {"threads": 4}, "threads", "4 threads compute, not "),
        ({}, {"depth": 65536}, "depth", "65,536 tokens are in the cache"),
    ],
)
def test_the_cause_is_found(
    machine: Machine, changes: dict[str, object], more: dict[str, int], name: str, words: str
) -> None:
    """What a machine with that cause runs at is explained by it, as fully as by anything."""
    other = moeopt.set_machine(machine, changes) if changes else machine
    asked = MODEL | {"n_cpu_moe": 46, "context": 65536}
    slow = moeopt.predict(other, "glm-4.5-air", **(asked | more)).tokens_per_s
    found = moeopt.predict(machine, "glm-4.5-air", measured=slow, **asked)
    told = found.explained
    assert not told.inside
    [cause] = [one for one in told.causes if one.name == name]
    assert words in cause.text
    assert told.share(cause) > 0.9
    shares = [told.share(one) for one in told.causes]
    assert shares == sorted(shares, reverse=True)
    assert json.loads(json.dumps(found.to_dict()))["explained"]["causes"]


def test_paging_says_how_much_would_come_from_the_disk(machine: Machine) -> None:
    """Half of what the host needs is missing: so much of the experts is read from disk."""
    small = moeopt.set_machine(machine, {"dram.capacity_gib": 60})
    found = moeopt.predict(small, "glm-4.5-air", measured=2.0, **MODEL)
    [paging] = [one for one in found.explained.causes if one.name == "paging"]
    assert "read from the disk at 3 GB/s" in paging.text
    assert paging.tokens_per_s == pytest.approx(2.0)
    large = moeopt.set_machine(machine, {"dram.capacity_gib": 1024})
    found = moeopt.predict(large, "glm-4.5-air", measured=2.0, **MODEL)
    assert "paging" not in {one.name for one in found.explained.causes}


def test_sockets(machine: Machine) -> None:
    """Two sockets of which one computes; over several devices as well."""
    found = moeopt.predict("rtx4090+2xepyc-9004", "deepseek-v3", bits="Q4_K_M", measured=7.0)
    assert "sockets" in {one.name for one in found.explained.causes}
    assert found.to_dict()["explained"]["inside"] is False


def test_faster_than_predicted(machine: Machine) -> None:
    """Memory that is read faster, never less of it."""
    found = moeopt.predict("rtx4090+ryzen-am5", "glm-4.5-air", measured=40.0, **MODEL)
    texts = [one.text for one in found.explained.causes]
    assert any("host memory is read at 1." in text for text in texts)
    assert not any("disk" in text for text in texts)


def test_what_decides_is_asked_for(machine: Machine) -> None:
    """Memory's speed and threads, unless they were said, or nothing lies on the host."""
    sized = moeopt.set_machine(get_machine("rtx4090+ryzen-am5"), {"dram.capacity_gib": 96})
    found = moeopt.predict(sized, "glm-4.5-air", bits="Q4_K_M")
    assert any("dram.triad_gb_s" in asked for asked in found.asks)
    known = moeopt.set_machine(get_machine("rtx4090+ryzen-am5"), {"dram.triad_gb_s": 50})
    told = moeopt.predict(known, "glm-4.5-air", bits="Q4_K_M", threads=8)
    assert told.asks == ()
    alone = moeopt.predict("rtx4090+ryzen-am5", "qwen3-30b-a3b", bits="Q4_K_M", n_cpu_moe=0)
    assert alone.asks == ()


def test_a_speed_that_is_none(machine: Machine) -> None:
    """One line."""
    with pytest.raises(InputError, match="measured: must be above 0"):
        moeopt.predict(machine, "glm-4.5-air", measured=0.0)
