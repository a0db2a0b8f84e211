"""Traces for cache simulators: their own rules, what simulators find in them, and the way back."""

import random
from functools import cache
from pathlib import Path

import pytest

import moeopt
from tests.exporters.trace_rules import (
    belady_hits,
    csv_requests,
    lru_hits,
    oracle_requests,
)
from tests.problems.cache.cache_random_instances import KINDS, random_instance
from tests.rooms.cache import Instance
from tests.rooms.cache import Solution as Ways

INSTANCES = [random_instance(seed, kind) for kind in KINDS for seed in range(3)]


def one_by_one(seed: int) -> Instance:
    """Return an instance of one layer in which every token uses one expert."""
    rng = random.Random(seed)
    tokens = tuple(((rng.choice((0, 0, 0, 1, 1, 2, 3, 4, 5)),),) for _ in range(60))
    fields = random_instance(seed, "one layer").model_dump()
    return Instance(**fields | {"experts": 6, "slots": 3, "accesses": tokens})


@pytest.mark.parametrize("instance", INSTANCES, ids=lambda instance: instance.name)
def test_both_say_the_same_and_lead_back(instance: Instance) -> None:
    """Read by the formats' rules, they hold the same requests, in the instance's order."""
    text = moeopt.export(instance, to="libcachesim").text
    payload = moeopt.export(instance, to="libcachesim-oracle").payload
    requests, following = oracle_requests(payload)
    assert csv_requests(text) == requests
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


def test_every_layer_has_a_trace_with_its_ways(tmp_path: Path) -> None:
    """The plan's ways, in a command and in the script; no way, no command; slots by themselves."""
    instance = one_by_one(0).model_copy(update={"layers": 3, "slots": 9})
    tokens = tuple(
        (token[0], (5,), (token[0][0], (token[0][0] + 1) % 6)) for token in instance.accesses
    )
    instance = Instance(**instance.model_dump() | {"accesses": tokens})
    plan = Ways(instance=instance.name, ways=(2, 0, 5))
    exported = moeopt.export(plan, instance, to="libcachesim")
    exported.save(tmp_path / "a b.csv")
    columns = '"time-col=1,obj-id-col=2,obj-size-col=3,delimiter=,,has-header=true,obj-id-is-num=1"'
    assert exported.flags is not None
    assert exported.flags(Path("a b.csv")).splitlines() == [
        f"'a b.csv.layer{layer}.csv' csv lru {ways} -t {columns} --ignore-obj-size 1"
        for layer, ways in ((0, 2), (2, 5))
    ]
    script = (tmp_path / "a b.csv.run.sh").read_text()
    assert script.count('"${CACHESIM:-cachesim}" ') == 2
    for layer in range(3):
        requests = csv_requests((tmp_path / f"a b.csv.layer{layer}.csv").read_text())
        assert [name for _, name, _ in requests] == [
            layer * instance.experts + expert for token in tokens for expert in token[layer]
        ]
    assert moeopt.export(instance, to="libcachesim").notes["ways"] == [3, 3, 3]
    assert moeopt.export(random_instance(0, "no slots"), to="libcachesim").flags is None


def test_a_layers_own_trace_says_something() -> None:
    """Over all layers at once as many units as there are slots never hit; by layer they do."""
    tokens = tuple(tuple((token % 2,) for _ in range(8)) for token in range(30))
    fields = one_by_one(0).model_dump() | {"layers": 8, "slots": 8, "accesses": tokens}
    instance = Instance(**fields)
    plan = Ways(instance=instance.name, ways=(2, 2, 2, 2, 0, 0, 0, 0))
    exported = moeopt.export(plan, instance, to="libcachesim")
    together = [name for _, name, _ in csv_requests(exported.text)]
    assert lru_hits(together, sum(plan.ways)) == 0
    for layer in range(4):
        own = [name for _, name, _ in csv_requests(exported.beside[f".layer{layer}.csv"].decode())]
        assert lru_hits(own, 2) == 28 == instance.curves.hits[layer, 2]
