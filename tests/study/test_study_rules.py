"""A rule of one's own beside the methods: in tables and figures, in other processes, resumed."""

import csv
import hashlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused_command
from tests.rooms.cli import run
from tests.rooms.solvers import rules
from tests.rooms.study import (
    Campaign,
    GapTable,
    Part,
    Store,
    attempt,
    make_plan,
    make_settings,
    read_campaign,
    words_for_others,
)
from tests.study.html_read import Element, read_html, tables
from tests.study.rows_compared import timeless

Capture = pytest.CaptureFixture[str]

RULE = """
from pathlib import Path

def mine(instance):
    print("a rule may print")
    with Path(__file__).with_name("calls").open("a") as calls:
        calls.write(instance.name + "\\n")
    return ["gpu" if expert.resident else "cpu" for expert in instance.experts]
"""

LAYERS = ("window-law-layer4-batch64", "window-intent-layer17-batch64")
NAME = "my_rules.py:mine"


@pytest.fixture
def folder(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: two layers of the library, and a file with a rule."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rules, "_registered", {})
    (tmp_path / "esft-window").mkdir()
    for name in LAYERS:
        shutil.copy(
            root / "instances/tri_domain/esft-window" / f"{name}.json", tmp_path / "esft-window"
        )
    (tmp_path / "my_rules.py").write_text(RULE)
    return tmp_path


def methods_of(markdown: str) -> set[str]:
    """Return the methods of a table."""
    return set(re.findall(r"^\|[^|]*\| `([^`]*)`", markdown, re.MULTILINE))


def calls() -> int:
    """Return how often the rule has run."""
    return len(Path("calls").read_text().splitlines()) if Path("calls").exists() else 0


def ones_own_heuristic_is_told_of(text: str, page: Element) -> None:
    """Its numbers come first, it has a colour and a marker of its own, and links lead to instances.

    The caption says what the colours mean. Without a custom heuristic nothing is said of it:
    tests/study/test_report_command.py.
    """
    [headline] = [p.text for p in page.all("p") if p.attributes.get("class") == "headline"]
    table = {row[0].removesuffix(" *"): row for row in tables(page)[0][1:]}
    mine, trimoe = table[NAME], table["trimoe"]
    assert headline == (
        f"{NAME}: median {mine[2]}, worst {mine[4]} above the optimum; "
        f"trimoe, the published rule: median {trimoe[2]}, worst {trimoe[4]} above the optimum."
    )
    assert "red stars are your own heuristics" in page.text
    assert text.count("#cc3311") > 2
    shown = [t.text for t in page.all("title")]
    assert any(words.startswith(f"{NAME} *: median {mine[2]}, from ") for words in shown)
    ids = {e.attributes.get("id") for e in page.all("tr")}
    leads = [a.attributes["href"][1:] for a in page.all("a") if a.text == "Its worst instance"]
    assert leads
    assert set(leads) <= ids


def test_a_rule_is_in_every_table_and_figure(folder: Path, capfd: Capture) -> None:
    """Also where the results come from a store; what it prints does not get among the results."""
    asked = ["gap", "esft-window", "--methods", "trimoe", "--with", NAME, "--store", "s.db"]
    outputs = ["--csv", "a.csv", "--report", "r"]
    assert run([*asked, "--markdown", *outputs]) == 0
    printed = capfd.readouterr()
    assert methods_of(printed.out) == {"trimoe", NAME, "threshold"}
    assert printed.err.splitlines() == ["a rule may print"] * 2
    with Path("a.csv").open() as stream:
        records = [r for r in csv.DictReader(stream) if r["method"] == NAME]
    digest = hashlib.sha256(Path("my_rules.py").read_bytes()).hexdigest()
    assert [r["instance"] for r in records] == sorted(LAYERS)
    assert {(r["source_sha256"], r["status"]) for r in records} == {(digest, "feasible")}
    page = read_html(Path("r/index.html").read_text())
    assert f"{NAME} *" in [row[0] for row in tables(page)[0]]
    assert f"Where {NAME} loses most" in [h.text for h in page.all("h3")]
    assert f"What the excess of {NAME} depends on" in [h.text for h in page.all("h3")]
    said = {d.attributes["id"]: d.text for d in page.all("desc")}
    assert f"{NAME}: optimal on" in said["tri_domain-profile-desc"]
    case = "tri_domain-my_rules-py-mine-case1"
    assert f"{NAME}: " in said[f"{case}-desc"]
    assert any(f" in {NAME}, " in li.text for li in page.all("li"))
    assert f"--with {NAME}" in page.text
    ones_own_heuristic_is_told_of(Path("r/index.html").read_text(), page)
    assert run(["gap", "--store", "s.db"]) == 0
    assert NAME in capfd.readouterr().out
    assert calls() == 2


@pytest.mark.slow
def test_other_processes_and_a_resumed_study_give_the_same(folder: Path, capsys: Capture) -> None:
    """What is stored is not solved again; after an edit the rule is, and nothing else."""
    campaign = Campaign([Part([folder / "esft-window"], settings("trimoe", rule=NAME))])
    alone = rows_of(campaign)
    asked = ["gap", "esft-window", "--methods", "trimoe", "--with", NAME, "--store", "s.db"]
    assert run([*asked, "--jobs", "2"]) == 0
    capsys.readouterr()
    with Store("s.db") as store:
        assert timeless(GapTable(store.frame())) == timeless(alone)
        finished = stored(store)
    assert calls() == 4
    assert run([*asked, "--resume", "--markdown"]) == 0
    assert capsys.readouterr().err == "moeopt: 6 of 6 solves were in the store\n"
    assert calls() == 4
    Path("my_rules.py").write_text(RULE.replace("expert.resident", "expert.dimm is None"))
    assert run([*asked, "--resume", "--markdown"]) == 0
    assert "moeopt: 4 of 6 solves were in the store\n" in capsys.readouterr().err
    assert calls() == 6
    with Store("s.db") as store:
        again = stored(store)
        mine = [row for row in GapTable(store.frame()) if row.method == NAME]
    assert finished.items() <= again.items()
    assert len(again) == len(finished) + 2
    states = {row.source_sha256: row.solution for row in mine}
    assert len(states) == len(set(map(str, states.values()))) == 2


def settings(*methods: object, rule: str | None = None) -> Any:
    """Return the settings of a study."""
    given = [] if rule is None else [rule]
    return make_settings(list(methods), [60.0], [0], 1, given)  # type: ignore[arg-type]


def rows_of(campaign: Campaign) -> GapTable:
    """Return a campaign's rows, solved in this process."""
    from tests.rooms.study import run_campaign

    return GapTable(run_campaign(campaign))


def stored(store: Store) -> dict[object, object]:
    """Return the seconds of every solve, which no second solve would repeat."""
    return {row.key: (row.build_s, row.solve_s) for row in GapTable(store.frame())}


FAULTY = {
    "none": ("return None", "returned None, not a Solution"),
    "number": ("return 7", "returned an int, not a Solution"),
    "raises": ("raise ValueError('of\\nmine')", "raised ValueError: of mine (my_rules.py, line 4)"),
    "leaves": ("raise SystemExit(3)", "raised SystemExit: 3"),
    "short": ("return ['cpu']", ""),
    "other": (
        "import moeopt; s = moeopt.solve(instance, 'greedy').solution; "
        "return s.model_copy(update={'instance': 'another'})",
        "returned a solution of instance 'another'",
    ),
}


def test_a_faulty_rule_is_a_line_and_a_failed_row(
    folder: Path, capsys: Capture, undrawn: None
) -> None:
    """The others' rows are there, the exit code is that of a bad file, nothing is a traceback."""
    text = "\n\n".join(f"def {name}(instance):\n    {body}" for name, (body, _) in FAULTY.items())
    Path("my_rules.py").write_text(text.replace("def raises", "def raises", 1))
    named = [word for name in FAULTY for word in ("--with", f"my_rules.py:{name}")]
    one = f"esft-window/{LAYERS[0]}.json"
    asked = ["gap", one, "--methods", "trimoe", *named, "--markdown", "--csv", "a.csv"]
    assert run([*asked, "--report", "r"]) == 2
    printed = capsys.readouterr()
    assert methods_of(printed.out) == {
        *("trimoe", "threshold"),
        *(f"my_rules.py:{name}" for name in FAULTY),
    }
    head, _, *lines = [line.split(" | ") for line in printed.out.splitlines()]
    failed = head.index("failed")
    assert sum(line[failed] == "1" for line in lines if len(line) > failed) == len(FAULTY)
    assert len(printed.err.splitlines()) == len(FAULTY) + 1
    for line, (name, (_, reason)) in zip(printed.err.splitlines(), FAULTY.items(), strict=False):
        start = f"moeopt: error: {LAYERS[0]}, method my_rules.py:{name}: "
        assert line.startswith(start)
        assert reason.split(" (")[0] in line.removeprefix(start)
    assert "Traceback" not in printed.err
    with Path("a.csv").open() as stream:
        statuses = {r["method"]: (r["status"], r["raw_status"]) for r in csv.DictReader(stream)}
    assert statuses["trimoe"][0] == "feasible"
    assert {statuses[f"my_rules.py:{name}"][0] for name in FAULTY} == {"failed"}
    page = read_html(Path("r/index.html").read_text())
    assert {row[2] for row in tables(page)[-1][1:]} == {"rule"}
    assert "Where my_rules.py:none loses most" in page.text


def test_functions_are_methods(folder: Path) -> None:
    """In Python; a failed one is a row, not an exception."""
    instance = random_instance(0)

    def all_cpu(instance: Any) -> list[str]:
        return ["cpu"] * len(instance.experts)

    rows = moeopt.gap([instance], [all_cpu, lambda instance: None, "threshold"])
    assert [row.status for row in rows] == ["feasible", "failed", "optimal"]
    assert rows[0].method.endswith("all_cpu")
    assert rows[0].excess is not None
    assert rows[0].source_sha256 == hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    with pytest.raises(moeopt.InputError, match="other processes cannot load it"):
        moeopt.gap([instance], [all_cpu], jobs=2)


def test_a_rule_without_a_source_is_not_stored(folder: Path) -> None:
    """Nobody could tell whether it is still the same."""
    scope: dict[str, Any] = {}
    exec("def typed(instance): return ['cpu'] * len(instance.experts)", scope)
    assert moeopt.gap([random_instance(0)], [scope["typed"]])[0].status == "feasible"
    with pytest.raises(moeopt.InputError, match="typed: has no source file"):
        moeopt.gap([random_instance(0)], [scope["typed"]], store=folder / "s.db")


def test_a_registered_rule_is_a_heuristic_of_its_problem(folder: Path) -> None:
    """Among the others by default, with its file's hash, and other processes can load it."""

    @moeopt.heuristic("tri_domain", "registered")
    def all_cpu(instance: Any) -> list[str]:
        return ["cpu"] * len(instance.experts)

    rows = {row.method: row for row in moeopt.gap([random_instance(0)])}
    assert rows["registered"].source_sha256
    assert rows["trimoe"].source_sha256 == ""
    source = '\nimport moeopt\n@moeopt.heuristic("tri_domain", "filed")\n' + RULE.lstrip()
    Path("my_rules.py").write_text(source.replace("from pathlib import Path\n\n", "", 1))
    plan = make_plan(Campaign([Part([random_instance(0)], settings(NAME))]))
    [rule] = plan.rules
    assert rule.name == "filed"
    assert words_for_others(rule) == f"{folder}/my_rules.py:mine"


def test_a_campaign_names_rules(folder: Path, capsys: Capture) -> None:
    """Key `with`; a file is looked for beside the campaign, and `--with` adds others."""
    (folder / "sub").mkdir()
    shutil.copy("my_rules.py", "sub/near.py")
    text = 'campaign = "c"\ninstances = ["../esft-window"]\nmethods = ["greedy"]\n'
    Path("sub/c.toml").write_text(f'{text}with = ["near.py:mine"]\n')
    [part] = read_campaign(Path("sub/c.toml")).parts
    assert part.settings.rules == ("sub/near.py:mine",)
    assert run(["gap", "sub/c.toml", "--with", NAME, "--markdown"]) == 0
    assert methods_of(capsys.readouterr().out) == {"greedy", "near.py:mine", NAME, "threshold"}


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (["--with", "nowhere.py:f"], "nowhere.py:f: there is no file nowhere.py"),
        (["--with", "my_rules.py:f"], "my_rules.py:f: there is no 'f' in my_rules.py"),
        (["--with", "my_rules"], "'my_rules'"),
        (["--methods", "nowhere.module:f"], "nowhere.module:f: cannot be loaded"),
        (["--with", "layouts.py:f"], "f: a rule for layout, of which there is none"),
        (["--store", "s.db", "--with", NAME], "--with: without paths the store decides that"),
    ],
)
def test_wrong_rules_are_one_line(
    option: list[str], words: str, folder: Path, capsys: Capture
) -> None:
    """Before anything is solved; exit 2."""
    Path("layouts.py").write_text(
        "import moeopt\n@moeopt.heuristic('layout', 'f')\ndef f(instance): return None\n"
    )
    paths = [] if "--store" in option else ["esft-window"]
    Store("s.db").close()
    assert words in refused_command(capsys, ["gap", *paths, *option])


def test_a_file_that_changed_meanwhile_is_refused(folder: Path) -> None:
    """Another process must not store an edited rule's result under the old one's key."""
    [job, _] = make_plan(Campaign([Part([random_instance(0)], settings(NAME))])).jobs()
    sent = job.portable()
    assert not attempt(sent).failed
    Path("my_rules.py").write_text(RULE + "\n# edited\n")
    assert not attempt(sent).failed  # loaded before the edit
    from tests.rooms.study import attempt_module as module

    module._loaded.clear()
    ended = attempt(sent)
    assert ended.failed
    assert "is not what it was when the campaign began" in ended.raw_status


def test_methods_must_be_names_or_functions() -> None:
    """One line that says which is not."""
    wrong: list[Callable[[], object]] = [
        lambda: moeopt.gap([random_instance(0)], [3]),  # type: ignore[list-item]
        lambda: moeopt.gap([random_instance(0)], [""]),
    ]
    for call in wrong:
        with pytest.raises(moeopt.InputError, match=r"methods\[0\]: must be a string, not"):
            call()
