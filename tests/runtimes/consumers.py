"""Running the consumers' own code: each in a process of its own, on files that were exported."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.runtimes.fetch import FOLDER

CHILDREN = Path(__file__).with_name("children")


def fetched(name: str) -> Path:
    """Return the folder of a package that `fetch.py` has fetched, or skip the test."""
    folder = Path(os.environ.get("MOEOPT_RUNTIMES", FOLDER)) / name
    if not folder.is_dir():
        pytest.skip(f"{name} is not there: run python tests/runtimes/fetch.py")
    return folder


def source(variable: str, file: str, what: str) -> Path:
    """Return a file in the folder that an environment variable names, or skip the test."""
    tree = os.environ.get(variable)
    if not tree:
        pytest.skip(f"{variable} does not name the folder of {what}")
    path = Path(tree) / file
    if not path.is_file():
        pytest.skip(f"{variable}: {path} is not there")
    return path


@dataclass(frozen=True)
class LlamaCpp:
    """llama.cpp or ik_llama.cpp as CMake built it, with shared libraries.

    Attributes
    ----------
    build, sources
        Folders.
    parser
        Source file, among `CHILDREN`, of a program that says what its parser reads.
    libraries
        That such a program is linked with, by their places in the build.
    """

    build: Path
    sources: Path
    parser: str = "llama_cpp_parse.cpp"
    libraries: tuple[str, ...] = tuple(
        f"bin/lib{name}.so" for name in ("llama-common", "llama", "ggml", "ggml-base")
    )

    @property
    def programs(self) -> Path:
        """The folder of programs, and of llama.cpp's libraries."""
        return self.build / "bin" if (self.build / "bin").is_dir() else self.build

    def compiled(self, file: Path, folder: Path) -> Path:
        """Return a program made of a source file and the libraries."""
        program = folder / file.stem
        folders = ("common", "include", "ggml/include", "ggml/src", "src", "vendor")
        includes = [f"-I{self.sources / name}" for name in folders]
        paths = [self.build / name for name in self.libraries]
        places = [f"-Wl,-rpath,{path.parent}" for path in paths]
        command = ["c++", "-std=c++17", *includes, str(file), "-o", str(program)]
        command += [*map(str, paths), *places, "-Wl,--allow-shlib-undefined"]
        subprocess.run(command, check=True)
        return program


def llama_cpp(runtime: str = "llama.cpp") -> LlamaCpp:
    """Return what ``LLAMA_CPP_BUILD`` or ``IK_LLAMA_CPP_BUILD`` names, or skip the test."""
    of_ik = runtime == "ik_llama.cpp"
    variable = "IK_LLAMA_CPP_BUILD" if of_ik else "LLAMA_CPP_BUILD"
    cache = source(variable, "CMakeCache.txt", f"{runtime}, built")
    home = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache.read_text(), re.MULTILINE)
    assert home
    found = LlamaCpp(cache.parent.resolve(), Path(home[1]))
    if not of_ik:
        return found
    return replace(found, parser="ik_llama_cpp_parse.cpp", libraries=IK_LIBRARIES)


IK_LIBRARIES = (
    "common/CMakeFiles/build_info.dir/build-info.cpp.o", "common/libcommon.a", "src/libllama.so",
    "ggml/src/libggml.so",
)  # fmt: skip


def needs(*modules: str) -> None:
    """Skip the test unless these modules are installed."""
    for name in modules:
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed: pip install -e '.[test,runtimes]'")


def child(script: str, given: Any, *paths: Path) -> Any:
    """Return what a script of `children` makes of its argument, JSON both.

    Parameters
    ----------
    paths
        Folders that it imports from, before all others.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run(
        [sys.executable, str(CHILDREN / script), json.dumps(given)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
