"""docs/export.md: every command runs and prints what it says, every target has its section."""

import random
import re
import shlex
from pathlib import Path

import pytest

import moeopt
from moeopt.cli.main import run
from moeopt.exporters.registry import all_targets
from moeopt.problems.placement.instance import Instance
from tests.exporters.placements import random_plan

EXAMPLE = re.compile(r"```sh\n(.*?)\n```\n(?:\n```text\n(.*?)```)?", re.DOTALL)
LAYERS, EXPERTS = 26, 64


@pytest.fixture
def document(root: Path) -> str:
    """Return the page."""
    return (root / "docs" / "export.md").read_text()


def deepseek_v2_lite() -> Instance:
    """Return a placement instance for the model of the page's examples."""
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


def test_every_example_prints_what_it_says(
    document: str,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Beside the instances, with a plan for the model that the page names."""
    (tmp_path / "instances").symlink_to(root / "instances")
    instance = deepseek_v2_lite()
    moeopt.save(instance, tmp_path / "instance.json")
    moeopt.save(random_plan(instance, 0), tmp_path / "plan.json")
    monkeypatch.chdir(tmp_path)
    examples = EXAMPLE.findall(document)
    shown = set()
    for command, expected in examples:
        program, *words = shlex.split(command)
        assert program == "moeopt"
        assert run(words) == 0, command
        captured = capsys.readouterr()
        if expected:
            assert captured.err + captured.out == expected
        if "--out" in words:
            path = Path(words[words.index("--out") + 1])
            assert path.is_file()
            assert path.with_name(path.name + ".notes.json").is_file()
        shown.add(words[words.index("--to") + 1])
    assert len(examples) == 10
    assert set(all_targets()) - shown == {"libcachesim-oracle", "webcachesim", "lp"}


def test_the_line_of_python_runs(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands on the page."""
    [line] = re.findall(r"In Python: `(.*)`\.", document)
    instance = deepseek_v2_lite()
    monkeypatch.chdir(tmp_path)
    names = {"moeopt": moeopt, "instance": instance, "solution": random_plan(instance, 1)}
    assert eval(line, names) == (Path("map.json"), Path("map.json.notes.json"))


def test_every_target_is_described(document: str) -> None:
    """By its name in a heading."""
    headings = "\n".join(line for line in document.splitlines() if line.startswith("#"))
    for name in all_targets():
        assert f"`{name}`" in headings
