"""Tables of rules: what they knew and how instances were made is never mixed."""

import numpy as np
import pytest

import moeopt
from tests.rooms.core import HINDSIGHT, THIS_STEP, interval
from tests.rooms.study import front_markdown, split_by, standings, summarise, tags_of
from tests.rooms.study import table_to_markdown as to_markdown
from tests.study.rows_made import Made, made, made_row

FILE = "instances/tri_domain/esft-window/window-law-layer4-batch256.json"


def row(method: str, instance: str, objective: int, knew: str = "", **tags: str) -> Made:
    """Return a row over an optimum of 10."""
    facts = {"knew": knew} if knew else {}
    return made_row(method, instance, objective, 10, tags=tags, facts=facts)


def test_information_and_assumptions_are_never_mixed() -> None:
    """One median each, and the table has a line for each."""
    rows = [
        row("trimoe", "a", 11, knew=THIS_STEP, cell="x", cluster="x"),
        row("trimoe", "b", 20, knew=HINDSIGHT, cell="x", cluster="x"),
        row("trimoe", "c", 30, knew=THIS_STEP, cell="y", cluster="y", settled="cold_cut=0.7"),
        row("trimoe", "d", 40, knew=THIS_STEP, cell="y", cluster="y", settled="cold_cut=0.7"),
    ]
    columns = ["kind", "assumed", "instances", "cells", "excess_median"]
    solves = made(rows)
    assert [tuple(one) for one in summarise(solves)[columns].to_numpy()] == [
        ("step", False, 1, 1, pytest.approx(0.1)),
        ("hindsight", False, 1, 1, 1.0),
        ("step", True, 2, 1, 2.5),
    ]
    step, hindsight = front_markdown(standings(solves)).splitlines()[2:]
    assert step.split(" | ")[2:6] == ["current loads", "1", "1", "10.0 %"]
    assert step.endswith("| 2 | 1 | 250.0 % | - | 300.0 % |")
    assert hindsight.endswith("| - | - | - | - | - |")
    assert [line.split(" | ")[:3] for line in to_markdown(summarise(solves)).splitlines()[2:5]] == [
        ["| made", "`trimoe`", THIS_STEP],
        ["| made \\*", "`trimoe`", THIS_STEP],
        ["| made", "`trimoe`", HINDSIGHT],
    ]


def test_draws_of_a_law_are_told_from_cells_of_traces() -> None:
    """In both tables, so that nobody takes a law for a trace."""
    cells = ("law.npz layer 4", "workload olmoe m seed 0", "workload olmoe m seed 0")
    rows = [row("trimoe", str(n), 11, knew=THIS_STEP, cell=cell) for n, cell in enumerate(cells)]
    solves = made(rows)
    assert (" | 3 | 2, 1 law | " in front_markdown(standings(solves))) is True
    assert f"| {THIS_STEP} | 3 | 2, 1 law | " in to_markdown(summarise(solves))
    assert "law" not in to_markdown(summarise(made(rows[:1])))


def test_families_are_split_by_a_fact() -> None:
    """By number; what has no such fact stays as it is."""
    rows = [row("trimoe", str(n), 11, batch=str(n)) for n in (512, 64, 64)]
    found = split_by(made([row("trimoe", "x", 12), *rows]), "batch")
    assert list(found.family) == [
        *["made, batch 64"] * 2, "made, batch 512", "made"
    ]  # fmt: skip


def test_experiments_under_a_second_name_count_once() -> None:
    """Unless a problem has no others."""
    rows = [row("trimoe", "a", 11, knew=THIS_STEP), row("trimoe", "b", 20, repeats="qwen")]
    assert list(standings(made(rows)).instances) == [1]
    assert len(standings(made(rows[1:]))) == 1


def test_the_interval_draws_whole_clusters() -> None:
    """However many instances a trace has; none for two traces."""
    assert interval([0.1, 0.2], ["x", "y"]) is None
    many = [0.1] * 100 + [0.5, 0.9]
    assert interval(many, ["x"] * 100 + ["y", "z"]) == (0.1, 0.9)
    assert interval([0.1 * n for n in range(102)], [str(n) for n in range(102)]) == (
        pytest.approx(4.1, abs=0.3),  # order statistics: ranks 41 and 61 of 102
        pytest.approx(6.1, abs=0.3),
    )
    assert interval([0.3] * 9, list("abcabcabc")) == (0.3, 0.3)


@pytest.mark.parametrize("n", [9, 20, pytest.param(60, marks=pytest.mark.slow)])
def test_the_interval_holds_the_median_as_often_as_it_says(n: int) -> None:
    """Of a skew distribution, in about 95 % of 400 samples, however often a trace was looked at."""
    rng = np.random.default_rng(n)
    names = [str(k) for k in range(n)]
    samples = rng.exponential(size=(400, n))
    found = [interval(list(sample), names) for sample in samples]
    inside = [low <= np.log(2) <= high for low, high in filter(None, found)]
    assert len(inside) == 400
    assert 0.9 < np.mean(inside) < 0.99
    assert interval(list(np.repeat(samples[0], 3)), list(np.repeat(names, 3))) == found[0]


def test_an_instance_says_its_cell_and_what_is_not_default() -> None:
    """The layer of its trace; nothing is known of an instance without provenance."""
    instance = moeopt.load(FILE)
    found = tags_of(instance)
    assert found["cell"] == "esft_deepseek_v2_lite/law.npz layer 4"
    assert found["cluster"] == "esft_deepseek_v2_lite/law.npz"
    assert found["settled"].startswith("cold_cut=experts 0.7, layout_from=last step")
    assert found["batch"] == "256"
    bare = instance.model_copy(update={"provenance": {"trace": 3, "options": []}})
    assert tags_of(bare) == {"cell": bare.name, "cluster": bare.name, "settled": ""}
