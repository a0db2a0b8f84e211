"""Label setting against all choices, on small numbers with many equal ones."""

from itertools import product

import numpy as np
import pytest

from tests.rooms.algorithms import LabelSetting, labels, undominated, whole_prices

MANY = 10**6


def going_on() -> bool:
    """Stop nothing."""
    return False


def random_groups(rng: np.random.Generator, resources: int) -> list[np.ndarray]:
    """Return some groups of options, in some of whose resources options give something back."""
    groups = []
    lowest = rng.choice([0, 0, -3], resources)
    for _ in range(rng.integers(1, 6)):
        options = int(rng.integers(1, 5))
        groups.append(rng.integers(lowest, 6, (options, resources)).astype(np.int64))
    return groups


def choices(groups: list[np.ndarray]) -> dict[tuple[int, ...], np.ndarray]:
    """Return what each choice uses."""
    numbers = product(*(range(len(group)) for group in groups))
    return {
        of: sum((group[n] for group, n in zip(groups, of, strict=True)), np.int64(0))
        for of in numbers
    }


@pytest.mark.parametrize("seed", range(150))
def test_it_finds_what_all_choices_show(seed: int) -> None:
    """Whether there is one, the best in what is ranked, whatever the prices and the blocks."""
    rng = np.random.default_rng(seed)
    resources = int(rng.integers(1, 5))
    groups = random_groups(rng, resources)
    every = choices(groups)
    middle = np.median([*every.values()], axis=0).astype(np.int64)
    limit = middle + rng.integers(-3, 3, resources)
    equal = int(rng.integers(resources)) if seed % 3 == 0 else None
    limit[(rng.random(resources) < 0.2) & (np.arange(resources) != equal)] = 2**62
    ranked = [n for n in range(resources) if n != equal and rng.random() < 0.5]
    prices = rng.integers(0, 9, (rng.integers(1, 4), resources))
    if equal is not None:
        prices[:, equal] -= 4
    within = {
        of: uses
        for of, uses in every.items()
        if (uses <= limit).all() and (equal is None or uses[equal] == limit[equal])
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels, "MAX_CANDIDATES", int(rng.choice([1, 7, 200_000])))
        setting = LabelSetting(groups, limit, prices, equal=equal, ranked=ranked)
        found = setting.run(MANY, going_on)
    assert setting.complete
    assert bool(len(found)) == bool(within)
    assert not (setting.refuted and within)
    for number, uses in enumerate(found):
        of = tuple(setting.choice(number))
        assert of in within
        assert (every[of] <= uses).all()
        assert (every[of] == uses)[ranked].all()
    for uses in within.values():
        assert any((of[ranked] <= uses[ranked]).all() for of in found)
    for of in within:
        assert all(n in kept for n, kept in zip(of, setting.open, strict=True))


def test_prices_drop_what_they_prove_too_dear() -> None:
    """Options, labels, or the whole question; the second prices as well as the first."""
    groups = [np.array([[0, 3], [3, 0], [4, 4]]), np.array([[0, 3], [3, 0]])]
    limit = np.array([3, 3])
    nothing, both = np.zeros(2, np.int64), np.ones(2, np.int64)
    assert [len(of) for of in LabelSetting(groups, limit, nothing).open] == [3, 2]
    setting = LabelSetting(groups, limit, np.array([nothing, both]))
    assert [of.tolist() for of in setting.open] == [[0, 1], [0, 1]]
    assert LabelSetting(groups, limit - 1, np.array([nothing, both])).refuted
    assert not LabelSetting(groups, limit - 1, nothing).refuted
    assert len(LabelSetting(groups, limit - 1, nothing).run(MANY, going_on)) == 0


def extensions(setting: LabelSetting) -> list[int]:
    """Return how many extensions of labels each step looks at."""
    seen: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels, "spend", seen.append)
        setting.run(MANY, going_on)
    return [round(units * labels.SUMS_PER_UNIT) for units in seen]


def test_labels_are_dropped_as_soon_as_they_can_be() -> None:
    """Where the rest cannot fit, where the limit is kept anyway, and where prices say so."""
    rising = np.array([[n, 9 - n] for n in range(10)])
    groups, limit, free = [np.array([[0, 9]] * 11), rising], np.array([9, 11]), np.zeros(2, int)
    assert extensions(LabelSetting(groups, limit, free, ranked=(0, 1))) == [10, 3 * 11]
    assert extensions(LabelSetting(groups, limit, free)) == [10, 11]
    groups, limit = [np.array([[0, 2, 1], [2, 0, 1], [2, 1, 0]])] * 3, np.array([4, 3, 9])
    for prices, left in ([0, 0, 0], 5), ([1, 1, 0], 4), ([[0, 0, 0], [1, 1, 0]], 4):
        setting = LabelSetting(groups, limit, np.array(prices), ranked=range(3))
        assert extensions(setting) == [3, 3 * 3, left * 3]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(labels, "MAX_CANDIDATES", 1)  # what one block dominates in another
            assert extensions(setting) == [3, *[3] * 3, *[3] * left]


def test_dropped_labels_refute_nothing() -> None:
    """With one label a step there may be none at the end, and it says so; so it does in a hurry."""
    missed = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        groups, limit = [rng.integers(0, 9, (6, 3)) for _ in range(4)], np.full(3, 13)
        whole, few, hurried = (LabelSetting(groups, limit, np.ones(3, int)) for _ in range(3))
        there, found = whole.run(MANY, going_on), few.run(1, going_on)
        assert len(found) <= min(1, len(there))
        assert len(found) or not few.complete or not len(there)
        missed += len(found) < min(1, len(there))
        assert len(hurried.run(MANY, lambda: True)) == 0
        assert hurried.refuted or not hurried.complete
    assert missed


def test_no_groups_use_nothing() -> None:
    """Which is within limits that are at least 0."""
    for limit, found in ([0, 3], [[0, 0]]), ([0, -1], []):
        setting = LabelSetting([], np.array(limit), np.zeros(2, int), ranked=(0, 1))
        assert setting.run(MANY, going_on).tolist() == found


def test_of_too_many_labels_the_cheapest_stay() -> None:
    """By the first prices."""
    group = np.array([[n, 9 - n] for n in range(10)])
    setting = LabelSetting([group], np.array([9, 9]), np.array([[2, 1], [1, 2]]), ranked=(0, 1))
    assert setting.run(3, going_on).tolist() == [[0, 9], [1, 8], [2, 7]]


@pytest.mark.parametrize("seed", range(60))
def test_undominated_rows_are_those_that_no_row_is_below(seed: int) -> None:
    """On small numbers, against the definition; of equal rows one is left."""
    rng = np.random.default_rng(seed)
    uses = rng.integers(-2, 3, (int(rng.integers(0, 60)), int(rng.integers(1, 6))))
    equal = None if seed % 2 else int(rng.integers(uses.shape[1]))
    rows = {tuple(row) for row in uses.tolist()}
    expected = {
        row
        for row in rows
        if not any(
            other != row
            and (equal is None or other[equal] == row[equal])
            and all(a <= b for a, b in zip(other, row, strict=True))
            for other in rows
        )
    }
    kept = uses[undominated(uses, equal)]
    assert {tuple(row) for row in kept.tolist()} == expected
    assert len(kept) == len(expected)


def test_too_many_comparisons_leave_rows_in() -> None:
    """A few too many, and none too few."""
    rows = np.array([[0, 5], [5, 0], [6, 1], [1, 6]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels, "_scan", labels._scan.py_func)
        patch.setattr(labels, "MAX_COMPARISONS", 2)
        assert {0, 1} <= {*undominated(rows).tolist()}


def test_whole_prices_keep_sums_in_64_bits() -> None:
    """In proportion, as fine as numbers allow; what nobody uses is free."""
    fine = whole_prices(np.array([0.5, -2.0, 7.0]), np.array([3, 1, 0]))
    assert fine.tolist() == [2**19, -(2**21), 0]
    span = np.array([2**50, 2**40])
    large = whole_prices(np.array([1.0, 3.0]), span)
    assert sum(a * b for a, b in zip(large.tolist(), span.tolist(), strict=True)) <= 2**60
    assert abs(large[1] - 3 * large[0]) <= 2 < large[0]
