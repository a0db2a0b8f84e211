"""Pages of the site in headless Chromium, which lays them out: what a reader would find wrong."""

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from html import unescape
from pathlib import Path

CHECKS = Path(__file__).with_name("page_checks.js")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

FRAMES = """<!doctype html><meta charset="utf-8"><body><script>{checks}</script><script>
const frame = (page, width) => new Promise(done => {{
  const one = document.createElement("iframe");
  one.width = width; one.height = 900; one.src = page;
  one.onload = () => setTimeout(() => {{
    const found = problemsOf(one.contentDocument, width >= 1280);
    one.remove();
    done(found);
  }}, 200);
  document.body.append(one);
}});
const search = (page, word) => new Promise(done => {{
  const one = document.createElement("iframe");
  one.width = 1280; one.height = 900; one.src = page;
  one.onload = () => {{
    const query = one.contentDocument.querySelector("[data-md-component=search-query]");
    query.focus();
    query.value = word;
    query.dispatchEvent(new Event("keyup"));
    const list = one.contentDocument.querySelector(".md-search-result__list");
    setTimeout(() => done([...list.querySelectorAll("h1")].map(of => of.textContent)), 3000);
  }};
  document.body.append(one);
}});
(async () => {{
  const said = {{}};
  said.search = await search({pages}[0], {word!r});
  for (const page of {pages}) for (const width of {widths})
    said[`${{page}} at ${{width}}`] = await frame(page, width);
  const report = document.createElement("pre");
  report.id = "report";
  report.textContent = JSON.stringify(said);
  document.body.replaceChildren(report);
}})();
</script>"""


def chromium() -> str | None:
    """Return the path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def problems_of(
    site: Path, pages: Sequence[str], widths: Sequence[int], scratch: Path, word: str = "--expert"
) -> tuple[dict[str, list[str]], list[str]]:
    """Return each page's problems at each width, by "page at width", and messages of the console.

    Under "search" stand the titles of what the first page's search finds, an option say. One
    process lays out one page after the other, opened from the disk.
    """
    browser = chromium()
    assert browser is not None
    frames = site / "frames-of-the-test.html"
    what = {"pages": list(pages), "widths": list(widths), "word": word}
    frames.write_text(FRAMES.format(checks=CHECKS.read_text(), **what))
    done = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
            *("--allow-file-access-from-files", f"--user-data-dir={scratch / 'profile'}"),
            *("--virtual-time-budget=600000", "--window-size=2000,1000"),
            *("--dump-dom", frames.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    frames.unlink()
    report = re.search(r'<pre id="report">(.*?)</pre>', done.stdout, re.DOTALL)
    assert report is not None, done.stderr[-2000:]
    said = re.findall(r"CONSOLE[^\n]*", done.stderr)
    return json.loads(unescape(report[1])), said
