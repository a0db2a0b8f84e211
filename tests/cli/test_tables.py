"""Tables on a terminal of 80 columns: nothing is cut, no number and no word is broken."""

import re
from pathlib import Path

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused_command
from tests.rooms.cli import print_table, print_tables, run
from tests.study.rows_made import made, made_row

Capture = pytest.CaptureFixture[str]
HEADS = ("family", "method", "median", "95 %", "of the possible gain", "largest")


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the width."""
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys: Capture) -> str:
    """Return what was printed, of which no line is longer than the terminal."""
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    return text


@pytest.mark.parametrize("families", [1, 3])
def test_names_and_numbers_are_whole(families: int, capsys: Capture) -> None:
    """Of eight methods with long names, also where there are several families."""
    names = [f"my_rules.py:a_rather_long_name_{n}" for n in range(8)]
    rows = [
        made_row(name, f"i{f}", 10_000_000 + 1_234_567 * n, 10_000_000, family=f"family number {f}")
        for f in range(families)
        for n, name in enumerate(names)
    ]
    for everything in (False, True):
        print_tables(made(rows), everything=everything)
        text = printed(capsys)
        assert all(name in text for name in names)
        for n in range(8):
            assert f"{100 * 0.1234567 * n:.1f} %" in text
        assert "…" not in text


def test_heads_are_wrapped_at_blanks(capsys: Capture) -> None:
    """Columns of words become headings where there is no room; a unit stays at its number."""
    row = ["a family", "an-unbreakable-method-of-one-word", "1,234.5 %", "1,000.0 to 2,000.0"]
    print_table(HEADS, [[*row, "100.0 %", "99,999.9 %"]] * 2, "title", words=2, headings=1)
    lines = printed(capsys).splitlines()
    assert lines[0] == "title"
    assert "family: a family" in lines
    assert sum("an-unbreakable-method-of-one-word" in line for line in lines) in (2, 4)
    assert sum("1,000.0 to 2,000.0" in line for line in lines) == 2
    heads = " ".join(lines)
    assert all(re.search(rf"\b{word}\b", heads) for word in ("median", "possible", "largest"))
    assert "95 %" in heads


def test_what_fits_stays_one_table(capsys: Capture) -> None:
    """With whole heads."""
    print_table(HEADS[:3], [["a", "b", "1 %"]], words=2, headings=1)
    assert printed(capsys).splitlines()[0].split() == list(HEADS[:3])


def test_a_solution_in_the_folder_is_skipped(tmp_path: Path, capsys: Capture) -> None:
    """With a line that names it; an instance that is broken still ends the study."""
    instance = random_instance(0)
    moeopt.save(instance, tmp_path / "i.json")
    moeopt.save(moeopt.solve(instance).solution, tmp_path / "mine.json")
    (tmp_path / "package.json").write_text('{"name": "x"}')
    with pytest.warns(moeopt.MoeoptWarning) as said:
        assert run(["gap", str(tmp_path), "--methods", "greedy"]) == 0
    assert [str(one.message) for one in said] == [
        f"{tmp_path}/mine.json: is a solution: skipped",
        f"{tmp_path}/package.json: is not an instance: skipped",
    ]
    (tmp_path / "i.json").write_text('{"problem": "tri_domain", "name": "x"}')
    assert "i.json: " in refused_command(capsys, ["gap", str(tmp_path)])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gap", "i.json", "--methods", "trimoe", "threshold"], "--methods trimoe,threshold"),
        (["gap", "--methods", "trimoe", "threshold"], "there is no such file; separate several"),
    ],
)
def test_methods_with_a_blank_between_them(words: list[str], said: str, capsys: Capture) -> None:
    """The line says that commas are meant."""
    assert said in refused_command(capsys, words)
