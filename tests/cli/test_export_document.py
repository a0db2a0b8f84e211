"""docs/export.md: commands print what they say, targets are described."""

import random
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import moeopt
from tests.exporters.placements import random_plan
from tests.exporters.test_export_exact_model import gurobi_form, random_instances, solved
from tests.rooms.cli import run
from tests.rooms.exporters import all_targets
from tests.rooms.placement import Instance
from tests.rooms.problems import PROBLEMS, get_problem
from tests.rooms.sim import get_model

EXAMPLE = re.compile(r"```sh\n(.*?)\n```\n(?:\n```text\n(.*?)```)?", re.DOTALL)
LAYERS, EXPERTS = 26, 64
MIXTRAL = "instances/cache/mixtral/mixtral-coding-threads24.json.gz"


def page_of(root: Path) -> str:
    """Return the page."""
    return (root / "docs" / "export.md").read_text()


def deepseek_v2_lite() -> Instance:
    """Return a placement instance for the model of the pages' examples."""
    rng = random.Random("document")
    steps = [
        [[(e, 1) for e in sorted(rng.sample(range(EXPERTS), 6))] for _ in range(LAYERS)]
        for _ in range(3)
    ]
    fields = {
        "name": "deepseek-v2-lite",
        "provenance": {"model": "deepseek-v2-lite"},
        "layers": LAYERS,
        "experts": EXPERTS,
        "gpu_slots": 416,
        "gpu_expert_ns": (0, 25_000),
        "offload_expert_ns": (0, 690_000),
        "layer_offload_fixed_ns": 30_000,
        "steps": steps,
    }
    return Instance.model_validate(fields)


@pytest.fixture
def folder(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder: the library, a plan and counts, as the pages say."""
    (tmp_path / "instances").symlink_to(root / "instances")
    instance = deepseek_v2_lite()
    moeopt.save(instance, tmp_path / "instance.json")
    moeopt.save(random_plan(instance, 0), tmp_path / "plan.json")
    machine = moeopt.get_machine("2xrtx3090+epyc-7002")
    options = {"bits": "Q4_K_M", "room": 8192}
    split = moeopt.generate("split", machine=machine, model=get_model("qwen3-30b-a3b"), **options)
    moeopt.save(split, tmp_path / "split-instance.json")
    moeopt.save(moeopt.solve(split, "first-fit").solution, tmp_path / "split.json")
    rng = random.Random("counts")
    rows = [f"{la},{e},{rng.randint(0, 99)}" for la in range(1, 27) for e in range(EXPERTS)]
    (tmp_path / "counts.csv").write_text("layer,expert,count\n" + "\n".join(rows) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(page: str, plans: bool) -> list[tuple[list[str], str]]:
    """Return the commands of a page with what they print, if it says so; plans or all others."""
    found = []
    for block, expected in EXAMPLE.findall(page):
        for line in block.splitlines():
            program, *words = shlex.split(line)
            assert program == "moeopt"
            if (words[0] == "plan") == plans:
                found.append((words, expected))
    return found


def test_every_example_prints_what_it_says(
    root: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the library, with a plan for the model that the pages name."""
    given = moeopt.load(MIXTRAL)
    (folder / "answer.sol").write_text(gurobi_form(*solved(given)))
    shown = set()
    for words, expected in commands(page_of(root), plans=False):
        assert run(words) == 0, words
        captured = capsys.readouterr()
        if expected:
            assert captured.err + captured.out == expected
        if words[0] != "export":
            continue
        if "--out" in words:
            path = Path(words[words.index("--out") + 1])
            assert path.is_file()
            assert path.with_name(path.name + ".notes.json").is_file()
        shown.add(words[words.index("--to") + 1])
    assert set(all_targets()) == shown


@pytest.mark.slow
def test_plans_are_made_as_the_page_says(root: Path, folder: Path) -> None:
    """From counts; each leaves a runtime's file."""
    for words, _ in commands(page_of(root), plans=True):
        assert run(words) == 0, words
        written = words[-1] if "--ep-size" in words else "plan/residency-llama.cpp.txt"
        assert (folder / written).is_file()


def test_the_line_of_python_runs(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands on the page."""
    [line] = re.findall(r"In Python: `(.*?)`;", page_of(root))
    instance = deepseek_v2_lite()
    monkeypatch.chdir(tmp_path)
    names = {"moeopt": moeopt, "instance": instance, "solution": random_plan(instance, 1)}
    assert eval(line, names) == (Path("map.json"), Path("map.json.notes.json"))


def test_every_target_is_described(root: Path) -> None:
    """At the head of its section, in the table of targets, and in that of what was tried."""
    held = page_of(root)
    heads = "\n".join(re.findall(r"^Targets? [^\n]*", held, re.MULTILINE))
    tried = (root / "tests" / "runtimes" / "README.md").read_text()
    for name in all_targets():
        assert f"`{name}`" in heads
        for table in (held, tried):
            cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("|")]
            assert any(f"`{name}`" in cell for cell in cells), name


@pytest.mark.parametrize("problem", PROBLEMS)
def test_names_of_variables_are_documented(problem: str, root: Path) -> None:
    """Every variable of the exact model has one of the names that docs/variables.md lists."""
    page = (root / "docs" / "variables.md").read_text()
    [row] = re.findall(rf"^\| {problem} \| (.*) \|$", page, re.MULTILINE)
    more = [r"v\d+"] if problem in ("joint", "deferral") else []
    known = re.compile("|".join(map(_numbered, re.findall(r"`([\w.]+)`", row))) or "-")
    made = random_instances(root, problem)
    for seed in range(3):
        built: Any = get_problem(problem).Model("milp")(made(seed))
        built.post()
        for name in built.model.names:
            fits = known.fullmatch(name) or any(re.fullmatch(form, name) for form in more)
            assert fits, name


def _numbered(name: str) -> str:
    """Return the pattern of a documented name: single capitals stand for numbers, or `s`."""
    return "_".join(r"(?:\d+|s)" if re.fullmatch("[A-Z]", part) else part
                    for part in name.split("_"))  # fmt: skip
