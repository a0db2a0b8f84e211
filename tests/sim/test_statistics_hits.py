"""Hit rates: every policy against a plain simulation, Belady against exhaustive search."""

from collections.abc import Callable, Iterator
from itertools import combinations
from math import inf, log

import numpy as np
import pytest
from hypothesis import given, settings

from moeopt import InputError
from tests.real_traces import real_trace_file
from tests.rooms.sim import (
    HitRates,
    Routing,
    Trace,
    affinity,
    belady_hits,
    fifo_hits,
    lru_hits,
    phase_similarity,
    predictor_agreement,
    random_hits,
    reuse,
    static_hits,
    step_correlation,
)

from .small_traces import routing_of, small_traces, trace_of

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


@settings(max_examples=100)
@given(small_traces())
def test_lru_at_every_capacity_is_the_plain_one(made: tuple[Trace, int]) -> None:
    """Stack distances of one pass against a cache that is really kept."""
    trace, experts = made
    rates = lru_hits(Routing.of(trace, experts))
    for layer in range(trace.layers):
        for capacity in range(1, experts + 1):
            expected = plain(groups_of(trace, layer), capacity, lru)
            assert_rates(rates, layer, capacity - 1, expected)


@settings(max_examples=100)
@given(small_traces())
def test_fifo_is_the_plain_one(made: tuple[Trace, int]) -> None:
    """By entry numbers against a queue that is really kept."""
    trace, experts = made
    capacities = list(range(1, experts + 1))
    rates = fifo_hits(Routing.of(trace, experts), capacities)
    for layer in range(trace.layers):
        for column, capacity in enumerate(capacities):
            assert_rates(rates, layer, column, plain(groups_of(trace, layer), capacity, fifo))


@settings(max_examples=60)
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


@settings(max_examples=60)
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
        assert_rates(rates, 0, capacity - 1, (each, some, full))


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


def plain_reuse(sets: list[set[int]], starts: set[int]) -> dict[str, float]:
    """Return the figures of `Reuse` for one layer by looping over the tokens."""
    pairs = shared = accesses = full = 0
    runs = [0, 0, 0]
    run: dict[int, int] = {}
    for token, mine in enumerate(sets):
        before = set() if token in starts else (sets[token - 1] if token else set())
        run = {e: (run.get(e, 0) + 1 if e in before else 0) for e in mine}
        if not mine or not before:
            continue
        pairs += 1
        accesses += len(mine)
        shared += len(mine & before)
        full += mine <= before
        longest = max(run.values())
        runs = [count + (longest > depth) for depth, count in enumerate(runs)]
    nan = float("nan")
    return {
        "any": runs[0] / pairs if pairs else nan,
        "all": full / pairs if pairs else nan,
        "each": shared / accesses if accesses else nan,
        "twice": runs[1] / runs[0] if runs[0] else nan,
        "thrice": runs[2] / runs[0] if runs[0] else nan,
    }


@settings(max_examples=100)
@given(small_traces())
def test_reuse_is_that_of_plain_python(made: tuple[Trace, int]) -> None:
    """On any small trace, with gaps, repeated ids and several sequences."""
    trace, experts = made
    found = reuse(Routing.of(trace, experts))
    starts = {0, int(trace.seq_len[0])}
    for layer in range(trace.layers):
        sets = [{int(e) for e in row if e >= 0} for row in trace.topk_ids[:, layer]]
        for key, value in plain_reuse(sets, starts).items():
            assert getattr(found, key)[layer] == pytest.approx(value, nan_ok=True), key


def test_independent_reuse_is_what_shuffled_tokens_have() -> None:
    """The formula against the same tokens in random order."""
    rng = np.random.default_rng(3)
    scores = rng.gumbel(size=(20_000, 1, 8)) + np.arange(8) / 3
    ids = np.argsort(-scores, axis=2)[:, :, :2]
    found = reuse(routing_of(ids[np.repeat(np.arange(10_000), 2)]))
    shuffled = reuse(routing_of(ids))
    assert found.each[0] > 0.6
    assert found.independent[0] == pytest.approx(shuffled.each[0], abs=0.01)


@pytest.mark.parametrize(("experts", "top_k"), [(8, 2), (6, 3), (5, 4), (3, 3)])
def test_random_reuse_is_that_of_all_subsets(experts: int, top_k: int) -> None:
    """By enumeration; 0.464 for Mixtral."""
    subsets = [set(choice) for choice in combinations(range(experts), top_k)]
    first = subsets[0]
    some = sum(bool(first & other) for other in subsets) / len(subsets)
    full = sum(first == other for other in subsets) / len(subsets)
    assert_rates(random_hits(experts, top_k), 0, top_k - 1, (top_k / experts, some, full))
    assert random_hits(8, 2).any[0, 1] == pytest.approx(0.464, abs=5e-4)


def test_phases_by_marks_by_hand() -> None:
    """Two sequences: (2, 0) against (1, 1), and (1, 0) against (1, 0); cosines .707 and 1."""
    ids = [[0], [0], [0], [1], [0], [0]]
    marks = [False, False, True, True, False, True]
    routing = Routing.of(trace_of(ids, [4, 2], marks))
    cosine, by = phase_similarity(routing)
    assert by == "marks"
    assert cosine.tolist() == pytest.approx([(1 / 2**0.5 + 1) / 2])


def test_phases_by_windows_by_hand() -> None:
    """Blocks of 1 + 2 tokens inside the sequences; what is left over does not count."""
    ids = [[0], [0], [1], [1], [1], [1], [0], [0], [1]]
    cosine, by = phase_similarity(routing_of(ids, lengths=[7, 2]), prefill=1, decode=2)
    assert by == "windows"
    assert cosine.tolist() == pytest.approx([(1 / 2**0.5 + 1) / 2])
    assert np.isnan(phase_similarity(routing_of(ids), 8, 8)[0]).all()
    with pytest.raises(InputError, match="must be at least 1, not 0 and 8"):
        phase_similarity(routing_of(ids), 0, 8)


def test_step_correlation_by_hand() -> None:
    """Opposite loads -1, same loads 1, constant loads do not count."""
    loads = np.array([[[3, 1], [1, 3], [5, 7]], [[2, 2], [1, 3], [0, 1]]])
    assert step_correlation(loads).tolist() == pytest.approx([0.0, 1.0])


def test_the_predictor_by_hand() -> None:
    """Twenty experts, one hot and five warm; the hottest moves to a cold place once."""
    base = np.array([50, 9, 9, 9, 9, 9] + [1] * 14)
    moved = base.copy()
    moved[[0, 19]] = moved[[19, 0]]
    steps = np.array([[base, base, moved]])
    assert predictor_agreement(steps).tolist() == [(1 + 18 / 20) / 2]
    assert np.isnan(predictor_agreement(steps[:, :1])).all()
    with pytest.raises(InputError, match="alpha: must be above 0 and at most 1, not 2"):
        predictor_agreement(steps, alpha=2)


def test_the_predictor_forgets_at_the_stated_rate() -> None:
    """One step later the old hottest leads with .7 x 10 against .3 x 20, but not with .5 x 10."""
    first, second = [10] + [0] * 19, [0] * 19 + [20]
    steps = np.array([[first, second, second]])
    assert predictor_agreement(steps, 0.3).tolist() == [(17 + 18) / 40]
    assert predictor_agreement(steps, 0.5).tolist() == [(17 + 20) / 40]


def test_affinity_by_hand() -> None:
    """Layer 1 repeats layer 0: ln 2 of ln 2. Moved on by half, pairs are as often unequal."""
    ids = [[[e], [e]] for e in (0, 1, 0, 1, 1, 0, 1, 0)]
    swapped = [[[a], [b]] for (a,), (b,) in zip(*np.array(ids).transpose(1, 0, 2), strict=True)]
    assert affinity(routing_of(swapped)).tolist() == pytest.approx([0.0])
    ids = [[[e], [e]] for e in (0, 0, 1, 1, 0, 1, 0, 1)]
    assert affinity(routing_of(ids)).tolist() == pytest.approx([1.0])
    assert affinity(routing_of(ids), "main").tolist() == pytest.approx([1.0])
    with pytest.raises(InputError, match="pairs: must be any or main, not all"):
        affinity(routing_of(ids), "all")  # type: ignore[arg-type]


def test_affinity_is_mutual_information_over_entropy() -> None:
    """A noisy copy against the formula, written with plain sums."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 4000)
    second = np.where(rng.random(4000) < 0.5, first, rng.integers(0, 3, 4000))

    def information(a: np.ndarray, b: np.ndarray) -> float:
        told = entropy = 0.0
        for y in range(3):
            entropy -= (b == y).mean() * log((b == y).mean())
            for x in range(3):
                joint = ((a == x) & (b == y)).mean()
                told += joint * log(joint / ((a == x).mean() * (b == y).mean()))
        return told / entropy

    ids = np.stack([first, second], axis=1)[:, :, None]
    expected = information(first, second) - information(first, np.roll(second, 2000))
    assert affinity(routing_of(ids)).tolist() == pytest.approx([expected])
    assert expected > 0.1


def test_reuse_of_mixtral() -> None:
    """G7: mean .60, layers .45 to .79; the paper's 23 % and 18 % of longer runs."""
    with np.load(real_trace_file("hdmoe_mixtral_8x7b/writing.npz")) as arrays:
        ids = arrays["topk_ids"]
    found = reuse(Routing.of(Trace(name="real", topk_ids=ids)))
    assert found.any.mean() == pytest.approx(0.60, abs=0.01)
    assert 0.45 <= found.any.min() <= found.any.max() <= 0.79
    assert (found.twice - found.thrice).mean() == pytest.approx(0.23, abs=0.02)
    assert found.thrice.mean() == pytest.approx(0.18, abs=0.03)
    sets = [set(row) for row in ids[:, 7].tolist()]
    assert found.any[7] == pytest.approx(plain_reuse(sets, {0})["any"])


def test_phase_similarity_of_mixtral() -> None:
    """C1: .87 with 16 tokens of prefill, .91 with 32, .93 with 64, .94 to .96 with 128."""
    with np.load(real_trace_file("hdmoe_mixtral_8x7b/writing.npz")) as arrays:
        routing = Routing.of(Trace(name="real", topk_ids=arrays["topk_ids"]))
    for prefill, cosine in ((16, 0.87), (32, 0.91), (64, 0.93), (128, 0.95)):
        assert phase_similarity(routing, prefill, 64)[0].mean() == pytest.approx(cosine, abs=0.015)
