"""llama.cpp: the layers that it keeps on the CPU are the plan's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runtimes.consumers import llama_cpp, needs

pytestmark = pytest.mark.runtimes


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
