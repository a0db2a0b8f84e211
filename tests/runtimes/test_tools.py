"""MILP solvers on exported files, and transformers' own config.json."""

import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pulp
import pytest

import moeopt
from tests.rooms.cli import run
from tests.rooms.sim import get_model
from tests.runtimes.consumers import child, fetched, needs

pytestmark = pytest.mark.runtimes

MIXTRAL = "instances/cache/mixtral/mixtral-coding-threads24.json.gz"


@pytest.mark.parametrize("to", ["lp", "mps"])
@pytest.mark.parametrize("solver", ["highs", "scip", "cbc"])
def test_solvers_answers_are_checked(
    solver: str, to: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each in a process of its own, as HiGHS' package and OR-tools exclude each other in one."""
    given = moeopt.load(root / MIXTRAL)
    model, _ = moeopt.export(given, to=to).save(tmp_path / f"m.{to}")
    answer = tmp_path / "a.sol"
    if solver == "cbc":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # from PuLP 4 on it brings no CBC
            program = shutil.which("cbc") or pulp.PULP_CBC_CMD().path
        subprocess.run([program, model, "solve", "solution", answer], check=True)
    else:
        package = fetched({"highs": "highspy", "scip": "pyscipopt"}[solver])
        child("solver.py", {"solver": solver, "model": str(model), "out": str(answer)}, package)
    capsys.readouterr()
    assert run(["check", str(root / MIXTRAL), str(answer)]) == 0
    captured = capsys.readouterr()
    best = moeopt.solve(given).objective
    assert captured.out == f"{answer}: valid, objective {best:,} ns, equals best known\n"
    assert captured.err == ""


def test_classes_are_read_from_transformers_own_files(tmp_path: Path) -> None:
    """The `config.json` that transformers writes for a model names its class."""
    needs("transformers")
    script = (
        "import transformers, sys\n"
        "for name in ('Mixtral', 'Qwen3Moe', 'Olmoe', 'DeepseekV3'):\n"
        "    config = getattr(transformers, name + 'Config')()\n"
        "    config.architectures = [name + 'ForCausalLM']\n"
        "    assert hasattr(transformers, name + 'ForCausalLM')\n"
        "    config.save_pretrained(sys.argv[1] + '/' + name)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True)
    for name in ("Mixtral", "Qwen3Moe", "Olmoe", "DeepseekV3"):
        assert get_model(tmp_path / name / "config.json").model_class == f"{name}ForCausalLM"
