"""llama.cpp and the archived KTransformers: the layers they keep on the CPU are the plan's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import moeopt
from tests.exporters.placements import EXPERTS, LAYERS, instance, plan, shape
from tests.runtimes.consumers import child, llama_cpp, needs, source

pytestmark = pytest.mark.runtimes

EXPERTS_CLASS = "ktransformers.operators.experts.KTransformersExperts"


@pytest.mark.parametrize("block", ["mlp", "block_sparse_moe"])
def test_injection_rules_match_every_layers_experts(block: str) -> None:
    """By `gen_optimize_config`, before the general rule of the model's own file; nothing below."""
    needs("torch", "yaml")
    file = "archive/ktransformers/optimize/optimize.py"
    optimize = source("KTRANSFORMERS_SOURCE", file, "KTransformers")
    given = instance(0, slots=LAYERS * EXPERTS)
    on = (1, 2)
    gpu = [list(range(EXPERTS)) if layer in on else [] for layer in range(LAYERS)]
    rules = moeopt.export(plan(given, gpu), given, to="ktransformers-yaml", model=shape(())).text
    general = (
        '- match:\n    name: "^model\\\\.layers\\\\..*"\n  replace:\n    class: default\n'
        '    kwargs:\n      generate_device: "cuda"\n      prefill_device: "cuda"\n'
    )
    names = [f"model.layers.{layer}.{block}" for layer in range(LAYERS)]
    modules = [f"{name}.{part}" for name in names for part in ("gate", "experts.0.up_proj")]
    found = child(
        "injection.py", {"source": str(optimize), "rules": rules + general, "modules": modules}
    )
    for layer, name in enumerate(names):
        replaced, arguments = found[f"{name}.experts"]
        device = "cuda:0" if layer in on else "cpu"
        assert (replaced, arguments["generate_device"]) == (EXPERTS_CLASS, device)
        assert found[f"{name}.gate"][0] == "default"


def test_llama_cpp_overrides_just_the_planned_tensors(root: Path, tmp_path: Path) -> None:
    """From a GGUF file and an importance matrix to the log of llama.cpp, see benchmarks/real."""
    needs("gguf")
    programs = str(llama_cpp().programs)
    script = str(root / "benchmarks" / "real" / "hand_over.py")
    options = ["--work", str(tmp_path), "--programs", programs, "--python", sys.executable]
    done = subprocess.run(
        [sys.executable, script, *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("kept on the CPU, all others offloaded: as planned") == 2
