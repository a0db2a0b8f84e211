"""Help, examples and completion of every command; the reference on docs/commands.md."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import moeopt
from tests.problems.deferral.random_schedules import random_instance as random_deferral
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.cli import COMMANDS, SHELLS, run, with_reference
from tests.rooms.problems import PROBLEMS

Capture = pytest.CaptureFixture[str]

OF_THE_MACHINE = {"machine detect", "profile", "warm"}
"""Commands that measure the machine, or compile for minutes."""

DEAR = ("compare", "plan", "report")
"""Commands whose examples tests/cli/test_json.py runs as well, with `--json` or fewer steps."""

LINES = {command.name: command.example for command in COMMANDS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    instance = random_instance(4, experts=5)
    moeopt.save(instance, folder / "instance.json")
    solution = moeopt.solve(instance, "trimoe").solution
    assert solution is not None
    moeopt.save(solution, folder / "solution.json")
    moeopt.save(random_deferral(3, layers=4), folder / "layered.json")
    ids = np.random.default_rng(0).integers(0, 8, (120, 2, 2))
    ids[..., 1] = (ids[..., 0] + 1) % 8
    np.savez(folder / "trace.npz", topk_ids=ids)
    (folder / "points.csv").write_text(
        "model,bits,runtime,n_cpu_moe,context,tokens_per_s\n"
        "qwen3-30b-a3b,4.5,llama.cpp,48,512,30\nqwen3-30b-a3b,4.5,llama.cpp,40,512,34\n"
    )
    rows = [f"{layer},{e},{20 + e}" for layer in range(1, 27) for e in range(64)]
    (folder / "counts.csv").write_text("\n".join(["layer,expert,count", *rows]) + "\n")
    (folder / "lscpu.txt").write_text(
        "Model name: AMD EPYC 9355 32-Core Processor\nCore(s) per socket: 32\nSocket(s): 1\n"
    )
    made = ["generate", "placement", "--machine", "trimoe", "--model", "mixtral-8x7b"]
    made += ["--workload", "olmoe-1b-7b", "--steps", "20", "--later", "10"]
    out = ["--out", str(folder / "train.json"), "--later-out", str(folder / "test.json")]
    assert run([*made, *out]) == 0
    store = ["--store", str(folder / "study.sqlite"), "--methods", "trimoe"]
    assert run(["gap", str(folder / "instance.json"), *store]) == 0
    assert run(["certificate", "make", str(folder / "instance.json"),
                "--out", str(folder / "bound.json")]) == 0  # fmt: skip
    return folder


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in DEAR))
        for name in sorted({*LINES} - OF_THE_MACHINE)
    ],
)
def test_the_examples_of_help_run(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """As they stand, on small files."""
    monkeypatch.chdir(folder)
    program, *words = shlex.split(LINES[name])
    assert program == "moeopt"
    assert words[: len(name.split())] == name.split()
    assert run(words) == 0, capsys.readouterr().err


@pytest.mark.parametrize("name", [*LINES, *(f"generate {problem}" for problem in PROBLEMS)])
def test_a_help_ends_with_an_example(name: str, capsys: Capture) -> None:
    """The first sentence says what the command is for; no option is without a sentence."""
    assert run([*name.split(), "--help"]) == 0
    text = capsys.readouterr().out
    last = text.rstrip().rpartition("\nExample:\n")[2] if name != "generate" else text
    assert f"moeopt {name}" in " ".join(last.replace("\\\n", " ").split())
    about = text.split("\n\n")[1].strip()
    assert about[0].isupper()
    assert "exit" not in about.partition(".")[0].split(";")[0].lower()


def test_commands_stand_under_headings(capsys: Capture) -> None:
    """In the order of the table."""
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    places = [text.index(f"\n{command.heading}:\n") for command in COMMANDS]
    assert places == sorted(places)
    assert run([]) == 2


def test_the_reference_is_current(root: Path) -> None:
    """``python -m moeopt.cli.reference`` writes it."""
    page = (root / "docs/commands.md").read_text()
    assert with_reference(page) == page


@pytest.mark.parametrize(
    "shell", [pytest.param(s, marks=[pytest.mark.slow] * (s != "bash")) for s in SHELLS]
)
def test_completion_is_installed(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The script knows commands and options, and lies below the user's home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "ZSH_CUSTOM", "ZSH"):
        monkeypatch.delenv(name, raising=False)
    assert run(["--install-completion", shell]) == 0
    place = Path(capsys.readouterr().out.strip())
    assert place.is_relative_to(tmp_path)
    script = place.read_text()
    for word in ("sensitivity", "work-limit", "tri_domain", "certificate"):
        assert word in script


def test_lists_of_everything_are_json(capsys: Capture) -> None:
    """An object per line, with named fields."""
    assert run(["list", "--json"]) == 0
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert "assumptions" in kinds


def test_the_help_of_plan_has_what_is_asked_for_often(capsys: Capture) -> None:
    """At most 30 options, in groups, with an example; the rare ones are taken all the same."""
    assert run(["plan", "--help"]) == 0
    said = capsys.readouterr().out
    shown = re.findall(r"^  (--[a-z-]+)", said, re.MULTILINE)
    assert len(shown) <= 30
    assert {"--machine", "--model", "--counts", "--ep-size", "--out"} <= {*shown}
    assert "--hold-out-steps" not in shown
    for heading in ("Limits:", "Whole layers:", "Expert parallelism:", "Output:", "Example:"):
        assert f"\n{heading}\n" in said


def test_the_short_forms_are_those_of_options_that_there_are(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`solve -m METHOD -o FILE` is what the long forms are; `dir` shows public names alone."""
    instance = str(next((root / "instances/tri_domain/esft-fair").glob("*.json")))
    short, long = tmp_path / "short.json", tmp_path / "long.json"
    assert run(["solve", instance, "-m", "trimoe", "-o", str(short)]) == 0
    assert run(["solve", instance, "--method", "trimoe", "--out", str(long)]) == 0
    assert short.read_text() == long.read_text()
    capsys.readouterr()
    assert run(["gap", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--jobs, -j" in shown
    assert "--methods, -m" in shown
    plain = {name for name in dir(moeopt) if not name.startswith("__")}
    assert {"Any", "TYPE_CHECKING", "import_module"}.isdisjoint(plain)
