"""CSV and Parquet: every number, with its type, as in the rows."""

import csv
import json
import sys
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

import moeopt
from tests.problems.deferral.random_schedules import random_instance as random_deferral
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.study import (
    COLUMNS,
    Campaign,
    GapTable,
    Part,
    Settings,
    export_csv,
    export_parquet,
    run_campaign,
    summarise,
)
from tests.rooms.study import rows_to_csv as to_csv
from tests.rooms.study import table_to_markdown as to_markdown
from tests.study.rows_made import made, made_row


@pytest.fixture(scope="module")
def rows() -> GapTable:
    """Return solves of a problem with one objective and of one with two."""
    first, second = Settings(methods=("greedy", "trimoe")), Settings(methods=("saturate",))
    parts = [Part([random_instance(4, experts=7)], first), Part([random_deferral(3)], second)]
    return GapTable(run_campaign(Campaign(parts)))


def test_a_failed_solve_is_a_cell() -> None:
    """Its share counts neither as excess nor as optimal; the tables say how many there are."""
    failed = made_row("rule", "b", None, 10, status="failed", failure="rule")
    rows = made([made_row("rule", "a", 15, 10), failed])
    [summary] = summarise(rows).itertuples()
    assert (summary.failed, summary.instances, summary.excess_max) == (1, 2, 0.5)
    assert summary.seconds_median == 0.5
    assert (
        to_markdown(summarise(rows))
        .splitlines()[2]
        .endswith("| `rule` |  | 2 | 1 | 50 % | - | 50 % | 0 % | 1 |")
    )
    assert (
        to_markdown(summarise(made([failed])))
        .splitlines()[2]
        .endswith("| 1 | 0 | - | - | - | - | 1 |")
    )
    assert "b,rule,,failed" in to_csv(rows)


def test_parquet_has_types_and_every_number(rows: GapTable, tmp_path: Path) -> None:
    """Objectives are lists of integers, unknown is null, JSON columns can be parsed."""
    export_parquet(rows.frame, tmp_path / "rows.parquet")
    table = parquet.read_table(tmp_path / "rows.parquet")
    assert table.column_names == list(COLUMNS)
    assert str(table.schema.field("objective").type).startswith("list<")
    for record, row in zip(table.to_pylist(), rows, strict=True):
        objective = row.objective
        expected = list(objective) if isinstance(objective, tuple) else [objective]
        assert record["objective"] == expected
        assert (record["bound"] is None) == (row.bound is None)
        assert (record["excess"], record["solve_s"]) == (row.excess, row.solve_s)
        assert (record["instance_hash"], record["seed"]) == (row.instance_hash, 0)
        assert json.loads(record["facts"]) == row.facts | {
            "cell": row.tag_cell,
            "cluster": row.tag_cluster,
            "settled": row.tag_settled,
        }
        assert len(json.loads(record["trace"])) == len(row.trace)


def test_csv_has_the_same_columns(rows: GapTable, tmp_path: Path) -> None:
    """Full precision, empty for unknown, a lexicographic objective's entries with a blank."""
    export_csv(rows.frame, tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open() as stream:
        table = list(csv.DictReader(stream))
    assert list(table[0]) == list(COLUMNS)
    for record, row in zip(table, rows, strict=True):
        objective = row.objective
        assert record["excess"] == ("" if row.excess is None else str(row.excess))
        expected = objective if isinstance(objective, tuple) else (objective,)
        assert tuple(map(int, record["objective"].split())) == expected


def test_no_rows_are_a_table_without_rows(tmp_path: Path) -> None:
    """Columns and types are there."""
    export_parquet(made([]), tmp_path / "rows.parquet")
    export_csv(made([]), tmp_path / "rows.csv")
    assert parquet.read_table(tmp_path / "rows.parquet").column_names == list(COLUMNS)
    assert (tmp_path / "rows.csv").read_text().split(",")[0] == "problem"


def test_without_pyarrow_the_extra_is_named(
    rows: GapTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line; nothing is written."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(moeopt.InputError, match=r"Parquet needs pyarrow \(pip install pyarrow\)"):
        export_parquet(rows.frame, tmp_path / "rows.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(rows: GapTable, tmp_path: Path) -> None:
    """One line with the file."""
    with pytest.raises(moeopt.InputError, match=r"rows\.csv: cannot be written: No such file"):
        export_csv(rows.frame, tmp_path / "nowhere" / "rows.csv")


def test_several_limits_are_told_apart() -> None:
    """In the tables and in gap.csv; with one limit nothing is said of it."""
    settings = Settings(methods=("greedy", "threshold"), time_limits_s=(1, 20), seeds=(0, 1))
    rows = run_campaign(Campaign([Part([random_instance(0)], settings)]))
    assert [(s.method, s.instances) for s in summarise(rows).itertuples()] == [
        (f"{method} {limit} s", 1) for limit in (1, 20) for method in ("greedy", "threshold")
    ]
    assert "time_limit_s" in to_csv(rows).splitlines()[0]
    assert "time_limit_s" not in to_csv(rows.iloc[:4]).splitlines()[0]


def test_families_of_one_name_stay_apart(rows: GapTable) -> None:
    """Two problems may have a family of the same name: each has tables under its own heading."""
    lines = to_markdown(summarise(rows.frame)).splitlines()
    headings = [line for line in lines if line.startswith("###")]
    assert headings == ["### tri_domain", "### deferral"]
    first, second = (lines.index(heading) for heading in headings)
    for begin, method, other in ((first, "greedy", "saturate"), (second, "saturate", "greedy")):
        end = second if begin == first else len(lines)
        table = lines[begin:end]
        assert any(line.startswith(f"| - | `{method}` |") for line in table)
        assert not any(f"`{other}`" in line for line in table)
