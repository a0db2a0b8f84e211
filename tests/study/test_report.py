"""The HTML report: its numbers are the tables', it loads nothing, and names stay text."""

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from tests.problems.deferral.random_schedules import random_instance as random_deferral
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.study import (
    ALL,
    Campaign,
    Part,
    Store,
    Study,
    failed,
    make_plan,
    make_settings,
    percent,
    run_campaign,
    shown_interval,
    summarise,
    to_html,
    write,
    write_report,
)
from tests.study.html_read import Element, read_html, tables
from tests.study.rows_made import made, made_row, stored

EVIL = "<script>alert(1)</script>"
COMMAND = "moeopt gap --store 'a & b.db' --report out"
METHODS = ["greedy", "trimoe", "threshold"]


@pytest.fixture(scope="module")
def study() -> Iterator[Study]:
    """Give a study of two problems, in which heuristics lose."""
    batch = {"options": {"batch": 64, "dimms": EVIL}}
    schedules = [
        random_instance(seed, "heavy contention", experts=8).model_copy(
            update={"provenance": batch if seed % 2 else {"options": {"batch": 128}}}
        )
        for seed in range(6)
    ]
    with Store() as store:
        parts = [
            Part(schedules, make_settings(METHODS, [120.0])),
            Part([random_deferral(s) for s in range(4)], make_settings(None, [120.0])),
        ]
        yield Study.of(run_campaign(Campaign(parts), store=store), store, COMMAND)


@pytest.fixture(scope="module")
def text(study: Study) -> str:
    """Return the study's page as it is written."""
    return to_html(study)


@pytest.fixture(scope="module")
def page(text: str) -> Element:
    """Return the study's page as it is read."""
    return read_html(text)


def test_the_tables_hold_the_summaries_numbers(study: Study, page: Element) -> None:
    """Each problem over all its families, then family by family."""
    excess = [table for table in tables(page) if table[0][:2] == ["method", "information"]]
    found = [row for table in excess for row in table[1:]]
    expected = []
    for problem, solves in study.problems.items():
        of = study.frame[study.frame.problem == problem]
        both = [summarise(solves.assign(family=ALL)), summarise(of)]
        for summary in [one for found_ in both for one in found_.itertuples()]:
            middle, within = percent(summary.excess_median), shown_interval(summary)
            shares = (summary.excess_max, summary.optimal, summary.excess_min, summary.excess_p95)
            counts = [str(n) for n in (summary.proven, summary.instances, summary.cells)]
            start = [summary.method, summary.knew, middle, within]
            expected.append([*start, *map(percent, shares), *counts])
    assert sorted(row[:-1] for row in found) == sorted(expected)
    assert (study.frame.excess > 0).any()


def test_the_opening_says_what_to_take_away(study: Study, page: Element) -> None:
    """Instances, proofs, and each problem's published heuristic with its median and worst."""
    [opening] = [p for p in page.all("p") if p.attributes.get("class") == "opening"]
    solves = study.frame.key.nunique()
    assert opening.text.startswith(f"{solves} solves of 10 instances of 2 problems. The optimum")
    trimoe = next(
        s
        for s in summarise(study.frame).itertuples()
        if (s.problem, s.method) == ("tri_domain", "trimoe")
    )
    rule = "the rule of TriMoE (information: current loads)"
    item = next(p.text for p in page.all("p") if rule in p.text)
    assert f"{percent(trimoe.excess_median)} more than the optimum at the median" in item
    assert f"{percent(trimoe.excess_max)} at worst" in item
    assert "6 of 6 optima proven" in item


def test_every_figure_is_described(page: Element) -> None:
    """Each has a title and a description that it names, and no id stands twice."""
    ids = [e.attributes["id"] for e in page.all() if "id" in e.attributes]
    assert len(ids) == len(set(ids))
    figures = page.all("figure")
    kinds = {figure.all("svg")[0].attributes["aria-labelledby"].split()[0] for figure in figures}
    for kind in ("ranges", "profile", "proofs", "fields", "case1"):
        assert f"tri_domain-{kind}-title" in kinds
    for figure in figures:
        [svg] = figure.all("svg")
        title, description = svg.attributes["aria-labelledby"].split()
        words = {e.attributes.get("id"): e.text for e in svg.all() if e.tag in ("title", "desc")}
        assert words[title]
        assert words[description]
        assert svg.attributes["role"] == "img"
        assert figure.all("figcaption") or svg.attributes["aria-labelledby"].startswith(
            ("tri_domain-ranges", "deferral-ranges")
        )


def test_figures_refer_to_their_own_parts(page: Element) -> None:
    """Clips and markers of one figure are never those of another one."""
    for svg in page.all("svg"):
        own = {e.attributes["id"] for e in svg.all() if "id" in e.attributes}
        referred = set(svg.attributes["aria-labelledby"].split())
        for element in svg.all():
            for name, value in element.attributes.items():
                referred.update(re.findall(r"url\(#([^)]*)\)", value))
                if name == "xlink:href":
                    referred.add(value.removeprefix("#"))
        assert own == referred


def test_the_command_stands_there_once(page: Element) -> None:
    """As text, at the end."""
    assert page.text.count(COMMAND) == 1
    assert f"This page, every figure and table: {COMMAND}" in page.text


def test_nothing_is_loaded(text: str, page: Element) -> None:
    """No style sheet, no address but places in the page itself; the one script is the package's."""
    tags = {element.tag for element in page.all()}
    assert not tags & {"link", "iframe", "object", "img", "image", "base", "foreignobject"}
    for element in page.all():
        for name, value in element.attributes.items():
            if name.endswith("href") or name in ("src", "action"):
                assert value.startswith("#")
            if not name.startswith("xmlns") and name != "content":
                assert "//" not in value
            assert not name.startswith("on")
    assert "@import" not in text
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    script = text[text.index("<script>") + 8 : text.index("</script>")]
    assert text.count("<script") == 1
    assert script == (Path(write.__file__).parent / "report.js").read_text()
    metas = {m.attributes.get("http-equiv"): m.attributes.get("content") for m in page.all("meta")}
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert metas["Content-Security-Policy"] == (
        f"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
        f"script-src 'sha256-{digest}'"
    )


def test_links_and_boxes_can_be_reached_by_keyboard(page: Element) -> None:
    """Contents lead to existing places; what scrolls takes the focus and has a name."""
    ids = {e.attributes.get("id") for e in page.all()}
    links = [a.attributes["href"].removeprefix("#") for a in page.all("a")]
    assert set(links) <= ids
    assert "tri_domain" in links
    for box in [e for e in page.all("div") if e.attributes.get("class") == "box"]:
        assert box.attributes["tabindex"] == "0"
        assert box.attributes["aria-label"]
    assert all(details.children[0].tag == "summary" for details in page.all("details"))


def test_a_phone_is_told_the_width(page: Element) -> None:
    """Without it a phone shows the page as wide as a desk's."""
    metas = {m.attributes.get("name"): m.attributes.get("content") for m in page.all("meta")}
    assert metas["viewport"] == "width=device-width, initial-scale=1"


@pytest.mark.slow  # every figure is drawn once more
def test_the_same_study_gives_the_same_page(study: Study, text: str) -> None:
    """Byte for byte."""
    assert to_html(study) == text


def test_names_are_text(study: Study) -> None:
    """Instances, families, methods, provenance, failures, machines: none becomes an element."""
    solves = study.frame[study.frame.problem == "tri_domain"]
    said = {"provenance": {"options": {"batch": EVIL, EVIL: EVIL}}, "name": EVIL}
    store = stored(
        {d: study.store.instance(d).model_copy(update=said) for d in solves.instance_hash}
    )
    tags = {name: EVIL for name in solves.columns if name.startswith("tag_")}
    evil = solves.assign(family=EVIL, instance=EVIL, **tags)
    evil = evil.assign(facts=[{"knew": EVIL, "bottleneck": EVIL}] * len(evil))
    evil = evil.assign(machine=[{EVIL: EVIL}] * len(evil), versions=[{EVIL: EVIL}] * len(evil))
    other = evil[evil.excess > 0].assign(method=f"{EVIL} $x_$ \x07")
    dead = evil[:1].assign(method=EVIL, failure="crash", raw_status=f"{EVIL} \x1b", key="dead")
    everything = pd.concat([evil, other, dead], ignore_index=True)
    text = to_html(Study(everything, store, EVIL))
    page = read_html(text)
    [script] = page.all("script")
    assert "alert" not in script.text
    assert text.count("<script") == 1
    assert any(EVIL in svg.text for svg in page.all("svg"))
    for place in ("h4", "p", "li", "th", "td", "code"):
        assert any(EVIL in element.text for element in page.all(place)), place


def test_an_empty_study_says_so() -> None:
    """No rows: a page with a sentence, and no figure."""
    page = read_html(to_html(Study(made([]))))
    assert "holds no results yet" in page.text
    assert not page.all("figure")


def test_rows_without_solution_or_optimum_are_shown() -> None:
    """Dashes where nothing is known; no figure is drawn from nothing."""
    rows = [made_row("trimoe", "open", 7, None), made_row("greedy", "open", None, None)]
    page = read_html(to_html(Study(made(rows))))
    assert "trimoe, the rule of TriMoE, has no result that can be compared" in page.text
    assert "0 of 1 optimum proven" in page.text
    assert tables(page)[0][1][:5] == ["trimoe", "", "-", "-", "-"]
    assert not page.all("figure")


def test_an_instance_of_two_families_counts_once(undrawn: None) -> None:
    """In the table of all families; each family has it."""
    rows = [
        made_row("trimoe", "a", 10, 10),
        made_row("trimoe", "b", 15, 10),
        made_row("trimoe", "b", 15, 10, family="another"),
    ]
    overall, first, another, _ = tables(read_html(to_html(Study(made(rows)))))
    assert overall[1][:6] == ["trimoe", "", "25.0 %", "-", "50.0 %", "50.0 %"]
    assert first[1] == overall[1]
    assert another[1][:6] == ["trimoe", "", "50.0 %", "-", "50.0 %", "0.0 %"]


@pytest.mark.slow
def test_the_published_heuristic_is_always_in_the_picture() -> None:
    """Also where many are better, and with each time limit of a study that has several."""
    rows = [
        made_row(method, "a", cost, 10, time_limit_s=limit)
        for limit in (5.0, 60.0)
        for method, cost in [("trimoe", 90), *((f"better{n}", 11 + n) for n in range(9))]
    ]
    ranges, profile = read_html(to_html(Study(made(rows)))).all("svg")
    for limit in (5, 60):
        assert f"trimoe {limit} s: median 800.0 %" in ranges.all("desc")[0].text
    [description] = profile.all("desc")
    assert "trimoe 5 s: optimal on 0.0 %" in description.text
    assert "trimoe 60 s: optimal on 0.0 %" in description.text
    assert "better8 60 s" not in description.text
    assert description.text.count("within 1.1 times") == 9


def test_an_optimum_of_nothing_is_drawn() -> None:
    """Nothing above 0 has an excess; a heuristic that is optimal everywhere has no worst case."""
    rows = [
        made_row("trimoe", "zero", 0, 0),
        made_row("greedy", "zero", 5, 0),
        made_row("threshold", "zero", 0, 0, proves=True),
    ]
    page = read_html(to_html(Study(made(rows))))
    assert len(page.all("svg")) == 3
    assert "loses most" not in page.text


@pytest.mark.usefixtures("undrawn")
def test_failures_are_listed(tmp_path: Path) -> None:
    """Those of the store, with the instance's name; a store of failures alone makes a page."""
    instance = random_instance(1)
    plan = make_plan(Campaign([Part([instance], make_settings(["milp"]))]))
    with Store() as store:
        store.enroll(plan.entries)
        store.add(failed(next(plan.jobs()), "input", "too large for this method"))
        write_report(store.frame(), store, tmp_path, COMMAND)
    page = read_html((tmp_path / "index.html").read_text())
    overall, *_, table = tables(page)
    assert overall[1] == ["milp", "", *["-"] * 6, "0", "1", "0", "1", "-"]
    assert table[1] == [instance.name, "milp", "input", "too large for this method"]
