"""Hit rates: every policy against a plain simulation, Belady against exhaustive search."""

from collections.abc import Callable, Iterator
from itertools import combinations
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings

from moeopt.core import stack_distance
from moeopt.core.errors import InputError
from moeopt.sim.traces.statistics.hits import (
    HitRates,
    belady_hits,
    fifo_hits,
    lru_hits,
    random_hits,
    static_hits,
)
from moeopt.sim.traces.statistics.routing import Routing
from moeopt.sim.traces.trace import Trace
from tests.real_traces import real_trace_file
from tests.sim.small_traces import routing_of, small_traces

Groups = list[list[int]]
Update = Callable[[list[int], list[int], int], list[int]]


def groups_of(trace: Trace, layer: int) -> Groups:
    """Return the experts of each token, each once, in the listed order."""
    return [
        list(dict.fromkeys(e for e in row if e >= 0)) for row in trace.topk_ids[:, layer].tolist()
    ]


def plain(groups: Groups, capacity: int, update: Update) -> tuple[float, float, float]:
    """Return each, any and all of a cache that `update` maintains, oldest first."""
    content: list[int] = []
    each = some = full = 0
    for group in groups:
        found = sum(e in content for e in group)
        each += found
        some += found > 0
        full += bool(group) and found == len(group)
        content = update(content, group, capacity)
        assert len(content) <= capacity
    tokens = sum(bool(group) for group in groups)
    accesses = sum(map(len, groups))
    if not tokens:
        return (float("nan"),) * 3
    return each / accesses, some / tokens, full / tokens


def lru(content: list[int], group: list[int], capacity: int) -> list[int]:
    """All of the group become most recent, in the listed order."""
    return ([e for e in content if e not in group] + group)[-capacity:]


def fifo(content: list[int], group: list[int], capacity: int) -> list[int]:
    """Those that were missing enter one after another."""
    return (content + [e for e in group if e not in content])[-capacity:]


def assert_rates(rates: HitRates, layer: int, column: int, expected: object) -> None:
    """Compare one capacity of one layer."""
    found = [getattr(rates, key)[layer, column] for key in ("each", "any", "all")]
    assert found == pytest.approx(expected, nan_ok=True)


@settings(max_examples=100, deadline=None)
@given(small_traces())
def test_lru_at_every_capacity_is_the_plain_one(made: tuple[Trace, int]) -> None:
    """Stack distances of one pass against a cache that is really kept."""
    trace, experts = made
    rates = lru_hits(Routing.of(trace, experts))
    for layer in range(trace.layers):
        for capacity in range(1, experts + 1):
            expected = plain(groups_of(trace, layer), capacity, lru)
            assert_rates(rates, layer, rates.at(capacity), expected)


def test_lru_in_pieces_is_lru_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recency carries over where the memory bound cuts the trace."""
    ids = np.random.default_rng(1).integers(0, 9, size=(200, 2, 3))
    whole = lru_hits(routing_of(ids))
    monkeypatch.setattr(stack_distance, "CHUNK", 3 * 9 * 7)
    assert np.array_equal(lru_hits(routing_of(ids)).each, whole.each)


@settings(max_examples=100, deadline=None)
@given(small_traces())
def test_fifo_is_the_plain_one(made: tuple[Trace, int]) -> None:
    """By entry numbers against a queue that is really kept."""
    trace, experts = made
    capacities = list(range(1, experts + 1))
    rates = fifo_hits(Routing.of(trace, experts), capacities)
    for layer in range(trace.layers):
        for column, capacity in enumerate(capacities):
            assert_rates(rates, layer, column, plain(groups_of(trace, layer), capacity, fifo))


@settings(max_examples=60, deadline=None)
@given(small_traces())
def test_static_holds_the_most_used(made: tuple[Trace, int]) -> None:
    """The same contents all along, lower ids first among equals."""
    trace, experts = made
    rates = static_hits(Routing.of(trace, experts))
    for layer in range(trace.layers):
        groups = groups_of(trace, layer)
        used = [sum(e in group for group in groups) for e in range(experts)]
        ranked = sorted(range(experts), key=lambda e: (-used[e], e))
        for capacity in range(1, experts + 1):
            held = set(ranked[:capacity])
            accesses = sum(map(len, groups))
            tokens = [set(group) for group in groups if group]
            if not tokens:
                continue
            expected = (
                sum(used[e] for e in held) / accesses,
                sum(bool(token & held) for token in tokens) / len(tokens),
                sum(token <= held for token in tokens) / len(tokens),
            )
            assert_rates(rates, layer, capacity - 1, expected)


def best_hits(groups: Groups, capacity: int, demand: bool) -> int:
    """Return the most hits that any sequence of contents can have, by trying all of them."""
    best: dict[frozenset[int], int] = {frozenset(): 0}
    for group in groups:
        after: dict[frozenset[int], int] = {}
        for content, hits in best.items():
            total = hits + sum(e in content for e in group)
            for kept in contents(content, set(group), capacity, demand):
                after[kept] = max(total, after.get(kept, 0))
        best = after
    return max(best.values())


def contents(
    content: frozenset[int], group: set[int], capacity: int, demand: bool
) -> Iterator[frozenset[int]]:
    """Yield what a cache may hold after a token."""
    candidates = content | group
    size = min(capacity, len(candidates))
    for kept in map(frozenset, combinations(sorted(candidates), size)):
        if not demand or len(kept & group) == min(capacity, len(group)):
            yield kept


@settings(max_examples=60, deadline=None)
@given(small_traces())
@pytest.mark.parametrize("demand", [True, False])
def test_belady_is_the_best_there_is(demand: bool, made: tuple[Trace, int]) -> None:
    """No sequence of contents has more hits, whether all fetched experts must enter or not."""
    trace, experts = made
    capacities = list(range(1, experts + 1))
    rates = belady_hits(Routing.of(trace, experts), capacities, demand)
    for layer in range(trace.layers):
        groups = groups_of(trace, layer)
        for column, capacity in enumerate(capacities):
            accesses = sum(map(len, groups))
            if accesses and capacity <= 4:
                expected = best_hits(groups, capacity, demand) / accesses
                assert rates.each[layer, column] == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(small_traces())
def test_policies_stand_in_order(made: tuple[Trace, int]) -> None:
    """LRU and FIFO never beat Belady from capacity k on; he never beats the free choice."""
    trace, experts = made
    routing = Routing.of(trace, experts)
    capacities = list(range(trace.topk_ids.shape[2], experts + 1))
    free = np.nan_to_num(belady_hits(routing, capacities, demand=False).each)
    belady = np.nan_to_num(belady_hits(routing, capacities).each)
    recent = np.nan_to_num(lru_hits(routing).each[:, np.array(capacities) - 1])
    queue = np.nan_to_num(fifo_hits(routing, capacities).each)
    static = np.nan_to_num(static_hits(routing).each[:, np.array(capacities) - 1])
    assert (recent <= belady + 1e-12).all()
    assert (belady <= free + 1e-12).all()
    assert (queue <= free + 1e-12).all()
    assert (np.diff(free, axis=1) >= -1e-12).all()
    assert (static[:, -1] > 0).all()


def test_lru_by_hand() -> None:
    """Two slots, two experts per token: hits 0, 1, 2, 0; with one slot only the last listed."""
    rates = lru_hits(routing_of([[0, 1], [1, 2], [2, 1], [0, 3]]))
    assert rates.each[0].tolist() == [1 / 8 + 1 / 8, 3 / 8, 4 / 8, 4 / 8]
    assert rates.any[0].tolist() == [2 / 4, 2 / 4, 3 / 4, 3 / 4]
    assert rates.all[0].tolist() == [0, 1 / 4, 1 / 4, 1 / 4]


@pytest.mark.parametrize(("experts", "top_k"), [(8, 2), (6, 3), (4, 4)])
def test_random_contents_are_the_mean_over_all_contents(experts: int, top_k: int) -> None:
    """By enumeration of what may be held, for one token."""
    rates = random_hits(experts, top_k)
    token = set(range(top_k))
    for capacity in range(1, experts + 1):
        held = [set(choice) for choice in combinations(range(experts), capacity)]
        each = sum(len(token & h) for h in held) / (top_k * len(held))
        some = sum(bool(token & h) for h in held) / len(held)
        full = sum(token <= h for h in held) / len(held)
        assert_rates(rates, 0, rates.at(capacity), (each, some, full))


@pytest.mark.parametrize("policy", [fifo_hits, belady_hits])
def test_a_cache_of_nothing_is_refused(policy: Callable[..., HitRates]) -> None:
    """The message names the field."""
    with pytest.raises(InputError, match="capacity: must be at least 1, not 0"):
        policy(routing_of([[0]]), [0])


def test_hit_rates_known_for_esft_law() -> None:
    """LRU .336/.498/.729, Belady .437/.681/.875, static .290/.465/.720 at 8, 16 and 32 of 64.

    Found on the first 3000 tokens and every sixth layer.
    """
    with np.load(real_trace_file("esft_deepseek_v2_lite/law.npz")) as arrays:
        ids = arrays["topk_ids"][:3000, ::6]
    routing = Routing.of(Trace(name="law", topk_ids=ids))
    at = [7, 15, 31]
    for rates, known in (
        (lru_hits(routing).each[:, at], (0.336, 0.498, 0.729)),
        (belady_hits(routing, [8, 16, 32]).each, (0.437, 0.681, 0.875)),
        (static_hits(routing).each[:, at], (0.290, 0.465, 0.720)),
    ):
        assert rates.mean(axis=0) == pytest.approx(known, abs=5.1e-4)


def test_lru_against_random_on_mixtral() -> None:
    """G9: at least one hit +.136/.105/.071 at 2, 3, 4 ways, both +.08/.11/.14, FIFO below LRU."""
    with np.load(real_trace_file("hdmoe_mixtral_8x7b/extraction.npz")) as arrays:
        ids = arrays["topk_ids"]
    routing = Routing.of(Trace(name="extraction", topk_ids=ids))
    recent, random = lru_hits(routing), random_hits(8, 2)
    some = (recent.any.mean(axis=0) - random.any[0])[[1, 2, 3]]
    full = (recent.all.mean(axis=0) - random.all[0])[[1, 2, 3]]
    assert some == pytest.approx([0.136, 0.105, 0.071], abs=0.006)
    assert full == pytest.approx([0.08, 0.11, 0.14], abs=0.01)
    below = recent.each.mean(axis=0)[[1, 2, 3]] - fifo_hits(routing, [2, 3, 4]).each.mean(axis=0)
    assert ((below > 0) & (below < 0.025)).all()
    assert inf > recent.each[0, 3] == pytest.approx(plain(ids[:, 0].tolist(), 4, lru)[0], abs=1e-12)
