"""The gap study: excess against the proven optimum, families, statistics, CSV."""

import csv
import signal
from io import StringIO
from math import isnan
from pathlib import Path
from statistics import median

import pytest

import moeopt
from tests.problems.layout.layout_random_instances import copies_matter
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.layout import Instance
from tests.rooms.problems import get_problem
from tests.rooms.study import (
    Campaign,
    Job,
    Part,
    Settings,
    SolveRecord,
    make_plan,
    make_settings,
    percent,
    summarise,
)
from tests.rooms.study import rows_to_csv as to_csv
from tests.rooms.study import table_to_markdown as to_markdown

INSTANCES = [random_instance(seed) for seed in range(6)]


def test_excess_is_measured_from_the_proven_optimum() -> None:
    """(objective - optimum) / optimum, with the optimum of another solve."""
    rows = moeopt.gap(INSTANCES, ["trimoe", "klotski"])
    assert [row.method for row in rows[:3]] == ["trimoe", "klotski", "threshold"]
    for row in rows:
        instance = next(i for i in INSTANCES if i.name == row.instance)
        optimum = moeopt.solve(instance, "brute-force").objective
        assert row.optimum == optimum
        assert row.excess == (row.objective - optimum) / optimum  # type: ignore[operator]


def test_every_heuristic_by_default() -> None:
    """Without a choice all heuristics run, and the reference."""
    rows = moeopt.gap(INSTANCES[:1])
    names = [row.method for row in rows]
    heuristics = [m for m in moeopt.methods("tri_domain") if m not in names]
    assert heuristics == ["auto", "cp-sat", "milp", "brute-force"]


def test_rules_that_need_copies_run_where_copies_are_permitted() -> None:
    """Without being named; whoever names them gets them anyway, and a refusal each."""
    permits = copies_matter(0)
    settings = make_settings(None, [1], [0], 1)
    named = make_settings(["dual-copies"], [1], [0], 1)

    def chosen(instance: Instance, settings: Settings) -> set[str]:
        return {job.method for job in make_plan(Campaign([Part([instance], settings)])).jobs()}

    without = permits.model_copy(update={"copies": None})
    needing = {one.name for one in get_problem("layout").heuristics if one.needs}
    assert len(needing) == 3
    assert needing <= chosen(permits, settings)
    assert chosen(without, settings) == chosen(permits, settings) - needing
    assert "dual-copies" in chosen(without, named)


def test_an_exact_method_is_reference_enough() -> None:
    """Nothing is added where one of the methods can prove."""
    rows = moeopt.gap(INSTANCES[:1], ["milp", "greedy"])
    assert [row.method for row in rows] == ["milp", "greedy"]


def test_without_a_proof_there_is_no_excess() -> None:
    """Only its upper limit is known, from the bound."""
    from tests.solvers.test_statuses import partition

    rows = moeopt.gap([partition()], ["klotski"], time_limit_s=0.5)
    for row in rows:
        assert (row.optimum, row.excess) == (None, None)
        assert row.excess_at_most is not None
    [klotski, _] = rows.summary().itertuples()
    assert klotski.proven == 0
    assert isnan(klotski.excess_median)
    assert isnan(klotski.optimal)


def test_folders_are_families(tmp_path: Path) -> None:
    """Instances below a folder are found in order; indexes and solutions are not instances."""
    for family in ("b", "a", "solutions/a"):
        (tmp_path / family).mkdir(parents=True)
        moeopt.save(INSTANCES[0], tmp_path / family / "x.json")
    (tmp_path / "a" / "x.solution.json").write_text("{}")
    (tmp_path / "a" / "residency-solution.json").write_text("{}")
    (tmp_path / "index.json").write_text("{}")
    (tmp_path / "best_known.json").write_text("{}")
    rows = moeopt.gap([tmp_path], ["greedy"])
    assert [row.family for row in rows] == ["a", "a", "b", "b"]


def test_statistics_by_hand() -> None:
    """Median, extremes and share optimal are those of the rows."""
    rows = moeopt.gap(INSTANCES, ["trimoe"])
    [summary, exact] = rows.summary().itertuples()
    excesses = [row.excess for row in rows if row.method == "trimoe"]
    assert summary.excess_median == median(excesses)  # type: ignore[type-var]
    assert (summary.excess_min, summary.excess_max) == (min(excesses), max(excesses))  # type: ignore[type-var]
    assert summary.optimal == sum(e == 0 for e in excesses) / 6
    assert sum(summary.bottlenecks.values()) == summary.instances == 6
    assert (exact.optimal, exact.excess_max) == (1.0, 0.0)


def test_csv_and_markdown_hold_every_row() -> None:
    """The CSV has full precision, the Markdown one line per family and method."""
    rows = moeopt.gap(INSTANCES[:2], ["trimoe"])
    table = list(csv.DictReader(StringIO(to_csv(rows.frame))))
    assert [line["method"] for line in table] == ["trimoe", "threshold"] * 2
    assert float(table[0]["excess"]) == rows[0].excess
    assert table[0]["bound"] == ""
    assert table[1]["bottleneck"] in {"gpu", "cpu", "dimm"}
    head, _, exact, trimoe = to_markdown(summarise(rows.frame)).splitlines()
    assert head.startswith(
        "| family | method | information | instances | samples | median | 95 % |"
    )
    assert exact.startswith("| - | `threshold` |  | 2 | 2 | 0 % | - | 0 % | 100 % | ")
    assert trimoe.startswith("| - | `trimoe` | current loads | 2 | 2 | ")


def test_percent_of_unknown_is_a_dash() -> None:
    """Unknown is never 0."""
    assert (percent(None), percent(0.0), percent(1.234)) == ("-", "0.0 %", "123.4 %")


def test_a_method_that_does_not_exist_is_named() -> None:
    """Before anything is solved."""
    with pytest.raises(moeopt.InputError, match="method: 'best' is unknown"):
        moeopt.gap(INSTANCES, ["best"])


def test_ctrl_c_keeps_what_was_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows so far come back; the solves after the interruption are not made."""
    from tests.rooms.study import attempt_module as attempt

    solved: list[str] = []

    def interrupt_third(instance: object, name: str, **options: object) -> object:
        if len(solved) == 2:
            raise KeyboardInterrupt
        solved.append(name)
        return moeopt.solve(instance, name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(attempt, "solve", interrupt_third)
    rows = moeopt.gap(INSTANCES, ["greedy", "klotski"])
    assert [row.method for row in rows] == ["greedy", "klotski"]


def test_an_interrupted_solve_ends_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its best so far is the last row; as Ctrl-C during a solver leaves it."""
    from dataclasses import replace

    from tests.rooms.study import attempt_module as attempt

    def interrupted(instance: object, name: str, **options: object) -> object:
        return replace(moeopt.solve(instance, name, **options), termination="interrupted")  # type: ignore[arg-type]

    monkeypatch.setattr(attempt, "solve", interrupted)
    [row] = moeopt.gap(INSTANCES, ["greedy", "klotski"])
    assert (row.method, row.termination) == ("greedy", "interrupted")


def test_what_was_stored_when_ctrl_c_came_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal waits while SQLite commits and the result is told, and then ends the campaign."""
    from tests.rooms.study import Store, Watch, run_campaign

    told: list[str] = []

    class Counting(Watch):
        def solved(self, job: Job, record: object) -> None:
            told.append(job.method)

    def add(self: Store, record: SolveRecord) -> None:
        kept(self, record)
        if len(told) == 2:
            signal.raise_signal(signal.SIGINT)

    kept = Store.add
    monkeypatch.setattr(Store, "add", add)
    settings = make_settings(["greedy", "klotski"], [1], [0], 1)
    rows = run_campaign(Campaign([Part(INSTANCES, settings)]), watch=Counting())
    assert list(rows.method) == told
    assert len(rows) == 3
