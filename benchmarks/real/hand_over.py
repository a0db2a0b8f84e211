"""From a GGUF file to a plan and on to llama.cpp: what is exported is what llama.cpp does.

    python benchmarks/real/hand_over.py [--work DIR] [--programs DIR] [--jobs N]

Builds llama.cpp, writes a small random mixture-of-experts model, counts its experts with
``llama-imatrix``, runs ``moeopt plan --model x.gguf --counts imatrix.gguf --export`` for a GPU that
is too small for it, and starts llama.cpp with exactly the exported flags, and by the script beside.
An RPC server on the loopback address stands in for the GPU. Fails unless llama.cpp's log says that
just the planned tensors were overridden, and that everything else was offloaded.
"""

import argparse
import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.real.llama_cpp import PROGRAMS, prepare, python_of, run  # noqa: E402

WORK = ROOT / "build" / "real"
"""By default; git ignores ``build/``."""

LAYERS, EXPERTS = 6, 16
GPU_GB = 0.007
"""Room for the model without its experts, and for half of these."""

MATRICES = ("gate", "up", "down")
OVERRIDDEN = re.compile(r"[tT]ensor (\S+) \(.*\) buffer type overridden to (\S+)")
OFFLOADED = re.compile(r"offloaded (\d+)/(\d+) layers to GPU")
WORDS = "the a expert model runs on some memory of this that where plan token layer"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=WORK, help="work folder, about 1 GB")
    parser.add_argument(
        "--programs", type=Path, help=f"folder with {', '.join(PROGRAMS)}: no build"
    )
    parser.add_argument("--python", type=Path, help="Python with gguf, where --programs is given")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="compilers at once")
    options = parser.parse_args()
    programs = options.programs or prepare(options.work, options.jobs)
    python = options.python or python_of(options.work)
    folder = options.work / "hand-over"
    folder.mkdir(parents=True, exist_ok=True)
    model = made_model(folder, python)
    exported = plan(folder, model, counted(folder, model, programs))
    planned = planned_tensors(exported)
    flags = exported.read_text().split()
    script = exported.with_name(exported.name + ".run.sh")
    program = str((programs / "llama-completion").resolve())
    with rpc_server(programs) as address:
        more = ["--rpc", address, "-p", "text", "-n", "2", "-c", "64", "-no-cnv", "-v"]
        logs = {
            "its flags": started([program, "-m", str(model.resolve()), *flags, *more], folder),
            "its script": started(["sh", str(script.resolve()), str(model.resolve()), *more],
                                  folder, LLAMA_SERVER=program),
        }  # fmt: skip
    for name, log in logs.items():
        check(name, log, planned)
        print(f"{name}: {len(planned)} tensors kept on the CPU, all others offloaded: as planned")


def made_model(folder: Path, python: Path) -> Path:
    """Return a small model, written unless it is there."""
    model = folder / "small.gguf"
    if not model.exists():
        shape = ["--layers", str(LAYERS), "--experts", str(EXPERTS)]
        run([str(python), str(Path(__file__).with_name("small_model.py")), str(model), *shape])
    return model


def counted(folder: Path, model: Path, programs: Path) -> Path:
    """Return the importance matrix of some words: how often each expert was used."""
    text, counts = folder / "text.txt", folder / "imatrix.gguf"
    rng = random.Random(0)
    text.write_text(" ".join(rng.choice(WORDS.split()) for _ in range(700)))
    command = [str(programs / "llama-imatrix"), "-m", str(model), "-f", str(text)]
    started([*command, "-o", str(counts.resolve()), "-c", "128"], folder)
    return counts


def plan(folder: Path, model: Path, counts: Path) -> Path:
    """Return the exported flags of a plan for a GPU that is too small for the model."""
    machine, out = folder / "machine.json", folder / "plan"
    moeopt = [sys.executable, "-m", "moeopt"]
    small = ["machine", "set", "rtx4090-7960x", f"gpu.capacity_gib={GPU_GB}", "--out", str(machine)]
    run([*moeopt, *small])
    given = ["--machine", str(machine), "--model", str(model), "--counts", str(counts)]
    room = ["--reserved-gib", "0", "--host-reserved-gib", "0", "--context", "128"]
    short = ["--steps", "40", "--joint-time", "0", "--time-limit", "20"]
    run([*moeopt, "plan", *given, *room, *short, "--export", str(out)])
    return out / "residency-llama.cpp.txt"


def planned_tensors(exported: Path) -> set[str]:
    """Return the tensors that the plan keeps on the CPU, by the notes beside the flags."""
    notes = json.loads(exported.with_name(exported.name + ".notes.json").read_text())
    layers = notes["cpu_layers"]
    if not 0 < len(layers) < LAYERS:
        raise SystemExit(f"the plan keeps layers {layers} on the CPU: some, not all, are wanted")
    return {f"blk.{layer}.ffn_{kind}_exps.weight" for layer in layers for kind in MATRICES}


def check(name: str, log: str, planned: set[str]) -> None:
    """Leave with an error unless llama.cpp kept these tensors on the CPU, and no others."""
    found = {tensor for tensor, _ in OVERRIDDEN.findall(log)}
    buffers = {buffer for _, buffer in OVERRIDDEN.findall(log)}
    if found != planned or buffers != {"CPU"}:
        raise SystemExit(f"{name}: overridden to {buffers}: {sorted(found ^ planned)} differ")
    layers = {(of, all_of) for of, all_of in OFFLOADED.findall(log)}
    if layers != {(str(LAYERS + 1), str(LAYERS + 1))}:
        raise SystemExit(f"{name}: offloaded {layers}, not all of {LAYERS + 1} layers")


def started(command: list[str], folder: Path, **environment: str) -> str:
    """Run a program to its end and return what it says on both streams, which is kept as well."""
    done = subprocess.run(
        command,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=600,
    )
    (folder / "last.log").write_text(done.stdout)
    if done.returncode:
        raise SystemExit(f"exit status {done.returncode}: {command}: {done.stdout[-2000:]}")
    return done.stdout


@contextmanager
def rpc_server(programs: Path) -> Iterator[str]:
    """Run an RPC server on a free port of the loopback address, and yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(programs / "ggml-rpc-server")]
    if not Path(command[0]).exists():  # as ik_llama.cpp calls it
        command = [str(programs / "rpc-server"), "-cpu"]
    command += ["-H", "127.0.0.1", "-p", str(port), "-t", "1"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        else:
            raise SystemExit("the RPC server does not answer")
        yield f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
