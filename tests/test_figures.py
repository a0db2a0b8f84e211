"""No figure on a page is older than what decides it."""

import pytest

from benchmarks import figures


def test_no_figure_is_stale() -> None:
    """But those whose page says of which day they are; what searches do is a slow test."""
    found = figures.stale(searches=False, dated=False)
    assert not found, "run these, then `python benchmarks/figures.py stamp PAGE`:\n" + "\n".join(
        found
    )


@pytest.mark.slow
def test_no_figure_of_a_search_is_stale() -> None:
    """Nor one that hangs on what a search proves, and in how much work."""
    assert figures.stale(dated=False) == []


def test_a_changed_thing_makes_a_figure_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command and what code says do, its words do not."""
    code = 'def f():\n    """Say."""\n    return 1\n'
    assert figures.bare(code) == figures.bare(code.replace("Say", "Tell") + "# a word\n")
    assert figures.bare(code) != figures.bare(code.replace("1", "2"))
    changed = [{**one, "command": "another"} for one in figures.figures()]
    monkeypatch.setattr(figures, "figures", lambda: changed[:1])
    assert ": command" in figures.stale(searches=False)[0]


def test_pages_name_command_and_day() -> None:
    """Every command stands on some page, and the day where figures stay though code changes."""
    pages = {one["page"]: figures.text_of(one["page"]) for one in figures.figures()}
    for one in figures.figures():
        assert any(one["command"] in text for text in pages.values()), one["command"]
        assert not one.get("dated") or one["run"] in pages[one["page"]], one


def test_each_sentence_is_found_on_its_page() -> None:
    """Its figure stands between two words of the page."""
    for one in figures.figures():
        text = figures.text_of(one["page"])
        for what, before, after in one.get("sentences", []):
            now = text.partition(before)[2].partition(after)[0]
            assert 1 < len(now) < 250, (one["page"], what)
