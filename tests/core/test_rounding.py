"""The rule by which floats decide: last digits do not, ties go by index."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.rooms.core import least, rounded

NUMBERS = st.floats(1e-200, 1e200) | st.floats(-1e200, -1e-200) | st.integers(-(2**30), 2**30)


@given(number=NUMBERS, bits=st.integers(2, 52))
def test_the_nearest_number_of_so_many_bits(number: float, bits: int) -> None:
    """Few bits are kept, the error is at most half of the last, and twice is once."""
    found = float(rounded(number, bits))
    numerator, _ = abs(found).as_integer_ratio()
    assert (numerator & -numerator or 1) << bits >= numerator
    assert abs(found - number) <= abs(number) * 2.0**-bits
    assert rounded(found, bits) == found


@given(number=st.integers(1, 2**30), ulps=st.integers(-200, 200))
def test_last_digits_do_not_count(number: int, ulps: int) -> None:
    """What is a whole number but for its last digits is that number."""
    assert rounded(number * (1 + ulps * 2.0**-52)) == number


@given(values=st.lists(st.integers(0, 5), max_size=30), number=st.integers(1, 12))
def test_the_least_are_those_of_a_stable_sort(values: list[int], number: int) -> None:
    """Of equal ones the first, whatever a processor's partition does."""
    expected = sorted(np.argsort(values, kind="stable")[:number].tolist())
    assert least(np.array(values, dtype=np.int64), number).tolist() == expected
