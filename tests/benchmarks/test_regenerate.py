"""Numbers that a command prints are found on the page, and those that differ are named."""

from pathlib import Path

import pytest

from benchmarks.harness.regenerate import (
    Comparison,
    by_line,
    compared,
    placeholders,
    printed,
    regenerate,
    replaced,
)

PAGE = """# Page

| rule | median | most |
|---|---:|---:|
| [`lpt`](x.md) | 1.5 % | 3 % |
| `gone` | 2 % | 4 % |

The optimum takes 1,024 ns, on 7 instances.
"""


def test_rows_are_found_by_their_first_cell_whatever_its_marks() -> None:
    """Equal, changed, and printed without a row on the page."""
    output = "| rule | median | most |\n|---|---|---|\n| lpt | 1.5 % | 3 % |\n"
    output += "| gone | 2 % | 5 % |\n| new | 1 % | 1 % |\n"
    found = compared(PAGE, output, {})
    assert found.same == 2
    assert found.changed == [("| `gone` | 2 % | 4 % |", "| gone | 2 % | 5 % |")]
    assert found.unplaced == ["| new | 1 % | 1 % |"]
    assert "| gone | 2 % | 5 % |\n\nThe optimum" in replaced(PAGE, found)
    assert "+ | gone" in "\n".join(found.lines())


def test_numbers_of_a_sentence_must_be_printed() -> None:
    """A whole number, not a part of a longer one."""
    said = {"optimum": "1,024 ns, on 7 instances"}
    assert compared(PAGE, "optimum 1,024 of 7", said) == Comparison(same=1)
    assert "1,024" in compared(PAGE, "optimum 11,024 of 7", said).missing[0]


def test_a_page_that_is_written_whole_is_compared_by_line() -> None:
    """Changed, added and removed lines."""
    assert by_line("a\nb\nc\n", "a\nx\nc\nd\n").changed == [("b", "x"), ("", "d")]
    assert by_line("a\nb\n", "a\n").changed == [("b", "")]


def test_a_command_runs_with_what_stands_for_its_words(tmp_path: Path) -> None:
    """Words in capitals, settings of the environment, patterns of files, and a failure."""
    (tmp_path / "say.py").write_text("import os, sys\nprint(os.environ['WHERE'], *sys.argv[1:])\n")
    command = "WHERE=DIR python say.py *.py --traces DIR"
    assert placeholders(command) == {"DIR"}
    assert printed(command, {"DIR": "/data"}, tmp_path) == "/data say.py --traces /data\n"
    with pytest.raises(ValueError, match="needs DIR=PATH"):
        printed(command, {}, tmp_path)
    with pytest.raises(ValueError, match=r"ends with 3"):
        printed("python -c 'raise SystemExit(3)'", {}, tmp_path)


def test_a_changed_row_is_written_only_on_demand(tmp_path: Path) -> None:
    """The page stays as it is but for ``write``."""
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "say.py").write_text("print('| gone | 2 % | 5 % |')\n")
    figure = {"page": "page.md", "command": "python say.py"}
    for write, expected in (
        (False, PAGE),
        (True, PAGE.replace("| `gone` | 2 % | 4", "| gone | 2 % | 5")),
    ):
        assert len(regenerate(figure, {}, tmp_path, write).changed) == 1
        assert (tmp_path / "page.md").read_text() == expected
