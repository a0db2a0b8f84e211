"""The comparison of two runs of the library notices every loss, and no other change is a fault."""

from dataclasses import replace
from pathlib import Path

import pytest

import moeopt
from benchmarks.studies.library_results import Results, Row, compare, faults, solved, write

FILE = "deferral/batch/deepseek-v3-int4-batch2.json"
PROVEN = Row("layout/a/x.json", "bound-and-pack", "optimal", "own", (10,), (10,), 0.5, 0.1)
OPEN = Row("layout/a/y.json", "bound-and-pack", "feasible", "own", (12,), (9,), 2.0, 0.1)
RULE = Row("layout/a/x.json", "lpt", "feasible", "", (13,), (), 0.0, 0.1)


def results(*rows: Row, **hashes: str) -> Results:
    """Return a run of these rows; ``x="..."`` is the hash of one instance."""
    return Results(
        {row.key: row for row in rows},
        {"layout/a/x.json": "1", "layout/a/y.json": "2"}
        | {f"layout/a/{name}.json": value for name, value in hashes.items()},
    )


@pytest.mark.parametrize(
    ("was", "now", "what"),
    [
        (PROVEN, PROVEN._replace(status="feasible", proof="single"), "lost proof"),
        (PROVEN, PROVEN._replace(status="feasible", bound=(9,)), "lost proof"),
        (PROVEN, PROVEN._replace(proof="confirmed"), "weaker proof"),
        (PROVEN, PROVEN._replace(objective=(11,), bound=(11,)), "contradict"),
        (PROVEN, PROVEN._replace(status="infeasible", objective=(), bound=()), "contradict"),
        (OPEN, OPEN._replace(bound=(8,)), "worse bound"),
        (OPEN, OPEN._replace(bound=()), "worse bound"),
        (OPEN, OPEN._replace(objective=(13,)), "worse objective"),
        (OPEN, OPEN._replace(status="unknown", objective=()), "worse objective"),
        (RULE, RULE._replace(objective=(14,)), "heuristic's objective"),
        (RULE, RULE._replace(objective=(12,)), "heuristic's objective"),
        (RULE, RULE._replace(status="refused", objective=()), "refused"),
    ],
)
def test_a_loss_is_a_fault(was: Row, now: Row, what: str) -> None:
    """Status, proof, objective and bound, of open and closed ones; of heuristics any change."""
    found = faults(results(was), results(now))
    assert any(what in str(fault) for fault in found)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (PROVEN, PROVEN._replace(cpu_s=9.0, work=1.9)),
        (OPEN, OPEN._replace(objective=(11,), bound=(10,))),
        (OPEN, OPEN._replace(status="optimal", objective=(11,), bound=(11,))),
        (OPEN._replace(proof="confirmed"), OPEN),
    ],
)
def test_time_and_what_is_better_are_no_faults(was: Row, now: Row) -> None:
    """Better values of an open instance are listed, and nothing is asked of them."""
    assert not faults(results(was), results(now))


def test_a_row_on_one_side_and_another_file_are_faults() -> None:
    """A method that is gone, a new one, and an instance whose file has changed."""
    before, after = results(PROVEN, RULE), results(PROVEN, OPEN, x="other")
    assert [fault.what for fault in faults(before, after)] == [
        "the instance's file has changed",
        "row only before",
        "row only after",
    ]


def test_a_reason_covers_what_it_names_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    """It covers a fault once; one that covers nothing is a fault itself."""
    before, after = results(PROVEN, RULE), results(PROVEN, RULE._replace(objective=(14,)))
    reason = {"rows": "layout/a/*", "method": "lpt", "reason": "it breaks ties by number now"}
    assert compare(before, after) == 1
    assert compare(before, after, [reason]) == 0
    assert "1 differences with a reason: layout/a/* lpt: it breaks ties" in capsys.readouterr().out
    assert compare(before, after, [{**reason, "method": "trimoe"}]) == 2
    assert compare(before, before, [reason]) == 1


def test_nothing_is_not_taken_for_no_difference(tmp_path: Path) -> None:
    """A folder without a whole run, and runs of different limits, are refused."""
    (tmp_path / "about.json").write_text('{"instances": {}, "work_limit": 2}')
    with pytest.raises(moeopt.InputError, match="holds no whole run"):
        Results.read(tmp_path)
    with pytest.raises(moeopt.InputError, match="different limits: 2 and 1 units"):
        compare(results(PROVEN), replace(results(PROVEN), work_limit=1.0))


def test_what_is_written_is_read_again_and_is_the_same_twice(tmp_path: Path) -> None:
    """One instance, solved in two runs: no difference, and no column is lost."""
    for run in ("one", "two"):
        write(tmp_path / run, [FILE], 0.05, 1)
    one, two = (Results.read(tmp_path / run) for run in ("one", "two"))
    assert not faults(one, two)
    made = {row.key: row for row in solved(FILE, 0.05)}
    assert made.keys() == one.rows.keys()
    assert {row.status for row in made.values()} >= {"optimal", "feasible"}
    for key, row in one.rows.items():
        assert row[:6] == made[key][:6]
    assert one.instances.keys() == {FILE}
