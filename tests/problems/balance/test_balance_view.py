"""Solutions of balance as schedules: what runs where and when."""

from tests.problems.balance.test_balance_check import INSTANCE, solution
from tests.rooms.balance import facts, lanes
from tests.rooms.core import Bar


def test_lanes_by_hand() -> None:
    """Link, GPU and units of the checker's example; runs of one expert are one bar."""
    shown = {lane.device: lane.bars for lane in lanes(INSTANCE, solution((1, 1), (2, 0), (0, 1)))}
    assert shown == {
        "link": (
            Bar(0, 20, "7", "transfer"),
            Bar(20, 30, "9", "transfer"),
            Bar(36, 56, "act", "transfer"),
        ),
        "GPU": (
            Bar(0, 6, "4", "work"),
            Bar(10, 34, "7", "work"),
            Bar(34, 36, "9", "work"),
        ),
        "NDP 0": (
            Bar(0, 15, "act", "transfer"),
            Bar(15, 35, "4", "work"),
            Bar(35, 55, "9", "work"),
        ),
        "NDP 1": (
            Bar(0, 15, "act", "transfer"),
            Bar(15, 35, "4", "work"),
            Bar(35, 65, "7", "work"),
            Bar(65, 75, "9", "work"),
        ),
    }


def test_nothing_kept_needs_no_activations() -> None:
    """The units are idle, and so is the link after the slices."""
    shown = lanes(INSTANCE, solution((2, 2), (2, 2), (2, 2)))
    assert [lane.end_ns for lane in shown] == [80, 82, 0, 0]


def test_facts_by_hand() -> None:
    """T_w = 40; of the first expert T_g = 12, T_n = 40. Left less right: 86 E - 85 up to 1.

    85/86 of an expert are 3.95 slices. Predicted: 15 + 30 + 20 + 40 x 1/86.
    """
    assert facts(INSTANCE, solution((1, 1), (2, 0), (0, 1))) == {
        "bottleneck": "ndp",
        "gpu_slices": 5,
        "pulled_slices": 3,
        "balanced_slices": 3,
        "fluid_ns": 65,
    }
