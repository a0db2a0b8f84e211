"""Cold cuts: by tokens or by experts, exact at the edge, and one line for what is neither."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.core.errors import InputError
from moeopt.core.settlements import DEFAULT, ColdCut

LOADS = [50, 0, 3, 40, 5, 2]
"""100 tokens; rising: 0, 2, 3, 5, 40, 50, so the coldest hold 0, 2, 5, 10, 50, 100."""


@pytest.mark.parametrize(
    ("cut", "cold"),
    [
        ("tokens 0", 1),
        ("tokens 0.0199", 1),
        ("tokens 0.02", 2),
        (DEFAULT, 3),
        ("tokens 0.1", 4),
        ("tokens 0.5", 5),
        ("tokens 1", 6),
        ("experts 0", 0),
        ("experts 0.5", 3),
        ("experts 0.7", 4),
        ("experts 1.0", 6),
        (" experts  1 ", 6),
    ],
)
def test_how_many_are_cold(cut: str, cold: int) -> None:
    """By hand; a share that is met exactly is met."""
    assert ColdCut.parse(cut).count(LOADS) == cold


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=30), st.floats(0, 1))
def test_a_cut_by_tokens_is_the_largest_within_the_share(loads: list[int], share: float) -> None:
    """The cold hold at most the share; with one more they would hold more, whatever the sizes."""
    cold = ColdCut.parse(f"tokens {share!r}").count(loads)
    part, whole = share.as_integer_ratio()
    rising, room = sorted(loads), part * sum(loads)
    slack = whole * sum(loads) // 10**12 + whole  # the text is the float to 17 digits
    assert whole * sum(rising[:cold]) <= room + slack
    if cold < len(loads):
        assert whole * sum(rising[: cold + 1]) > room - slack


@pytest.mark.parametrize(
    "text",
    ["", "tokens", "0.7", "share 0.7", "tokens 8%", "experts -0.1", "tokens 1.01", "tokens nan"],
)
def test_what_is_no_cut_is_named(text: str) -> None:
    """One line that says what would be right."""
    with pytest.raises(InputError, match="cold_cut: must be 'tokens X' or 'experts X' with X from"):
        ColdCut.parse(text)
