"""llama.cpp from the source package of ``llama-cpp-python``: fetch, build for the CPU, run."""

import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

PACKAGE, VERSION = "llama-cpp-python", "0.3.36"
"""The source package, which holds llama.cpp's sources, and its pinned version: the newest when this
was written. It names llama.cpp's commit."""

GGUF_VERSION = "0.19.0"
"""Of the package ``gguf`` that writes the model: the one beside llama.cpp in those sources."""

BUILD_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_RPC=ON",
    "-DBUILD_SHARED_LIBS=ON",
    *(f"-DLLAMA_{part}=OFF" for part in ("BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_SERVER")),
    *(f"-DLLAMA_{part}=OFF" for part in ("BUILD_APP", "OPENSSL")),
)
"""Devices of other machines; tests link llama.cpp's parser from its shared libraries."""

PROGRAMS = ("llama-completion", "llama-imatrix", "ggml-rpc-server")
"""What running a plan needs."""

NICENESS = 10


def prepare(work: Path, jobs: int) -> Path:
    """Fetch and build llama.cpp's programs for running a plan, with devices of other machines.

    Such a device, here on the loopback address, stands in for a GPU: what is not kept on the CPU is
    sent to it.

    Parameters
    ----------
    work
        Folder for all of it, about 1 GB.
    jobs
        Compilers at once.

    Returns
    -------
    Path
        The folder with `PROGRAMS`.
    """
    programs = work / "build-rpc" / "bin"
    work.mkdir(parents=True, exist_ok=True)
    if not all((programs / name).exists() for name in PROGRAMS):
        _build(_sources(work), programs.parent, jobs)
    python = python_of(work)
    if not python.exists():
        run([sys.executable, "-m", "venv", str(work / "python")])
    run([str(python), "-m", "pip", "install", "--quiet", f"gguf=={GGUF_VERSION}"])
    return programs


def python_of(work: Path) -> Path:
    """Return the Python that has the package ``gguf``."""
    return work / "python" / "bin" / "python"


def run(command: Sequence[str]) -> str:
    """Run a command and return its standard output; its errors go to the terminal."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"exit status {done.returncode}: {' '.join(command)}")
    return done.stdout


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


def _build(sources: Path, build: Path, jobs: int) -> None:
    for tool in ("cmake", "c++"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is missing: install cmake and a C++ compiler")
    commit = BUILD_COMMIT.search((sources.parents[1] / "CHANGELOG.md").read_text())
    named = [f"-DLLAMA_BUILD_COMMIT={commit[1]}"] if commit else []
    nice = ["nice", "-n", str(NICENESS)]
    run(["cmake", "-S", str(sources), "-B", str(build), *BUILD_OPTIONS, *named])
    run([*nice, "cmake", "--build", str(build), "--target", *PROGRAMS, "-j", str(jobs)])


BUILD_COMMIT = re.compile(r"ggml-org/llama\.cpp@([0-9a-f]{7,40})")
"""In the package's list of changes, the newest first: the commit that its sources are of."""
