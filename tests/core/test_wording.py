"""What strangers write is text: it steers no terminal, no spreadsheet, no page."""

import csv
import subprocess
import sys
from io import StringIO
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.rooms.core import csv_text, markdown_code, markdown_text, terminal_text


@given(st.text())
def test_no_control_character_reaches_a_terminal(text: str) -> None:
    """But ends of lines and tabs; printable text stays as it is."""
    shown = terminal_text(text)
    assert all(c.isprintable() or c in "\n\t" for c in shown)
    shown.encode()  # also a file's name that is no UTF-8
    if text.isprintable():
        assert shown == text


@given(st.text(st.characters(exclude_categories=("C",))), st.integers())
def test_no_cell_is_a_formula(text: str, number: int) -> None:
    """Texts that begin like one get a '; numbers, also negative ones, are numbers."""
    for name in (text, f"={text}", f"@{text}"):
        cell, value = next(csv.reader(StringIO(csv_text([[name, number]]), newline="")))
        assert not cell.startswith(("=", "+", "-", "@"))
        assert cell in (name, f"'{name}")
        assert int(value) == number


def test_markdown_prints_what_stands_there() -> None:
    """No HTML, no further cell, no end of the code."""
    assert markdown_text("<b>a|b</b>\n&") == "&lt;b&gt;a\\|b&lt;/b&gt; &amp;"
    assert markdown_code("a`<b>`|\x1b[31m") == "`a'<b>'\\|\\x1b[31m`"


def test_a_files_name_is_printed_without_its_escapes(tmp_path: Path) -> None:
    """On stderr, and where the name is no UTF-8."""
    for name in (b"a\x1b[31m.json", b"b\xff.json"):
        command = [
            sys.executable.encode(),
            b"-m",
            b"moeopt",
            b"solve",
            bytes(tmp_path) + b"/" + name,
        ]
        ended = subprocess.run(command, capture_output=True, check=False)
        assert ended.returncode == 2
        assert ended.stderr.count(b"\n") == 1
        assert ended.stderr.decode().strip().isprintable()
        assert b"Traceback" not in ended.stderr
