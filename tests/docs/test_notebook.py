"""The page for users of pandas: its blocks run in order and print what stands below them."""

import re
from pathlib import Path
from typing import Any

import pytest

BLOCKS = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


def run_page(page: str) -> list[tuple[str, str]]:
    """Return each block's output, and the text below it."""
    import contextlib
    import io

    scope: dict[str, Any] = {"__name__": "notebook"}
    found: list[tuple[str, str]] = []
    printed = ""
    for kind, text in BLOCKS.findall(page):
        if kind == "text":
            found.append((printed, text))
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(text, "docs/notebook.md", "exec"), scope)
        printed = out.getvalue()
    return found


def test_the_page_prints_what_it_says(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two figures are written; trailing blanks do not count."""
    (tmp_path / "instances").symlink_to(root / "instances")
    monkeypatch.chdir(tmp_path)
    page = (root / "docs" / "notebook.md").read_text()
    pairs = run_page(page)
    assert len(pairs) == page.count("```python")
    for printed, said in pairs:
        assert [line.rstrip() for line in printed.splitlines()] == said.splitlines()
    for name in ("excess.svg", "schedule.svg"):
        assert (tmp_path / name).read_text().startswith("<?xml")
