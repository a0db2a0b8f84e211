"""Traces for cache simulators: their own rules, what simulators find in them, and the way back."""

import random
from functools import cache
from pathlib import Path

import pytest

import moeopt
from moeopt.errors import InputError
from moeopt.exporters.cache_trace import read_oracle_general, read_trace_text
from moeopt.problems.cache.instance import Instance
from tests.exporters.trace_rules import (
    belady_hits,
    csv_requests,
    lru_hits,
    oracle_requests,
    webcachesim_requests,
)
from tests.problems.cache.cache_random_instances import KINDS, random_instance

INSTANCES = [random_instance(seed, kind) for kind in KINDS for seed in range(3)]


def trimmed(instance: Instance) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return the accesses up to the last token that uses any expert."""
    used = [row for row, token in enumerate(instance.accesses) if any(token)]
    return instance.accesses[: max(used, default=-1) + 1]


def one_by_one(seed: int) -> Instance:
    """Return an instance of one layer in which every token uses one expert."""
    rng = random.Random(seed)
    tokens = tuple(((rng.choice((0, 0, 0, 1, 1, 2, 3, 4, 5)),),) for _ in range(60))
    fields = random_instance(seed, "one layer").model_dump()
    return Instance(**fields | {"experts": 6, "slots": 3, "accesses": tokens})


@pytest.mark.parametrize("instance", INSTANCES, ids=lambda instance: instance.name)
def test_all_three_say_the_same_and_lead_back(instance: Instance) -> None:
    """Read by the formats' rules, they hold the same requests, in the instance's order."""
    text = moeopt.export(instance, to="libcachesim").text
    lines = moeopt.export(instance, to="webcachesim").text
    payload = moeopt.export(instance, to="libcachesim-oracle").payload
    requests, following = oracle_requests(payload)
    assert csv_requests(text) == webcachesim_requests(lines) == requests
    assert requests == [
        (time, layer * instance.experts + expert, 1)
        for time, token in enumerate(instance.accesses)
        for layer, used in enumerate(token)
        for expert in used
    ]
    objects = [name for _, name, _ in requests]
    for row, name in enumerate(objects):
        later = [number for number in range(row + 1, len(objects)) if objects[number] == name]
        assert following[row] == (later[0] + 1 if later else -1)
    shape = (instance.layers, instance.experts)
    for accesses in (
        read_trace_text(text, ",", *shape),
        read_trace_text(lines, " ", *shape),
        read_oracle_general(payload, *shape),
    ):
        assert accesses == trimmed(instance)


@pytest.mark.parametrize("seed", range(5))
def test_a_simulator_finds_the_checkers_hits(seed: int) -> None:
    """One layer and one expert per token: a plain LRU over the file is the problem's own cache."""
    instance = one_by_one(seed)
    requests = csv_requests(moeopt.export(instance, to="libcachesim").text)
    objects = [name for _, name, _ in requests]
    for ways in range(1, 7):
        assert lru_hits(objects, ways) == instance.curves.hits[0, ways]


@pytest.mark.parametrize("seed", range(5))
def test_the_next_accesses_steer_belady(seed: int) -> None:
    """Evicting by the file's own next accesses hits as often as the best retention there is."""
    instance = one_by_one(seed)
    requests, following = oracle_requests(moeopt.export(instance, to="libcachesim-oracle").payload)
    objects = [name for _, name, _ in requests]
    for ways in (2, 3):
        found = belady_hits(objects, following, ways)
        assert found == most_hits(tuple(objects), ways)
        assert found >= lru_hits(objects, ways)


def most_hits(objects: tuple[int, ...], capacity: int) -> int:
    """Return the most hits that any choice of evictions gives, by trying them all."""

    @cache
    def best(row: int, content: frozenset[int]) -> int:
        if row == len(objects):
            return 0
        name = objects[row]
        if name in content:
            return 1 + best(row + 1, content)
        held = content | {name}
        if len(held) <= capacity:
            return best(row + 1, held)
        return max(best(row + 1, held - {victim}) for victim in held)

    return best(0, frozenset())


def test_the_notes_say_how_to_run_it() -> None:
    """Capacity in units of size 1, the csv's columns; without slots there is nothing to run."""
    notes = moeopt.export(one_by_one(0), to="libcachesim").all_notes(Path("a b.csv"))
    columns = '"time-col=1,obj-id-col=2,obj-size-col=3,delimiter=,,has-header=true,obj-id-is-num=1"'
    assert notes["slots"] == 3
    assert notes["flags"] == f"'a b.csv' csv lru 3 -t {columns} --ignore-obj-size 1"
    assert moeopt.export(random_instance(0, "no slots"), to="libcachesim").flags is None


def test_damaged_files_are_refused() -> None:
    """A cut file, a line that is no request, an object of no layer."""
    with pytest.raises(InputError, match="no multiple of 24 bytes"):
        read_oracle_general(b"x" * 25, 2, 2)
    with pytest.raises(InputError, match="lines of time, id and size"):
        read_trace_text("time,id,size\n1,b,1\n", ",", 2, 2)
    with pytest.raises(InputError, match="id: must be from 0 to 3"):
        read_trace_text("0 4 1\n", " ", 2, 2)
