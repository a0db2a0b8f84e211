"""llama.cpp from the source package of ``llama-cpp-python``: fetch, build for the CPU, run."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
"""The source package, which holds llama.cpp's sources, and its pinned version: the newest when this
was written. It names llama.cpp's commit; another one has other kernels, and so other speeds."""

GGUF_VERSION = "0.19.0"
"""Of the package ``gguf`` that writes the models: the one beside llama.cpp in those sources."""

BUILD_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    *(f"-DLLAMA_{part}=OFF" for part in ("BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_SERVER")),
    *(f"-DLLAMA_{part}=OFF" for part in ("BUILD_APP", "OPENSSL")),
)
"""Everything else is llama.cpp's default: kernels for this CPU, threads by OpenMP."""

WITH_RPC = ("-DGGML_RPC=ON", "-DBUILD_SHARED_LIBS=ON")
"""Besides, for running a plan; tests link llama.cpp's parser from its shared libraries."""

PROGRAMS = ("llama-completion", "llama-imatrix", "ggml-rpc-server")
"""What running a plan needs."""

NICENESS = 10


@dataclass(frozen=True)
class Tools:
    """What `prepare` leaves in the work folder."""

    work: Path

    @property
    def bench(self) -> Path:
        """The program ``llama-bench``."""
        return self.work / "build" / "bin" / "llama-bench"

    @property
    def python(self) -> Path:
        """The Python that has the package ``gguf``."""
        return self.work / "python" / "bin" / "python"


def prepare(work: Path, jobs: int) -> Tools:
    """Fetch the sources, build llama-bench and install ``gguf``; what is there stays.

    Parameters
    ----------
    work
        Folder for all of it, about 1 GB.
    jobs
        Compilers at once; 5 to 20 minutes of CPU time in all.
    """
    tools = Tools(work)
    work.mkdir(parents=True, exist_ok=True)
    if not tools.bench.exists():
        _build(_sources(work), work / "build", jobs, [tools.bench.name])
    _install_gguf(tools)
    return tools


def prepare_with_rpc(work: Path, jobs: int) -> Path:
    """Build llama.cpp's programs for running a plan, with devices of other machines.

    Such a device, here on the loopback address, stands in for a GPU: what is not kept on the CPU is
    sent to it.

    Parameters
    ----------
    work, jobs
        As for `prepare`.

    Returns
    -------
    Path
        The folder with `PROGRAMS`.
    """
    programs = work / "build-rpc" / "bin"
    work.mkdir(parents=True, exist_ok=True)
    if not all((programs / name).exists() for name in PROGRAMS):
        _build(_sources(work), programs.parent, jobs, PROGRAMS, WITH_RPC)
    _install_gguf(Tools(work))
    return programs


def _install_gguf(tools: Tools) -> None:
    """Make a virtual environment with the package ``gguf``."""
    if not tools.python.exists():
        run([sys.executable, "-m", "venv", str(tools.work / "python")])
    run([str(tools.python), "-m", "pip", "install", "--quiet", f"gguf=={GGUF_VERSION}"])


def run(command: Sequence[str], threads: int | None = None) -> str:
    """Run a command and return its standard output; its errors go to the terminal.

    Parameters
    ----------
    command
        The program and its arguments.
    threads
        On how many CPUs it may run, the first ones of this process; by default on all.
    """

    def narrow() -> None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])

    before = narrow if threads is not None and hasattr(os, "sched_setaffinity") else None
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, preexec_fn=before)
    if done.returncode:
        raise SystemExit(f"exit status {done.returncode}: {' '.join(command)}")
    return done.stdout


def bench(
    tools: Tools, model: Path, threads: int, tokens: int, repetitions: int
) -> list[dict[str, Any]]:
    """Return what llama-bench says of decoding one token after the other, from an empty context.

    Parameters
    ----------
    tools
        With the program.
    model
        First shard of a model. The program runs in its folder, so that no path is in the output.
    threads, tokens, repetitions
        ``-t``, ``-n`` and ``-r`` of llama-bench.
    """
    numbers = {"-t": threads, "-n": tokens, "-p": 0, "-r": repetitions}
    options = [str(word) for pair in numbers.items() for word in pair]
    command = [str(tools.bench.resolve()), "-m", model.name, *options, "-o", "json"]
    done = subprocess.run(command, cwd=model.parent, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"llama-bench, exit status {done.returncode}: {done.stderr[-2000:]}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def _sources(work: Path) -> Path:
    """Return the folder of llama.cpp's sources."""
    folder = work / f"{PACKAGE.replace('-', '_')}-{VERSION}"
    if not folder.exists():
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        # pip asks the package for its metadata, for which it needs build tools: as wheels
        run([*pip, "--no-binary", PACKAGE, "--dest", str(work), f"{PACKAGE}=={VERSION}"])
        part = work / "unpacking"
        with tarfile.open(work / f"{folder.name}.tar.gz") as archive:
            archive.extractall(part, filter="data")
        (part / folder.name).rename(folder)
        part.rmdir()
    return folder / "vendor" / "llama.cpp"


def _build(
    sources: Path, build: Path, jobs: int, programs: Sequence[str], options: Sequence[str] = ()
) -> None:
    for tool in ("cmake", "c++"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is missing: install cmake and a C++ compiler")
    commit = BUILD_COMMIT.search((sources.parents[1] / "CHANGELOG.md").read_text())
    named = [f"-DLLAMA_BUILD_COMMIT={commit[1]}"] if commit else []
    nice = ["nice", "-n", str(NICENESS)]
    run(["cmake", "-S", str(sources), "-B", str(build), *BUILD_OPTIONS, *options, *named])
    run([*nice, "cmake", "--build", str(build), "--target", *programs, "-j", str(jobs)])


BUILD_COMMIT = re.compile(r"ggml-org/llama\.cpp@([0-9a-f]{7,40})")
"""In the package's list of changes, the newest first: the commit that its sources are of."""
