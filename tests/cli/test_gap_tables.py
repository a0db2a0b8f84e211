"""What ``moeopt gap`` prints: as much as can be read, and where the rest is."""

import pytest
from rich.console import Console

from tests.rooms.cli import WIDTH, Shown, print_tables
from tests.study.rows_made import made, made_row

Capture = pytest.CaptureFixture[str]


def test_few_instances_are_printed_one_by_one(capsys: Capture) -> None:
    """Each with its name, whole however long."""
    name = "own-" + "very-long-" * 12 + "family"
    rows = [made_row("trimoe", "a", 12, 10, family=name), made_row("greedy", "b", 15, 10)]
    print_tables(made(rows), everything=True)
    text = capsys.readouterr().out
    assert "excess by family" in text
    assert name in text
    assert "…" not in text
    print_tables(made(rows))
    assert "Left out" not in capsys.readouterr().out


def test_many_families_become_one_line_per_method(capsys: Capture) -> None:
    """An instance counts once whatever its families, and a line says where the rest is."""
    rows = [
        made_row(method, f"i{n}", cost, 10, family=f"family{n}")
        for n in range(80)
        for method, cost in (("trimoe", 12), ("greedy", 15))
    ]
    rows.append(made_row("trimoe", "i0", 12, 10, family="again"))
    print_tables(made(rows))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= WIDTH
    assert "80 instances, all proven" in lines[0]
    [trimoe] = [line for line in lines if "trimoe" in line]
    assert {"0.0", "20.0"} <= set(trimoe.split())
    assert "More: --instances (80 one by one, 81 families), --csv FILE" in lines[-1]


def test_what_divides_one_family_is_called_by_its_value(capsys: Capture) -> None:
    """The family is in the title, so that its rows stay on a line; two families keep theirs."""
    rows = [made_row("trimoe", f"i{n}", 12, 10, family=f"own, batch {n}") for n in (64, 128)]
    print_tables(made(rows))
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("own: excess over the optimum")
    assert [line.split()[:2] for line in lines[at:] if "trimoe" in line] == [
        ["batch", "64"],
        ["batch", "128"],
    ]
    print_tables(made([*rows, made_row("trimoe", "i1", 12, 10, family="other, batch 64")]))
    text = capsys.readouterr().out
    assert "other, batch" in text
    assert "own: " not in text


def test_progress_says_what_is_elapsed_and_what_is_left() -> None:
    """And before the solves are counted that instances are read, without a number."""
    console = Console(width=120, record=True, force_terminal=True)
    shown = Shown(console)
    console.print(shown.view)
    assert "reading instances" in (before := console.export_text())
    assert "?" not in before.split("elapsed")[0]
    shown.planned(10, 4)
    console.print(shown.view)
    after = console.export_text()
    assert "0/6" in after
    assert "elapsed 0:00:00 left" in " ".join(after.split())


def test_no_solve_is_no_row(capsys: Capture) -> None:
    """As where a campaign is interrupted before its first solve ends."""
    print_tables(made([made_row("trimoe", "a", 12, 10)]).iloc[:0])
    assert "trimoe" not in capsys.readouterr().out
