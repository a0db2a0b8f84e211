"""Cache simulators, MILP solvers, Mixture-Compressor and transformers on exported files."""

import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pulp
import pytest

import moeopt
from tests.exporters.test_export_bits import instance as bits_instance
from tests.exporters.trace_rules import csv_requests, lru_hits, oracle_requests
from tests.rooms.bitwidth import Solution as Bits
from tests.rooms.cache import Solution as Ways
from tests.rooms.cli import run
from tests.rooms.sim import get_model
from tests.runtimes.consumers import child, fetched, needs, source

pytestmark = pytest.mark.runtimes

MIXTRAL = "instances/cache/mixtral/mixtral-coding-threads24.json.gz"


def belady(objects: list[int], following: list[int], capacity: int) -> int:
    """Return the hits of evicting what comes back last; what is missed is always taken in."""
    content: dict[int, float] = {}
    hits = 0
    for name, after in zip(objects, following, strict=True):
        hits += name in content
        if name not in content and len(content) == capacity:
            del content[max(content, key=lambda key: content[key])]
        content[name] = after if after >= 0 else float("inf")
    return hits


def test_libcachesim_finds_the_misses_of_every_layer(root: Path, tmp_path: Path) -> None:
    """With the plan's ways, LRU and Belady, in both formats. All at once says nothing."""
    needs("libcachesim")
    given: Any = moeopt.load(root / MIXTRAL)
    plan = moeopt.solve(given).solution
    assert isinstance(plan, Ways)
    runs: list[tuple[str, str, int]] = []
    expected: list[float] = []
    for to in ("libcachesim", "libcachesim-oracle"):
        exported = moeopt.export(plan, given, to=to)
        path, _ = exported.save(tmp_path)
        for layer, ways in enumerate(plan.ways):
            if not ways:
                continue
            file = path.with_name(f"{path.name}.layer{layer}{path.suffix}")
            if path.suffix == ".csv":
                objects = [name for _, name, _ in csv_requests(file.read_text())]
                hits = lru_hits(objects, ways)
            else:
                requests, following = oracle_requests(file.read_bytes())
                objects = [name for _, name, _ in requests]
                hits = belady(objects, following, ways)
            runs.append((str(file), "LRU" if path.suffix == ".csv" else "Belady", ways))
            expected.append(1 - hits / len(objects))
    assert child("cachesim.py", runs) == pytest.approx(expected, abs=1e-9)
    assert max(expected[: len(expected) // 2]) < 0.95
    whole = moeopt.export(given, to="libcachesim").save(tmp_path)[0]
    assert child("cachesim.py", [(str(whole), "LRU", given.slots)]) == [1.0]


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


@pytest.mark.parametrize(("widths", "wbits"), [((1, 2, 3), 2), ((2, 3, 4), 3), ((4, 4, 4), 3)])
def test_mixture_compressor_reads_the_plans_bits(
    widths: tuple[int, ...], wbits: int, tmp_path: Path
) -> None:
    """Through the statements of `main.py` that sort experts into low and high bits."""
    main = source("MIXTURE_COMPRESSOR_SOURCE", "main.py", "Mixture-Compressor")
    given = bits_instance([1, 2, 3, 4], [[9, 8, 7, 6]] * 3, 12)
    exported = moeopt.export(
        Bits(instance="i", bits=(widths, widths[::-1])), given, to="mixture-compressor"
    )
    path, _ = exported.save(tmp_path / "bits.pkl")
    assert exported.notes["wbits"] == wbits
    read = child("mixture.py", {"source": str(main), "file": str(path), "layers": 2})
    for (low, high), row in zip(read, (widths, widths[::-1]), strict=True):
        names = [f"block_sparse_moe.experts.{expert}" for expert in range(3)]
        found = tuple(wbits - (name in low) + (name in high) for name in names)
        assert found == row


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
