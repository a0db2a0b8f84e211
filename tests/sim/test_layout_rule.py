"""The static layout rule: coldest experts localized in turn, hottest resident, the rest striped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt import get_machine
from tests.rooms.sim import (
    Source,
    get_model,
    step_costs,
)
from tests.rooms.tri_domain import STRIPED, cold_localized, expected_ndp_ns

# Ten experts with ties at 5, 2 and 0. By falling load, ties by lowest id:
# 3 (9 tokens), 0, 7 (5 each), 5 (4), 8 (3), 2, 4 (2 each), 9 (1), 1, 6 (none)
LOAD = np.array([5, 0, 2, 9, 2, 4, 0, 5, 3, 1])
LOADS = st.lists(st.integers(0, 9), min_size=1, max_size=50)


def test_the_coldest_are_localized_in_turn_by_falling_load() -> None:
    """70 % of ten experts over three DIMMs: 5, 8, 2, 4, 9, 1, 6 go to 0, 1, 2, 0, 1, 2, 0."""
    layout = cold_localized(LOAD, dimms=3, cold_cut=0.7, residents=0)
    expected = [STRIPED, 2, 2, STRIPED, 0, 0, 0, STRIPED, 1, 1]
    assert layout.dimm.tolist() == expected
    assert not layout.resident.any()


def test_the_hottest_are_resident_and_ties_go_to_the_lowest_number() -> None:
    """Of experts 0 and 7, with five tokens each, 0 comes first."""
    for residents, expected in [(1, {3}), (2, {0, 3}), (3, {0, 3, 7}), (4, {0, 3, 5, 7})]:
        layout = cold_localized(LOAD, dimms=3, cold_cut=0.5, residents=residents)
        assert set(np.flatnonzero(layout.resident).tolist()) == expected


def test_a_tie_at_the_cut_localizes_the_higher_number() -> None:
    """With equal loads everywhere the upper half is cold, and in order of number."""
    layout = cold_localized(np.full(6, 4), dimms=2, cold_cut=0.5, residents=2)
    assert layout.dimm.tolist() == [STRIPED, STRIPED, STRIPED, 0, 1, 0]
    assert layout.resident.tolist() == [True, True, False, False, False, False]


def test_residents_keep_a_striped_copy_while_there_are_striped_experts() -> None:
    """Residence does not move the host copy."""
    layout = cold_localized(LOAD, dimms=4, cold_cut=0.7, residents=3)
    assert (layout.dimm[layout.resident] == STRIPED).all()


@pytest.mark.parametrize(("share", "localized"), [(0.0, 0), (0.7, 112), (0.755, 121), (1.0, 160)])
def test_the_share_decides_how_many_are_localized(share: float, localized: int) -> None:
    """Of 160 experts, rounded to whole ones."""
    load = np.random.default_rng(0).permutation(160)
    layout = cold_localized(load, dimms=16, cold_cut=share, residents=0)
    assert np.count_nonzero(layout.dimm != STRIPED) == localized


@given(LOADS, st.integers(1, 8), st.floats(0, 1), st.integers(0, 60))
def test_no_localized_expert_is_hotter_than_a_striped_one(
    load: list[int], dimms: int, share: float, residents: int
) -> None:
    """The rule cuts the order of loads in two, and residents are its head."""
    layout = cold_localized(np.array(load), dimms, share, residents)
    tokens = np.array(load)
    cold = layout.dimm != STRIPED
    assert np.count_nonzero(cold) == round(share * len(load))
    if cold.any() and not cold.all():
        assert tokens[cold].max() <= tokens[~cold].min()
    assert np.count_nonzero(layout.resident) == min(residents, len(load))
    if layout.resident.any() and not layout.resident.all():
        assert tokens[layout.resident].min() >= tokens[~layout.resident].max()


@given(LOADS, st.integers(1, 8), st.floats(0, 1))
def test_the_dimms_get_equal_numbers_of_experts(load: list[int], dimms: int, share: float) -> None:
    """Taking turns leaves no DIMM more than one expert ahead, and the first ones are ahead."""
    dimm = cold_localized(np.array(load), dimms, share, 0).dimm
    held = np.bincount(dimm[dimm != STRIPED], minlength=dimms)
    assert len(held) == dimms
    assert held.max() - held.min() <= 1
    assert (np.diff(held) <= 0).all()


def test_balanced_each_cold_expert_goes_to_the_emptiest_dimm() -> None:
    """5, 8, 2, 4, 9, 1, 6 cost 9, 4, 3, 3, 3, 1, 1: the first fills its DIMM for a while."""
    ndp_ns = np.array([0, 1, 3, 0, 3, 9, 1, 0, 4, 3])
    layout = cold_localized(LOAD, dimms=3, cold_cut=0.7, residents=1, ndp_ns=ndp_ns)
    # 5 to 0 (9), 8 to 1 (4), 2 to 2 (3), 4 to 2 (6), 9 to 1 (7), 1 to 2 (7), 6 to 1 (tie, 8)
    expected = [STRIPED, 2, 2, STRIPED, 2, 0, 1, STRIPED, 1, 1]
    assert layout.dimm.tolist() == expected
    in_turn = cold_localized(LOAD, dimms=3, cold_cut=0.7, residents=1)
    assert (layout.resident == in_turn.resident).all()
    assert ((layout.dimm == STRIPED) == (in_turn.dimm == STRIPED)).all()


def test_ndp_work_is_expected_for_one_step() -> None:
    """A tenth of a load of ten steps: 20 tokens, 2, a half of the time one token, none."""
    machine, model = get_machine("trimoe"), get_model("deepseek-v2-lite")
    source = Source(machine=machine, model=model, quantum_ns=1)
    expected = expected_ndp_ns(source, np.array([200, 20, 5, 0]), chosen=22)
    scale = 22 / 225  # tokens of the step by tokens of the load
    twenty, two, one = (
        step_costs(machine, model).path_ns("ndp", [round(200 * scale), 2, 1], 1).tolist()
    )
    assert expected.tolist() == [twenty, two, round(one * 5 * scale), 0]
