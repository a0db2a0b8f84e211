"""Decisions on later loads against two references, by hand and on instances of the library."""

from typing import Any

import pytest

import moeopt
from moeopt import InputError
from tests.problems.layout.layout_random_instances import random_instance
from tests.refusals import refused
from tests.rooms.problems import joined
from tests.rooms.solvers import Limits
from tests.rooms.study import Bracket, HeldOut
from tests.rooms.study import HoldoutRow as Row
from tests.rooms.tri_domain import threshold, trimoe
from tests.study.rows_made import placement

SLOWER_BY_RULE = 0
"""Seed of a layout whose optimum TriMoE's rule does not schedule best."""


def gpu(expert: int) -> Any:
    """Return a rule that keeps one expert on the GPU."""
    return lambda instance: {"gpu": [[expert]]}


OBSERVED = placement("observed", [0, 0, 1], 0)
NEXT, FURTHER = placement("next", [1, 1, 2], 3), placement("further", [1, 1, 1, 2, 2], 6)


def by_method(found: HeldOut) -> dict[str, Row]:
    """Return the rows of one scheduler, by the last word of their method's name."""
    return {row.method.rpartition(":")[2]: row for row in found.rows}


def test_by_hand() -> None:
    """Keeping 0 costs 30 + 50; 1 is the best single decision, 12 + 23; 2 costs 21 + 32."""

    def two(instance: Any) -> Any:
        return {"gpu": [[2]]}

    found = moeopt.holdout(OBSERVED, [NEXT, FURTHER], ["price-and-swap", two])
    assert (found.windows, found.distance, found.sample_rule) == (2, 0, "frequency-hindsight")
    assert found.own == found.hindsight == Bracket(35, 35)
    assert found.hindsight_excess == (0.0, 0.0)
    rows = by_method(found)
    assert list(rows) == ["frequency-hindsight", "price-and-swap", "test_by_hand.<locals>.two"]
    sample = rows["frequency-hindsight"]
    assert (sample.known, sample.later, sample.schedule) == (12, 80, "-")
    assert (sample.excess, sample.worst) == (pytest.approx(80 / 35 - 1), pytest.approx(1.5))
    assert (sample.share_low, sample.share_high) == (0.0, 0.0)
    assert rows["price-and-swap"].status == "optimal"
    mine = rows["test_by_hand.<locals>.two"]
    assert mine.later == 21 + 32
    assert mine.share_low == mine.share_high == pytest.approx((80 - 53) / (80 - 35))


def test_hindsight_is_one_decision_for_all() -> None:
    """Own optima 12 and 12, each with its own expert; the best single one costs 12 + 21 or more."""
    other = placement("other", [2, 2, 1], 6)
    found = moeopt.holdout(OBSERVED, [NEXT, other], ["price-and-swap"])
    assert found.own == Bracket(24, 24)
    assert found.hindsight == Bracket(33, 33)
    assert found.hindsight_excess == (pytest.approx(9 / 24), pytest.approx(9 / 24))
    row = by_method(found)["price-and-swap"]
    assert (row.later, row.worst) == (60, pytest.approx(1.5))


def test_a_bracket_that_is_open() -> None:
    """Shares lie between those of its two ends; what a rule reached narrows it from above."""
    from tests.rooms.study import hindsight_static, with_shares

    rows = [Row(name, "-", later=cost) for name, cost in (("rule", 100), ("mine", 90), ("w", 110))]
    sample, found, worse = with_shares(rows, "rule", Bracket(80, 60))
    assert (sample.share_low, sample.share_high) == (0, 0)
    assert (found.share_low, found.share_high) == (pytest.approx(0.25), pytest.approx(0.5))
    assert (worse.share_low, worse.share_high) == (pytest.approx(-0.5), pytest.approx(-0.25))
    for bracket in (Bracket(100, 60), Bracket(None, 60), Bracket(100, 100)):
        assert {row.share_high for row in with_shares(rows, "rule", bracket)} == {None}
    single = hindsight_static(NEXT, [NEXT], Bracket(None, 11), [30, 14], Limits(1))
    assert single == Bracket(14, 11)
    assert Bracket(14, 11).gap == pytest.approx(3 / 14)
    assert Bracket(None, 11) + Bracket(2, 1) == Bracket(None, 12)


def test_rules_that_know_narrow_what_the_exact_method_left_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without its solution the best of them is the upper end; its bound is the lower one."""
    from tests.rooms.study import references

    other = placement("other", [2, 2, 1], 6)
    monkeypatch.setattr(references, "_solved", lambda *_: (Bracket(None, 30), None))
    found = references.hindsight_static(
        joined([NEXT, other]), [NEXT, other], Bracket(24, 24), [], Limits(9)
    )
    assert found == Bracket(33, 30)


def test_an_open_schedule_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """In how many later windows; none under TriMoE's rule, which claims nothing."""

    def give_up(layer: Any, search: Any) -> None:
        search.offer(trimoe(layer), 10**9)

    monkeypatch.setattr(threshold, "solve", give_up)
    observed = random_instance(SLOWER_BY_RULE, "several scenarios")
    again = observed.model_copy(update={"name": "again"})
    found = moeopt.holdout(observed, again, [], schedule=["exact", "trimoe"], check=False)
    assert [row.unproven for row in found.rows] == [found.windows, 0]


def test_rules_that_fail_have_a_row_that_says_why() -> None:
    """Also a decision that does not fit the later loads, which provenance can hide."""
    small = NEXT.model_copy(update={"gpu_slots": 0})
    found = moeopt.holdout(OBSERVED, small, [gpu(7)])
    fails, mine = found.rows
    assert fails.reason.startswith("does not fit the later loads: PL-C")
    assert (mine.status, mine.later) == ("failed", None)
    assert "failed: " in mine.reason
    assert found.hindsight.proven


def test_both_schedulers() -> None:
    """A layout tuned to the exact schedule is worse under TriMoE's; references stay exact."""
    observed = random_instance(SLOWER_BY_RULE, "several scenarios")
    again = observed.model_copy(update={"name": "again"})
    found = moeopt.holdout(
        observed, again, ["bound-and-pack"], schedule=["exact", "trimoe"], check=False
    )
    exact, trimoe = (row for row in found.rows if row.method == "bound-and-pack")
    assert (exact.schedule, trimoe.schedule) == ("exact", "trimoe")
    assert trimoe.later > exact.later == exact.known
    assert found.windows == len(observed.scenarios) > 1
    assert found.hindsight == Bracket(exact.later, exact.later)
    assert found.own.cost <= exact.later
    assert [line["kind"] for line in found.to_dicts()] == ["references", *["row"] * 4]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (([],), "later: must be one instance at least"),
        (("next.json",), "next.json: cannot be read: No such file"),
        (([NEXT, 3],), "later[1]: must be an instance"),
        ((NEXT, "price-and-swap"), "methods: must be a list of names, not one"),
        ((NEXT, ["dream"]), "method: 'dream' is unknown for placement"),
        ((NEXT, ["nowhere.py:rule"]), "nowhere.py:rule: there is no file nowhere.py"),
        ((OBSERVED,), "its steps 0 to 2 overlap the observed 0 to 2"),
    ],
)
def test_arguments_that_cannot_be_used(arguments: Any, reason: str) -> None:
    """One line that names them."""
    assert reason in refused(moeopt.holdout, OBSERVED, *arguments)


def test_schedulers_and_limits_are_checked() -> None:
    """Before anything is solved."""
    for options, reason in (
        ({"schedule": "mine"}, "schedule: must be exact, trimoe or a function"),
        ({"schedule": []}, "schedule: must be one at least"),
        ({"time_limit_s": 0}, "time limit: must be a positive number"),
        ({"reference_limit_s": -1}, "time limit: must be a positive number"),
        ({"sample_rule": "dream"}, "method: 'dream' is unknown for placement"),
    ):
        with pytest.raises(InputError, match=reason):
            moeopt.holdout(OBSERVED, NEXT, **options)


def test_a_hold_out_is_rows_of_the_table_of_solves() -> None:
    """A row per decision and load, with the cost there: the train loads, then each test load."""
    found = moeopt.holdout(OBSERVED, [NEXT, FURTHER], ["price-and-swap"])
    frame = found.to_frame()
    mine = frame[frame.method == "frequency-hindsight"]
    assert mine.judged_on.to_list() == ["observed", "next", "further"]
    assert mine.objective_0.to_list() == [12, 30, 50]
    assert mine.optimum_0.to_list() == [12, 12, 23]
    assert mine.excess.to_list() == pytest.approx([0, 1.5, 50 / 23 - 1])
    assert set(mine.instance) == {"observed"}
    assert set(moeopt.gap([OBSERVED]).to_frame().columns) <= set(frame.columns)
    best, rule = found.summary[:2]
    assert (best.method, best.pairs, best.later) == ("one decision in hindsight", 2, 0)
    assert rule.later == pytest.approx((1.5 + 27 / 23) / 2)
    assert (rule.later_max, rule.known) == (1.5, 0)
