"""What a library has proven is checked, not proven again, and not believed if it is off."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.cli import run
from tests.rooms.study import Store, Study, unpacked_solution, worst_cases

KEY = "family/0.json"
INSTANCE = random_instance(4, experts=7)
OPTIMUM = moeopt.solve(INSTANCE, "threshold")
WORSE = moeopt.solve(INSTANCE, "monde")


def write(folder: Path, change: Callable[[dict[str, Any]], object] = lambda entry: None) -> Path:
    """Write a library of one instance; `change` may spoil its entry of best_known.json."""
    for name in ("family", "solutions/family"):
        (folder / name).mkdir(parents=True)
    moeopt.save(INSTANCE, folder / KEY)
    moeopt.save(OPTIMUM.solution, folder / "solutions" / KEY)  # type: ignore[arg-type]
    digest = hashlib.sha256((folder / KEY).read_bytes()).hexdigest()
    (folder / "index.json").write_text(json.dumps({KEY: {"sha256": digest}}))
    entry: dict[str, Any] = {
        "objective": OPTIMUM.objective,
        "bound": OPTIMUM.objective,
        "status": "optimal",
        "method": "threshold",
        "solution": f"solutions/{KEY}",
        "since": "a key of a later format",
    }
    change(entry)
    (folder / "best_known.json").write_text(json.dumps({KEY: entry}))
    return folder / "family"


def test_what_is_proven_is_not_proven_again(tmp_path: Path) -> None:
    """The excess is over the library's optimum; no exact method runs unless it is asked to."""
    folder = write(tmp_path)
    assert WORSE.objective != OPTIMUM.objective
    [row] = moeopt.gap([folder], ["monde"])
    assert (row.optimum, row.best_bound) == (OPTIMUM.objective, OPTIMUM.objective)
    assert row.excess == WORSE.objective / OPTIMUM.objective - 1  # type: ignore[operator]
    assert len(moeopt.gap([folder], ["threshold", "exact"])) == 0
    again = moeopt.gap([folder / "0.json"], ["monde"], prove_again=True)
    assert [one.method for one in again] == ["monde", "threshold"]
    assert len(moeopt.gap([INSTANCE], ["monde"])) == 2, "an instance without a file has no library"


def test_an_open_bracket_is_a_reference_as_well(tmp_path: Path) -> None:
    """Nothing is added that might close it on a fast machine; what is named runs."""

    def opened(entry: dict[str, Any]) -> None:
        entry |= {"bound": entry["objective"] - 1, "status": "feasible"}

    folder = write(tmp_path, opened)
    [row] = moeopt.gap([folder], ["monde"])
    assert (row.excess, row.best_bound) == (None, OPTIMUM.objective - 1)  # type: ignore[operator]
    rows = moeopt.gap([folder], ["monde", "milp"])
    assert [one.optimum for one in rows] == [OPTIMUM.objective] * 2


SPOILED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "objective": (
        lambda e: e.update(objective=e["objective"] - 1, bound=e["bound"] - 1),
        f"the solution costs {OPTIMUM.objective}, not ",
    ),
    "bound": (lambda e: e.update(bound=e["bound"] + 1), "is above the objective"),
    "status": (lambda e: e.update(bound=e["bound"] - 1), "status: 'optimal' contradicts"),
    "method": (lambda e: e.update(method="greedy"), 'method: "greedy" can prove no bound'),
    "path": (lambda e: e.update(solution="../0.json"), f"solution: must be solutions/{KEY}"),
    "key": (lambda e: e.pop("bound"), "bound: is missing"),
}


@pytest.mark.parametrize("spoiled", SPOILED)
def test_a_claim_that_does_not_hold_is_not_used(
    spoiled: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says why, and the optimum is proven anew."""
    change, words = SPOILED[spoiled]
    folder = write(tmp_path, change)
    assert run(["gap", str(folder), "--methods", "monde", "--markdown"]) == 0
    captured = capsys.readouterr()
    assert "`threshold`" in captured.out
    [line] = captured.err.splitlines()
    assert line.startswith(f"moeopt: warning: {folder / '0.json'}: best_known.json does not hold: ")
    assert words in line


def test_another_instance_or_solution_is_noticed(tmp_path: Path) -> None:
    """The hash is that of the index; the checker reads the solution."""
    folder = write(tmp_path)
    other = INSTANCE.model_copy(update={"provenance": {"edited": True}})
    moeopt.save(other, folder / "0.json")
    assert len(moeopt.gap([folder], ["monde"])) == 2
    moeopt.save(INSTANCE, folder / "0.json")
    assert len(moeopt.gap([folder], ["monde"])) == 1
    data = OPTIMUM.solution.model_dump(mode="json")  # type: ignore[union-attr]
    data["assignment"][0] = "nowhere"
    (tmp_path / "solutions" / KEY).write_text(json.dumps(data))
    assert len(moeopt.gap([folder], ["monde"])) == 2


def test_a_false_proof_is_found_out(tmp_path: Path) -> None:
    """A heuristic that is below what was 'proven' stands; a warning names both."""
    folder = write(tmp_path, lambda e: e.update(objective=WORSE.objective, bound=WORSE.objective))
    moeopt.save(WORSE.solution, tmp_path / "solutions" / KEY)  # type: ignore[arg-type]
    with pytest.warns(
        moeopt.MoeoptWarning, match=r"threshold in best_known\.json claims that nothing"
    ):
        [row] = moeopt.gap([folder], ["trimoe"])
    assert (row.optimum, row.best_bound) == (None, None)


def test_the_store_keeps_what_was_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables from the store alone are the same, and the report has the optimum's schedule."""
    folder, file = write(tmp_path), tmp_path / "s.db"
    asked = ["gap", "--store", str(file)]
    assert run([*asked, str(folder), "--methods", "monde"]) == 0
    first = capsys.readouterr()
    assert first.err.startswith("moeopt: 1 solve by exact methods left out: ")
    assert run(asked) == 0
    assert capsys.readouterr().out == first.out
    with Store(file) as store:
        study = Study.of(store.frame(), store, "")
        [case] = worst_cases(study.frame, study.optima(study.frame), store.instance)
    assert unpacked_solution("tri_domain", case.best.solution) == OPTIMUM.solution
    assert case.panels[1].title.startswith("the optimum: ")


def test_the_librarys_relayouts_have_their_excess() -> None:
    """Six of these twelve are proven in the library, and take longer than a study has."""
    rows = moeopt.gap(["instances/relayout/esft-window"], ["none"])
    assert sum(row.optimum is not None for row in rows) >= 6
    assert {row.method for row in rows} == {"none"}
