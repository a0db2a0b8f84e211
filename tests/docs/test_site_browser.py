"""The site in a browser that lays it out; left out where there is no Chromium.

Accessibility is what the document itself says: names, alternative texts, order of headings, ids,
contrast in both colour schemes.
"""

from pathlib import Path

import pytest

from tests.docs.browser import chromium, problems_of
from tests.docs.site import build

PAGES = ["index.html", "problems/threads.html"]
BROKEN = "broken.html"

pytestmark = pytest.mark.skipif(chromium() is None, reason="no Chromium")


def spoiled(page: str) -> str:
    """Return a page with one fault of each kind."""
    page = page.replace('"formula-inline"', '"formula inline" style="overflow: auto"')
    faults = (
        "<p>| a | b |</p><h6>Deep</h6><img src=x.svg><button></button><b id=a></b><b id=a></b>"
        '<p style="color: #999; background: #fff">Pale</p>'
        "<pre style='background: none'>" + "x" * 300 + "</pre>"
        "<script>console.log('a message')</script>"
    )
    return page.replace("</article>", faults + "</article>")


@pytest.mark.slow  # as the strict build of the whole site, tests/test_documents.py
def test_nothing_is_wrong_with_a_page_and_every_fault_is_found(root: Path, tmp_path: Path) -> None:
    """No formula floats, no bar is raw, no code is cut without a hint; search works from the disk.

    The spoiled page has its formulas as they were when the theme's `inline` took them.
    """
    site = build(root, tmp_path, PAGES)
    (site / "problems" / BROKEN).write_text(spoiled((site / PAGES[1]).read_text()))
    found, said = problems_of(site, [*PAGES, f"problems/{BROKEN}"], [1280, 390], tmp_path)
    assert "threads" in " ".join(found.pop("search"))
    spoilt = {at: found.pop(at) for at in list(found) if BROKEN in at}
    assert {at: of for at, of in found.items() if of} == {}
    kinds = {line.partition(":")[0] for line in spoilt[f"problems/{BROKEN} at 1280"]}
    assert kinds == {
        *("floating formula", "clipped formula", "raw pipe", "cut code", "code without keyboard"),
        *("no alternative text", "no name", "heading order", "id twice", "contrast"),
    }
    assert len(said) == 2, said
    assert all("a message" in line for line in said)
