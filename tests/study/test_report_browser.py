"""The report in a browser that lays it out; left out where there is no Chromium."""

import shutil
import subprocess
from pathlib import Path

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.study import Store, write_report
from tests.study.html_read import read_html

BROWSERS = ("chromium", "chromium-browser", "google-chrome")

CHECK = """<script>
addEventListener("load", () => setTimeout(() => {
  const inner = document.querySelector("iframe").contentDocument;
  inner.querySelectorAll("details").forEach(one => { one.open = true; });
  const drawn = [...inner.querySelectorAll("figure svg")].map(s => s.getBoundingClientRect());
  const table = inner.querySelector("table.sorts");
  const names = () => [...table.tBodies[0].rows].map(row => row.cells[0].textContent);
  const heads = [...table.tHead.rows[0].cells];
  const median = heads.find(head => head.textContent === "median");
  const of = row => parseFloat(row.cells[median.cellIndex].textContent);
  const medians = () => [...table.tBodies[0].rows].map(of);
  median.querySelector("button").click();
  const rising = medians().every((x, at, all) => !at || all[at - 1] <= x);
  const input = inner.getElementById("filter-text");
  input.value = names()[0];
  input.dispatchEvent(new Event("input"));
  const kept = [...table.tBodies[0].rows].filter(row => !row.hidden).length;
  const report = {
    figures: drawn.filter(box => box.width > 200 && box.height > 60).length,
    overflow: inner.documentElement.scrollWidth - inner.documentElement.clientWidth,
    rising, kept,
  };
  document.body.append(JSON.stringify(report));
}, 300));
</script>"""


@pytest.mark.slow
def test_a_browser_shows_every_figure_at_a_phones_width(tmp_path: Path) -> None:
    """In 360 pixels nothing is wider than the page, tables sort and filter, no message."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium")
    with Store() as store:
        schedules = [random_instance(s, "heavy contention", experts=8) for s in range(5)]
        rows = moeopt.gap(schedules, ["greedy", "trimoe", "threshold"], store=store)
        page = write_report(rows.frame, store, tmp_path, "moeopt gap " + "x" * 300)
    figures = len(read_html(page.read_text()).all("figure"))
    frame = tmp_path / "frame.html"
    inside = '<iframe src="index.html" width="360" height="780" style="border:0"></iframe>'
    frame.write_text(f"<!doctype html><body>{inside}{CHECK}")
    done = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"),
            *("--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}"),
            *("--virtual-time-budget=5000", "--dump-dom", frame.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert f'{{"figures":{figures},"overflow":0,"rising":true,"kept":1}}' in done.stdout
    assert "CONSOLE" not in done.stderr
