"""docs/layout.md: what it names exists, and every rule leads to its checker, rows and proof."""

import re
from pathlib import Path

import pytest

from tests.rooms.layout import CONSTRAINTS

PROVEN = re.compile(r"\n## Bound and pack\n(.*?)\n## ", re.DOTALL)

OF_COPIES = re.compile(r"\n## Copies\n(.*?)\n## ", re.DOTALL)
"""Where LA-C10 and LA-C11 are argued with: the search for one scenario has no copies."""


def test_what_the_page_names_exists(root: Path) -> None:
    """Each file and folder, in the problem's folder or one below, or from the root; the figure."""
    page = (root / "docs" / "layout.md").read_text()
    layout = root / "moeopt" / "problems" / "layout"
    named = re.findall(r"`([\w/]+(?:\.py|\.md|\.mod|/))`", page)
    assert len(named) > 20
    places = [layout, layout / "single_scenario", root]
    places += [root / "benchmarks" / "studies", root / "formulations" / "layout"]
    figure = (root / "docs" / "layout.svg").read_text()
    named += re.findall(r'class="m"[^>]*>([\w/.]+)<', figure)
    for name in named:
        assert any((place / name).exists() for place in places), name


@pytest.mark.parametrize("rule", CONSTRAINTS)
def test_a_search_for_a_rule_finds_all_of_it(rule: str, root: Path) -> None:
    """Its text, its check, its rows in the models, and its part in the search's proof."""
    layout, formulation = root / "moeopt" / "problems" / "layout", root / "formulations" / "layout"
    files = [layout / f"{name}.py" for name in ("check", "cpsat")]
    for file in [*files, formulation / "layout.mod"]:
        assert rule in file.read_text(), file
    copies = rule in ("LA-C10", "LA-C11")
    [proof] = (OF_COPIES if copies else PROVEN).findall((formulation / "spec.md").read_text())
    assert rule in proof
    search = [layout / "copies.py"] if copies else [*(layout / "single_scenario").glob("*.py")]
    assert any(rule in file.read_text() for file in search)
