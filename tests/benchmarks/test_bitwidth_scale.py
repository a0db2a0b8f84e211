"""The study of units of loss and of budgets: what it compares with, and which way it comes out."""

from benchmarks.studies.bitwidth_scale import BITS, rounding, splits


def test_the_older_unit_hides_losses_and_the_layers_own_does_not() -> None:
    """Most losses at 8 bits and all at 16 were 0; the excess now is within what is stated."""
    before = rounding("growing with depth", "table", seeds=1)
    now = rounding("growing with depth", "own", seeds=1)
    assert before.zeros[8] > 0.5
    assert before.zeros[16] == 1
    assert before.worst_layer > 0.01
    assert set(now.zeros.values()) == {0}
    assert now.stated is not None
    assert now.worst_layer <= now.stated < 1e-4


def test_only_the_largest_sum_is_worse_than_the_best_split() -> None:
    """On widths that are not evenly spaced; on the paper's all readings agree where losses fall."""
    for bits, budget, worse in (
        ((1, 2, 3, 4), "largest sum", False),
        (BITS, "equality", False),
        (BITS, "at most", False),
        (BITS, "largest sum", True),
    ):
        assert (splits(bits, budget, layers=60).worse > 0) == worse
