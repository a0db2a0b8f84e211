"""Fetch what the tests of `runtimes` need and what cannot be installed beside everything else.

    python tests/runtimes/fetch.py [FOLDER]

Packages of single consumers, each in a folder of its own and without what they depend on: of SGLang
and its fork in KTransformers one or two modules are run, which need no GPU. The versions are those
that the table in README.md names. 0.5 GB, half a minute.
Beside OR-tools the solvers' packages must not be installed: PuLP imports what it finds of them, and
OR-tools then fails on symbols that both have.
"""

import subprocess
import sys
from pathlib import Path

PACKAGES = {
    "sglang": "0.5.23",
    "sglang-kt": "0.7.2",
    "kt-kernel": "0.7.2",
    "highspy": "1.15.1",
    "pyscipopt": "6.3.0",
}

FOLDER = Path(__file__).resolve().parents[2] / "build" / "runtimes"
"""By default; git ignores ``build/``."""


def main() -> None:
    """Run the command line."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
    for name, version in PACKAGES.items():
        target = folder / name
        if not target.exists():
            subprocess.run([*pip, "--target", str(target), f"{name}=={version}"], check=True)


if __name__ == "__main__":
    main()
