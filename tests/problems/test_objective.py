"""Objectives of one entry and of several."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rooms.core import Packing, below, difference, entries, first_key, relative

PAIRS = st.tuples(st.integers(0, 2**42), st.integers(0, 99))


@given(PAIRS, PAIRS)
def test_packing_keeps_the_order(one: tuple[int, int], other: tuple[int, int]) -> None:
    """So a bound on the packed number is a bound on the pair."""
    packing = Packing(100)
    assert packing.unpack(packing.pack(one)) == one
    assert (packing.pack(one) < packing.pack(other)) == (one < other) == below(one, other)


def test_one_integer_is_left_alone() -> None:
    """Most objectives are one number."""
    assert Packing().pack(7) == Packing().unpack(7) == 7
    assert below(3, 4)
    assert not below(4, 4)
    assert (first_key(5), entries(5), difference(5, 3)) == (5, (5,), 2)


@pytest.mark.parametrize(("pair", "radix"), [((1, 100), 100), ((1, -1), 100), ((1, 0), None)])
def test_what_does_not_fit_is_refused(pair: tuple[int, int], radix: int | None) -> None:
    """A second entry that reaches the radix would spoil the order."""
    with pytest.raises(ValueError, match="does not pack"):
        Packing(radix).pack(pair)


def test_ratios_are_about_the_first_entry() -> None:
    """The second is in another unit."""
    assert relative((12, 9), (10, 3), (10, 3)) == pytest.approx(0.2)
    assert difference((12, 9), (10, 3)) == (2, 6)
    assert relative(0, 0, 0) == 0
    assert relative(1, 0, 0) is None
