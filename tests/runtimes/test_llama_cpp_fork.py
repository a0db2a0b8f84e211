"""The fork of llama.cpp that keeps chosen experts on the GPU: it takes our profile, we its trace.

`LLAMA_CPP_FORK_PROGRAMS` names a folder with its ``llama-completion``, ``llama-moe-trace`` and
``ggml-rpc-server``, built with RPC: a server on the loopback address stands in for the GPU.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import moeopt
from benchmarks.real.hand_over import rpc_server
from benchmarks.traces.formats import read_published
from tests.exporters.placements import instance, plan
from tests.rooms.sim import get_model
from tests.runtimes.consumers import needs

pytestmark = pytest.mark.runtimes

LAYERS, EXPERTS, TOP_K = 4, 5, 2
CACHED = re.compile(r"expert cache: (\d+) layers x (\d+) slots, ([0-9.]+) MiB uploaded to RPC")


@pytest.fixture
def programs() -> Path:
    """Return the folder of the fork's programs, or skip the test."""
    needs("gguf")
    folder = os.environ.get("LLAMA_CPP_FORK_PROGRAMS")
    if not folder:
        pytest.skip("LLAMA_CPP_FORK_PROGRAMS does not name a folder with the fork's programs")
    return Path(folder)


@pytest.fixture
def model(root: Path, tmp_path: Path) -> Path:
    """Return a small model of random weights, with the layers and experts of the tests' plans."""
    file = tmp_path / "small.gguf"
    script = str(root / "benchmarks" / "real" / "small_model.py")
    shape = ["--layers", str(LAYERS), "--experts", str(EXPERTS)]
    subprocess.run([sys.executable, script, str(file), *shape], check=True)
    return file


def test_the_fork_caches_what_the_profile_says(programs: Path, model: Path, tmp_path: Path) -> None:
    """As many slots of each layer as the plan has experts, filled with as many bytes."""
    given = instance(0, slots=LAYERS * EXPERTS)
    slots = 3
    gpu = [[(layer + step) % EXPERTS for step in range(slots)] for layer in range(LAYERS)]
    exported = moeopt.export(plan(given, gpu), given, to="llama.cpp-profile", model=model)
    path, _ = exported.save(tmp_path / "profile.csv")
    assert exported.flags is not None
    program = str(programs / "llama-completion")
    with rpc_server(programs) as address:
        more = ["--rpc", address, "-p", "text", "-n", "2", "-c", "64", "-no-cnv", "-v"]
        done = subprocess.run(
            [program, "-m", str(model), *exported.flags(path).split(), *more],
            capture_output=True,
            check=False,
            timeout=300,
        )
    log = done.stderr.decode(errors="replace")
    assert done.returncode == 0, log[-2000:]
    found = CACHED.findall(log)
    assert found, log[-2000:]
    layers, per_layer, mib = found[-1]
    assert (int(layers), int(per_layer)) == (LAYERS, slots)
    expected = LAYERS * slots * get_model(model).expert_bytes / 2**20
    assert float(mib) == pytest.approx(expected, abs=0.006)


def test_its_recordings_are_read(programs: Path, model: Path, tmp_path: Path) -> None:
    """Prompt and decoded tokens, every layer, as many experts as the model uses."""
    file = tmp_path / "routing.csv"
    text = "the model runs on some memory of this machine"
    words = ["-m", str(model), "-p", text, "-n", "12", "-c", "128", "-b", "16", "-ub", "16"]
    done = subprocess.run(
        [str(programs / "llama-moe-trace"), *words],
        env=os.environ | {"MOE_TRACE_OUT": str(file)},
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    trace = read_published(file, "moe-trace-csv")
    assert trace.facts is not None
    assert trace.facts["format"] == "moe-trace-csv"
    assert trace.topk_ids.shape[1:] == (LAYERS, TOP_K)
    assert trace.decode is not None
    decoded = int(trace.decode.sum())
    assert 0 < decoded <= 12
    spelled = "\u2581" + text.replace(" ", "\u2581")  # as llama.cpp spells spaces
    assert trace.tokens - decoded == len(spelled.encode()) + 1  # each byte, after the beginning
    assert (trace.topk_ids[trace.decode] >= 0).all()
    first = trace.topk_ids[~trace.decode][:, : LAYERS - 1]
    assert (first >= 0).all()
    assert trace.topk_ids.max() < EXPERTS
