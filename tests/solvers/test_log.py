"""The log: a line for each phase, engines' parameters and claims, and nothing printed."""

import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

import moeopt
from tests.planner.small_plans import planned_for
from tests.rooms.cli import run

FILE = "instances/tri_domain/esft-window/window-law-layer4-batch256.json"


def lines(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    """Return what the package has logged at a level, and forget it; each is one line."""
    records = [one for one in caplog.records if one.levelno == level]
    assert all(one.name.startswith("moeopt.") for one in records)
    said = [one.getMessage() for one in records]
    assert not any("\n" in line for line in said)
    return said


def holds(said: list[str], *patterns: str) -> None:
    """Find a line for each pattern, in this order."""
    left = iter(said)
    for pattern in patterns:
        assert any(re.search(pattern, line) for line in left), (pattern, said)


@pytest.mark.parametrize(
    ("method", "engine", "parameters", "claims"),
    [
        ("cp-sat", "cp-sat", "presolve_inclusion_work_limit: 0.*", "optimal, bound 793"),
        ("milp", "highs", "mip_feasibility_tolerance.*", "optimal, bound 79.3"),
    ],
)
def test_a_solve_logs_its_phases(
    method: str,
    engine: str,
    parameters: str,
    claims: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """INFO: reading, heuristic, engine with incumbent and bound, verification; DEBUG the rest."""
    with caplog.at_level(logging.DEBUG, "moeopt"):
        result = moeopt.solve(moeopt.load(FILE), method)
    assert result.status == "optimal"
    holds(
        lines(caplog, logging.INFO),
        f"{FILE}: read, tri_domain instance",
        "starting heuristic starts",
        "starting heuristic ends: objective 5270000, combinatorial bound 3540000",
        f"{method} starts, .* s left",
        rf"{method} ends \({engine}\): incumbent 3965000, bound 396[45]\d{{3}},",
        "verified: optimal, objective 3965000, bound 3965000, proof confirmed",
    )
    said = lines(caplog, logging.DEBUG)
    holds(said, f"parameters .*{parameters}", f"claims: {claims}", "claim: cp-sat .*nothing below")
    assert capfd.readouterr() == ("", "")


def test_own_methods_and_heuristics(caplog: pytest.LogCaptureFixture) -> None:
    """Each starts and ends; a user's by its name."""
    instance = moeopt.load(FILE)
    with caplog.at_level(logging.INFO, "moeopt"):
        moeopt.solve(instance)
        moeopt.solve(instance, "greedy")
    holds(lines(caplog, logging.INFO), r"ends \(own\): incumbent 3965000", "greedy ends: HEURISTIC")
    assert lines(caplog, logging.DEBUG) == []


def test_a_campaign_logs_each_solve(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """With what failed."""

    def fails(instance: object) -> object:
        raise ValueError("of mine")

    with caplog.at_level(logging.INFO, "moeopt"):
        moeopt.gap([FILE], ["trimoe", fails], prove_again=True)
    holds(
        lines(caplog, logging.INFO),
        "campaign: 3 solves, of which 0 are stored",
        "1 of 3: .*, trimoe: feasible, objective 5270000",
        "2 of 3: .*fails: failed: raised ValueError: of mine",
        "3 of 3: .*: optimal, objective 3965000, bound 3965000",
    )
    assert capfd.readouterr() == ("", "")


def test_plans_and_predictions_log_their_phases(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """What fits, what was decided, what came of it."""
    with caplog.at_level(logging.INFO, "moeopt"):
        planned_for()
        moeopt.predict("rtx4090+epyc-9004", "glm-4.5-air", bits="Q4_K_M", context=4096)
    holds(
        lines(caplog, logging.INFO),
        "plan for .* it can fit",
        r"candidates decided one by one, the best [\d.]+ ms",
        "plans executed on held-out steps",
        "glm-4.5-air on rtx4090.*: memory: GPU memory: ",
        "glm-4.5-air on rtx4090.*: predicted: .* tokens/s",
    )
    assert capfd.readouterr() == ("", "")


def test_the_package_is_silent_by_itself() -> None:
    """A null handler is there from the first logger on; importing the package imports no log."""
    source = (
        "import sys, moeopt; print('logging' in sys.modules)\n"
        f"moeopt.solve(moeopt.load({FILE!r}), 'greedy')\n"
        "handlers = sys.modules['logging'].getLogger('moeopt').handlers\n"
        "print([type(one).__name__ for one in handlers])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("False\n['NullHandler']\n", "")


@pytest.mark.parametrize(
    ("level", "least", "code"),
    [pytest.param("info", 3, 0, marks=pytest.mark.slow), ("DEBUG", 5, 0), ("x", 1, 2)],
)
def test_the_command_line_shows_it_on_request(
    level: str, least: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By MOEOPT_LOG, on stderr; results stay on stdout."""
    monkeypatch.setenv("MOEOPT_LOG", level)
    command = [sys.executable, "-m", "moeopt", "solve", FILE, "--method", "cp-sat"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert len(done.stderr.splitlines()) >= least
    assert ("parameters" in done.stderr) == (level == "DEBUG")
    if code:
        assert done.stderr == 'moeopt: error: MOEOPT_LOG: must be INFO or DEBUG, not "x"\n'
    else:
        assert done.stdout.startswith("window-law-layer4-batch256: tri_domain, cp-sat")


def test_the_command_line_is_silent_by_itself(capfd: pytest.CaptureFixture[str]) -> None:
    """As before there was a log."""
    assert run(["solve", str(Path(FILE)), "--method", "greedy"]) == 0
    assert capfd.readouterr().err == ""
