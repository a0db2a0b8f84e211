"""What `moeopt.gap` returns: rows, a pandas frame, LaTeX, HTML and a figure."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import moeopt
from tests.problems.deferral.random_schedules import random_instance as random_deferral
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.study import GapTable
from tests.study.rows_made import made, made_row

EVIL = "a_b & <b>50 %</b> \x1b[31m"


@pytest.fixture(scope="module")
def table() -> GapTable:
    """Return two methods on three instances, each with its proof."""
    instances = [random_instance(seed) for seed in range(3)]
    return moeopt.gap(instances, ["greedy", "trimoe", "threshold"])


def test_a_table_is_a_sequence_of_rows(table: GapTable) -> None:
    """Columns are attributes; what is unknown is None, and what does not exist says what does."""
    assert len(table) == len(list(table)) == 9
    assert [row.method for row in table[:3]] == ["greedy", "trimoe", "threshold"]
    assert table[-1].excess == 0.0
    assert table[0] == next(iter(table))
    assert table[0].work_limit is None
    with pytest.raises(AttributeError, match="a row has no 'result'; it has family, key"):
        _ = table[0].result


def test_the_frame_has_a_column_for_each_entry() -> None:
    """Objectives are integers, absent ones NA; excess is a number."""
    frame = moeopt.gap(random_deferral(3), ["saturate"]).to_frame()
    assert list(frame.objective_1.notna()) == [True] * len(frame)
    assert frame.objective_0.dtype == frame.bound_1.dtype == pd.Int64Dtype()
    first = frame.optimum_0[0]
    assert frame.excess[0] == (frame.objective_0[0] - first) / first
    assert frame.index.equals(pd.RangeIndex(len(frame)))


def test_summaries_agree_with_pandas(table: GapTable) -> None:
    """A row for each method: median and maximum as pandas has them, of the frame."""
    by_hand = table.to_frame().groupby("method", sort=False).excess.agg(["median", "max"])
    found = table.summary().set_index("method")
    assert list(found.excess_median) == pytest.approx(list(by_hand["median"]))
    assert list(found.excess_max) == pytest.approx(list(by_hand["max"]))
    assert len(table.summary(["problem", "method", "seed"])) == 3


def test_people_can_read_it(table: GapTable) -> None:
    """In a terminal of 80 columns, and in a notebook."""
    text = repr(table)
    head, heads, *lines = text.splitlines()
    assert head == "GapTable: 9 solves of 3 instances, excess over the optimum"
    assert heads.split() == ["family", "method", "optimal", "median", "95", "%", "max"]
    assert len(lines) == 3
    assert max(map(len, text.splitlines())) <= 80
    assert table._repr_html_().count("<tr>") == 3
    assert repr(table[-1]).endswith("threshold: optimal, 0.0 % above the optimum)")


def test_names_are_text_everywhere() -> None:
    """A store may hold any."""
    table = GapTable(made([made_row(EVIL, EVIL, 12, 10, family=EVIL)]))
    latex = table.to_latex()
    assert r"a\_b \& <b>50 \%</b> ?[31m & a\_b" in latex
    for text in (latex, repr(table), repr(table[0]), table._repr_html_()):
        assert "\x1b" not in text
    assert "<b>" not in table._repr_html_()


def test_a_table_of_nothing() -> None:
    """After Ctrl-C before the first solve."""
    table = GapTable(made([]))
    assert (len(table), len(table.to_frame()), len(table.summary())) == (0, 0, 0)
    assert repr(table).startswith("GapTable: 0 solves of 0 instances")


def test_it_is_drawn(table: GapTable) -> None:
    """A line for each heuristic."""
    [axis] = table.plot().axes
    assert [text.get_text() for text in axis.get_yticklabels()] == ["greedy", "trimoe"]


def test_a_path_is_as_good_as_what_it_holds(tmp_path: Path) -> None:
    """Of an instance, a solution, a folder and a trace."""
    instance, file = random_instance(0), str(tmp_path / "i.json")
    moeopt.save(instance, file)
    result = moeopt.solve(file)
    assert result.objective == moeopt.solve(instance).objective
    moeopt.save(result.solution, tmp_path / "s.json")
    assert moeopt.check(file, tmp_path / "s.json").objective == result.objective
    assert moeopt.methods(file) == moeopt.methods(instance) == moeopt.methods("tri_domain")
    assert moeopt.explain(file, solution=str(tmp_path / "s.json")).status == "optimal"
    assert moeopt.event_graph(file, tmp_path / "s.json").graph["objective"] == result.objective
    (tmp_path / "family").mkdir()
    moeopt.save(instance, tmp_path / "family" / "i.json")
    assert moeopt.gap(str(tmp_path / "family"), ["greedy"])[0].family == "family"
    alone, read = moeopt.gap(instance, ["greedy"]), moeopt.gap(file, ["greedy"])
    assert alone[0].objective == read[0].objective


def test_a_result_draws_its_schedule() -> None:
    """The instance need not be given again; without a solution or a schedule one line says so."""
    result = moeopt.solve(random_instance(0), "greedy")
    [axis] = result.plot().axes
    assert axis.get_title("left").startswith("greedy on ")
    assert "solved" not in result.to_dict()
    limited = moeopt.solve(random_instance(0), "cp-sat", time_limit_s=1e-9)
    with pytest.raises(moeopt.InputError, match="plot: the result has no solution"):
        limited.plot()


FRAMES: dict[str, Any] = {
    "tri_domain/esft-window/window-law-layer4-batch256.json": (64, ["expert", "tokens"]),
    "layout/esft-first-later/law-layer4-window0.json": (64, ["scenario", "entry"]),
    "cache/esft-further/esft-intent-slots416-from2000.json.gz": (7800, ["axis_0", "axis_1"]),
    "bitwidth/coarse-free/deepseek-v2-lite-width-per-expert.json.gz": (1664, ["layer"]),
}


@pytest.mark.parametrize("name", FRAMES)
def test_an_instance_is_a_frame(name: str, root: Path) -> None:
    """A row per expert, or per entry of nested lists."""
    instance = moeopt.load(root / "instances" / name)
    frame, (rows, heads) = instance.to_frame(), FRAMES[name]
    assert len(frame) == rows
    assert list(frame.columns)[: len(heads)] == heads
    assert all(pd.api.types.is_scalar(value) for value in frame.iloc[0])
    with pytest.raises(moeopt.InputError, match="table: 'tokns' is unknown"):
        instance.to_frame("tokns")
