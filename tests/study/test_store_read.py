"""A campaign's store as a stranger reads it: SQLite and pandas, nothing of ours."""

import json
import sqlite3
from pathlib import Path

import pandas as pd

import moeopt
from tests.problems.deferral.random_schedules import random_instance as random_deferral
from tests.problems.tri_domain.random_instances import random_instance


def test_pandas_reads_a_store(tmp_path: Path) -> None:
    """A row per solve, failed ones too; objectives are integers, the decision is JSON."""

    def fails(instance: object) -> None:
        raise ValueError("of mine")

    file = tmp_path / "s.db"
    instances = [random_instance(0), random_deferral(3)]
    table = moeopt.gap(instances, ["heuristics", fails], store=file)
    connection = sqlite3.connect(file)
    read = pd.read_sql("SELECT * FROM solve", connection).set_index("key")
    tags = pd.read_sql("SELECT * FROM member", connection)
    connection.close()
    assert len(read) == len(table)
    for row in table:
        kept = read.loc[row.key]
        first = row.objective[0] if isinstance(row.objective, tuple) else row.objective
        assert (kept.method, kept.status) == (row.method, row.status)
        assert kept.objective_0 == first or (first is None and pd.isna(kept.objective_0))
        if row.solution is not None:
            assert json.loads(kept.solution)["instance"] == row.instance
    failed = read[read.status == "failed"]
    assert set(failed.failure) == {"rule"}
    assert failed.raw_status.str.contains("of mine").all()
    assert [set(json.loads(text)) for text in tags.tags] == [{"cell", "cluster", "settled"}] * 2
