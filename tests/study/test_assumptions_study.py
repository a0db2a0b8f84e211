"""Excess under every reading of an assumption, one at a time."""

import json
from pathlib import Path

import pytest

import moeopt
from formulations.assumptions import with_assumptions
from tests.rooms.cli import run
from tests.rooms.core import Assumption
from tests.rooms.problems import PROBLEMS
from tests.rooms.study import assume, sensitivity, strongest
from tests.rooms.study import assumptions as study
from tests.rooms.study import assumptions_to_csv as to_csv
from tests.rooms.study import assumptions_to_markdown as to_markdown
from tests.rooms.tri_domain import Instance
from tests.study.html_read import read_html, tables


@pytest.fixture
def tied() -> Instance:
    """Expert 1 costs GPU and CPU the same; which of the two is taken decides the makespan."""
    return Instance.from_arrays(
        name="tied",
        gpu_ns=[10, 20],
        cpu_ns=[99, 20],
        ndp_ns=[-1, -1],
        dimm=[-1, -1],
        gpu_dram_ns=[0, 0],
        cpu_dram_ns=[0, 0],
        dimms=1,
    )


def test_every_value_of_a_rules_assumption_is_a_row(tied: Instance) -> None:
    readings = sensitivity([tied], ["greedy"])
    ties = {r.value: r for r in readings if r.assumption.name == "tie_order"}
    assert {"cpu", "gpu"} <= set(ties)
    assert ties["cpu"].summary.excess_median == 0.0
    assert ties["gpu"].summary.excess_median == 0.5  # 30 ns on the GPU against 20 ns
    text = to_markdown(readings)
    assert "| tri_domain | tie_order | cpu (default) | greedy | 1 | 1 | 1 | 0.0 % |" in text
    assert "moved most by `tie_order`" in text
    assert "tri_domain,tie_order,gpu,0,greedy,0,1,1,0.0,0.5,0.5,0.5" in to_csv(readings)
    assert strongest(readings) == {("tri_domain", "greedy"): ("tie_order", 0.0, 0.5)}


def test_an_instance_assumption_makes_the_instances_again(
    tied: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With half the DRAM charge, say: here, expert 0 gets faster on the CPU."""

    def remade(instance: Instance, name: str, value: str) -> Instance | None:
        assert name == "speed"
        if value == "unknown":
            return None
        if value == "usual":
            return instance
        experts = (instance.experts[0].model_copy(update={"cpu_ns": 5}), instance.experts[1])
        return instance.model_copy(update={"experts": experts, "name": value})

    values = {"usual": "as it is", "fast": "a faster CPU", "unknown": "cannot be made"}
    speed = Assumption("speed", "How fast?", "", "nowhere", values, "usual", "because")
    problem = study.get_problem("tri_domain")
    monkeypatch.setattr(type(problem), "assumptions", lambda self: (speed,))
    monkeypatch.setattr(type(problem), "assume", lambda self, *asked: remade(*asked))
    told = tied.model_copy(update={"provenance": {"options": {"speed": "usual"}}})
    assert assume(told, "speed", "usual") is told
    readings = sensitivity([told, tied.model_copy(update={"name": "other"})], ["greedy"])
    assert [r.value for r in readings] == ["usual", "fast"]
    assert [r.skipped for r in readings] == [0, 0]
    assert [r.summary.excess_median for r in readings] == [0.0, 0.25]


def test_what_is_no_heuristic_is_refused(tied: Instance) -> None:
    with pytest.raises(moeopt.InputError, match="'threshold' is no heuristic of tri_domain"):
        sensitivity([tied], ["threshold"])


def test_the_command_prints_the_table(
    tied: Instance, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moeopt.save(tied, tmp_path / "tied.json")
    command = ["sensitivity", str(tmp_path / "tied.json"), "--methods", "greedy"]
    assert run([*command, "--markdown", "--csv", str(tmp_path / "s.csv")]) == 0
    line = "| tri_domain | tie_order | gpu | greedy | 1 | 1 | 1 | 50.0 % |"
    assert line in capsys.readouterr().out
    assert "tie_order" in (tmp_path / "s.csv").read_text()
    assert run(command) == 0
    assert "one assumption at a time" in capsys.readouterr().out
    assert run([*command, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [row] = [row for row in rows if (row["assumption"], row["value"]) == ("tie_order", "gpu")]
    assert (row["method"], row["excess_median"], row["schema_version"]) == ("greedy", 0.5, 2)


def test_the_specifications_have_the_assumptions() -> None:
    for problem in PROBLEMS:
        now, right = with_assumptions(problem)
        assert now == right, f"{problem}: python formulations/assumptions.py --write"


@pytest.mark.usefixtures("undrawn")
def test_the_report_has_the_range_as_a_column(tied: Instance, tmp_path: Path) -> None:
    """Of the rules that take an assumption, beside the figure under the defaults."""
    moeopt.save(tied, tmp_path / "tied.json")
    files = [str(tmp_path / name) for name in ("tied.json", "r")]
    options = ["--methods", "greedy", "--report", files[1]]
    assert run(["sensitivity", files[0], *options]) == 0
    page = read_html((tmp_path / "r" / "index.html").read_text())
    heads, *rows = tables(page)[0]
    [greedy] = [row for row in rows if row[0] == "greedy"]
    assert heads[6] == "median over assumptions"
    assert (greedy[0], greedy[2], greedy[6]) == ("greedy", "0.0 %", "0.0 % to 50.0 %")
    assert "moeopt sensitivity" in page.text
