"""The study of what rules know: on the same steps, fair and in hindsight."""

from statistics import median

import pytest

from benchmarks.studies.information import Measured, in_library, summary

FEW = pytest.param(["prompts-batch"], 6)
ALL = pytest.param(None, 18, marks=pytest.mark.slow)


@pytest.mark.parametrize(("families", "instances"), [FEW, ALL])
def test_knowing_less_costs_more(families: list[str] | None, instances: int) -> None:
    """Each rule is near the optimum in hindsight, and far above it with what it may know."""
    found = in_library(families)
    for rule in ("importance", "uniform-x", "frequency"):
        of = [one for one in found if one.rule == rule]
        assert len(of) >= instances
        assert max(one.hindsight for one in of) < 0.04
        assert median(one.fair for one in of) > 0.1
        assert all(one.fair >= 0 and "hindsight" not in one.knew for one in of)


def test_the_table_says_what_was_known() -> None:
    """One row per group, rule and information; median and maximum."""
    rows = [
        Measured("prompts", f"i{n}", "importance", "prefill counts", n / 10, n / 100)
        for n in (1, 2, 5)
    ]
    other = Measured("steps", "j", "importance", "offline profile", 0.25, 0.0)
    assert summary([*rows, other])[2:] == [
        "| prompts | `importance` | prefill counts | 3 | 20.0 / 50.0 % | 2.0 / 5.0 % |",
        "| steps | `importance` | offline profile | 1 | 25.0 / 25.0 % | 0.0 / 0.0 % |",
    ]
