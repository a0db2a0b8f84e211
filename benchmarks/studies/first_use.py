"""What a command costs at least, and the first use of each problem on a machine.

    python benchmarks/studies/first_use.py [commands] [problems] [warm]

CPU seconds of whole processes, user and system, the least of three; `problems` and `warm` have an
empty folder of kernels. Beside, the heavy modules that a command loads, or the kernels compiled.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import moeopt
from benchmarks.rooms.problems import PROBLEMS

LIBRARY = Path(__file__).parents[2] / "instances"
LAYER = "tri_domain/esft-fair/fair-law-layer4-batch64.json"
MODEL = ("--machine", "2xrtx3090+epyc-7002", "--model", "glm-4.5-air", "--bits", "Q4_K_M")
MADE = ("--machine", "trimoe", "--model", "deepseek-v2-lite", "--workload", "trimoe-skew")

COMMANDS: dict[str, tuple[str, ...]] = {
    "--help": ("--help",),
    "list methods": ("list", "methods"),
    "generate": ("generate", "tri_domain", *MADE, "--batch", "64"),
    "predict": ("predict", *MODEL, "--context", "32k"),
    "check": ("check", str(LIBRARY / LAYER), str(LIBRARY / LAYER.replace("/", "/solutions/", 1))),
    "solve, a rule": ("solve", str(LIBRARY / LAYER), "--method", "trimoe"),
    "solve, the own method": ("solve", str(LIBRARY / LAYER), "--method", "threshold"),
    "gap of one": ("gap", str(LIBRARY / LAYER)),
    "explain": ("explain", str(LIBRARY / LAYER)),
    "plan": ("plan", *MODEL, "--context", "32k"),
}

INSTANCES = {
    "tri_domain": LAYER,
    "tri_domain, searched": "tri_domain/channels/channels-deepseek-v2-batch256-seed0.json",
    "relayout": "relayout/esft-streams/streams-intent-layer11-batch32.json",
    "layout": "layout/esft-first-later/intent-layer4-window0.json",
    "layout, two windows, 1 unit": "layout/esft-windows/law-layer12-windows2.json",
    "deferral": "deferral/few-layers/deepseek-v3-bf16-layers1.json",
    "balance": "balance/decode-resident/decode-resident-mixtral-coding-layer8.json",
    "cache": "cache/synthetic/mixtral-8x22b-rtx4090-7960x.json.gz",
    "bitwidth": "bitwidth/coarse/phi-3.5-moe-width-per-model.json.gz",
    "placement": "placement/free-dispatch-batch/esft-intent-free-dispatch-batch32-share0.4.json.gz",
    "joint": "joint/few-layers/mixtral-2-layers-ways0.json",
    "replication": "replication/esft-moves/esft-law-moves0.json",
    "split": "split/two-gpus/2xrtx3090+epyc-7002-gpt-oss-120b-Q4_K_M.json",
}
UNITS, OPEN_UNITS = "5", {"layout, two windows, 1 unit": "1"}
"""Limits of work; an instance that stays open uses all of it, with kernels at hand or without."""

HEAVY = ("numba", "scipy.linalg", "ortools", "pandas", "networkx", "rich")

RUN = """
import sys
from benchmarks.rooms.cli import main
try:
    main(sys.argv[1:])
finally:
    print(*(set({heavy!r}) & set(sys.modules)), file=sys.stderr)
"""


def main() -> None:
    """Run the command line."""
    for part in sys.argv[1:] or ["commands", "problems", "warm"]:
        for line in {"commands": commands, "problems": problems, "warm": warmed}[part]():
            print(line, flush=True)


def commands() -> Iterator[str]:
    """Yield the table of commands, kernels at hand."""
    yield "| command | CPU s | loads |\n|---|---:|---|"
    for name, arguments in COMMANDS.items():
        runs = [run(*arguments) for _ in range(3)]
        loaded = sorted(runs[0][1], key=HEAVY.index)
        yield f"| {name} | {min(seconds for seconds, _ in runs):.2f} | {', '.join(loaded) or '-'} |"


def problems() -> Iterator[str]:
    """Yield the table of problems, each with its own exact method and an empty cache."""
    yield "| problem | CPU s | of them again | kernels |\n|---|---:|---:|---:|"
    for name, file in INSTANCES.items():
        method = PROBLEMS[name.partition(",")[0]].exact[0].name
        limit = OPEN_UNITS.get(name, UNITS)
        arguments = ("solve", str(LIBRARY / file), "--method", method, "--work-limit", limit)
        with tempfile.TemporaryDirectory() as cache:
            first, again = (run(*arguments, MOEOPT_CACHE_DIR=cache)[0] for _ in range(2))
            kernels = len(list(Path(cache).rglob("*.nbi")))
        yield f"| {name} | {first:.2f} | {again:.2f} | {kernels} |"


def warmed() -> Iterator[str]:
    """Yield what `moeopt warm` takes."""
    with tempfile.TemporaryDirectory() as cache:
        seconds, _ = run("warm", "--jobs", "1", MOEOPT_CACHE_DIR=cache)
        kernels = len(list(Path(cache).rglob("*.nbi")))
    yield f"`moeopt warm`: {seconds:.1f} CPU s, {kernels} kernels"


def run(*arguments: str, **variables: str) -> tuple[float, list[str]]:
    """Run a command; return its CPU seconds, and the heavy modules that it loaded."""
    child = subprocess.Popen(
        [sys.executable, "-c", RUN.format(heavy=HEAVY), *arguments],
        env=os.environ | variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    said = child.stderr.read().splitlines()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise moeopt.MoeoptError("\n".join(said))
    return used.ru_utime + used.ru_stime, said[-1].split()


if __name__ == "__main__":
    main()
