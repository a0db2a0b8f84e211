"""Computing figures: order, what is kept, what a resumed run takes from it."""

import json
from pathlib import Path

import pytest

from benchmarks.papers import data
from benchmarks.papers.registry import FIGURES, SWEEPS
from benchmarks.papers.run import reproduce
from benchmarks.papers.sweep import sweeps
from moeopt import InputError
from tests.benchmarks.papers import toy_figures
from tests.benchmarks.papers.toy_figures import CALLS

TOYS = "tests.benchmarks.papers.toy_figures"


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let T1, T2 and G4 be computed by the toys."""
    for name, function in (("T1", "computed"), ("T2", "other"), ("G4", "without_data")):
        monkeypatch.setitem(FIGURES, name, f"{TOYS}:{function}")
    monkeypatch.delenv(data.VARIABLE, raising=False)
    CALLS.clear()


def test_figures_come_in_the_order_asked_for() -> None:
    """Each once."""
    found = list(reproduce(["T2", "T1", "T2"]))
    assert [figure.published.id for figure in found] == ["T2", "T1"]
    assert CALLS == ["T2", "T1"]


def test_an_unknown_id_is_refused_before_anything_is_computed() -> None:
    """With the ids that there are."""
    with pytest.raises(InputError, match="'T99' is unknown; known ids: T1, T2"):
        reproduce(["T1", "T99"])
    assert CALLS == []


def test_a_resumed_run_computes_only_what_is_missing(tmp_path: Path) -> None:
    """And gives the same figures."""
    list(reproduce(["T1"], tmp_path / "new" / "folder"))
    whole = list(reproduce(["T1", "T2"], tmp_path / "new" / "folder", resume=True))
    assert CALLS == ["T1", "T2"]
    assert whole == list(reproduce(["T1", "T2"]))
    assert whole[0].ours == toy_figures.computed()
    assert whole[0].ours.intervals


def test_without_resume_everything_is_computed_again(tmp_path: Path) -> None:
    """Even if the folder has it."""
    for _ in range(2):
        list(reproduce(["T1"], tmp_path))
    assert CALLS == ["T1", "T1"]


@pytest.mark.parametrize(
    ("field", "value"), [("moeopt", "0.0.0"), ("data", True), ("published", "7"), ("id", "T3")]
)
def test_a_result_of_other_circumstances_is_not_taken(
    field: str, value: object, tmp_path: Path
) -> None:
    """Another version, with data, another published value, another figure."""
    list(reproduce(["T1"], tmp_path))
    record = json.loads((tmp_path / "T1.json").read_text())
    (tmp_path / "T1.json").write_text(json.dumps(record | {field: value}))
    list(reproduce(["T1"], tmp_path, resume=True))
    assert CALLS == ["T1", "T1"]


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    """Instead of being computed over, or shown."""
    list(reproduce(["T1"], tmp_path))
    record = json.loads((tmp_path / "T1.json").read_text())
    (tmp_path / "T1.json").write_text(json.dumps(record | {"kind": "guessed"}))
    with pytest.raises(InputError, match=r"T1\.json: is not a figure of ours: kind: 'guessed'"):
        list(reproduce(["T1"], tmp_path, resume=True))


def test_a_missing_trace_is_named_instead_of_a_value() -> None:
    """G4 has two published values; both are unknown then."""
    (figure,) = reproduce(["G4"])
    assert figure.ours.values == (None, None)
    assert figure.verdict == "not computable"
    assert figure.ours.note == (
        "not computable: needs trace nowhere/trace.npz in the folder of --data or MOEOPT_TRACES"
    )


def test_traces_are_looked_for_where_they_are_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option before the variable; a folder that is none is refused."""
    (tmp_path / "a.npz").touch()
    monkeypatch.setenv(data.VARIABLE, str(tmp_path))
    assert data.find("a.npz") == tmp_path / "a.npz"
    assert data.find("b.npz") is None
    (tmp_path / "inner").mkdir()
    try:
        data.use(tmp_path / "inner")
        assert data.find("a.npz") is None
    finally:
        data.use(None)
    with pytest.raises(InputError, match=r"--data: .*a\.npz is not a folder"):
        data.use(tmp_path / "a.npz")


def test_a_sweep_is_kept_and_taken_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its rows as they were; another version is computed anew, a broken file named."""
    monkeypatch.setitem(SWEEPS, "toy", f"{TOYS}:swept")
    for _ in range(2):
        [(name, found)] = sweeps(["toy"], tmp_path, resume=True)
        assert (name, found) == ("toy", toy_figures.SWEPT)
    assert CALLS == ["sweep"]
    record = json.loads((tmp_path / "toy.json").read_text())
    (tmp_path / "toy.json").write_text(json.dumps(record | {"moeopt": "0.0.0"}))
    list(sweeps(["toy"], tmp_path, resume=True))
    assert CALLS == ["sweep", "sweep"]
    (tmp_path / "toy.json").write_text(json.dumps(record | {"rows": [["a", [1, 2]]]}))
    with pytest.raises(InputError, match=r"toy\.json: is not a sweep of ours"):
        list(sweeps(["toy"], tmp_path, resume=True))
