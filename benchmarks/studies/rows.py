"""The claims on speed, row by row, on the library and on instances that nothing was tuned on.

    python benchmarks/studies/rows.py [ROW ...] [--count 12] [--beside 2] [--traces DIR] [--work F]

ROW is the beginning of a name, e.g. ``layout`` or ``"replication, 8"``; without any, all rows. DIR
(or MOEOPT_TRACES) holds the real traces; rows that need one are left out without.

A row with a search has the problem's own method on one core: the gap that is left (median /
largest), how many are proven, CPU seconds; on the first ``--beside`` instances CP-SAT and HiGHS at
the same work, too (HiGHS's root ends by no work limit: at twice as many seconds). Its fresh
instances are of two traces that nothing was tuned on, or of laws with seeds from 101 on.
``--work`` is a factor on all work limits. The others call the studies that measure them. With
``--confirm`` the rows with a search say instead what the second reason of a proof costs.
"""

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle, product
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import moeopt
from benchmarks.rooms.problems import PROBLEMS
from benchmarks.rooms.replication import Instance as Copies
from benchmarks.rooms.solvers import warm
from benchmarks.studies import ablation, first_use
from benchmarks.studies.ablation import DECODE, ESFT, FAST, LITE, MIXTRAL, SKEW, Fresh
from benchmarks.studies.replication import LAWS, SIZES, WORKS, kernel_of, loads

ENGINES = ("cp-sat", "milp")
SEED = 101
LAYERS = [2, 4, 6, 8, 10, 13, 15, 17, 19, 21, 23, 25]
STARTS = [300, 1100, 2300, 3500, 4700, 5900]
WINDOWS = LITE | {"trace": f"{ESFT}/summary.npz", "batch": 256, "first_window": 0, "seed": 0,
                  "layout_from": "none", "layer": LAYERS}  # fmt: skip
BOUND = DECODE | FAST | {"trace": f"{ESFT}/summary.npz", "seed": 0}
BATCH = {"gpu_us": 60, "gpu_us_per_token": 4, "offload_us": 150, "offload_us_per_token": 15}
PLAN = {"machine": "rtx4090-7960x", "model": "mixtral-8x7b", "seed": 0, "max_deferred": 1,
        "trace": f"{MIXTRAL}/extraction.npz", "first_step": STARTS}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A claim about a search: units of work, patterns in the library, and fresh instances."""

    name: str
    work: float
    library: tuple[str, ...]
    fresh: Fresh | Callable[[int], list[Any]]


def copies(windows: int, count: int) -> list[Any]:
    """Return instances of 256 experts with 256 tokens a device, by two laws in turn."""
    found = []
    for n, (work, (devices, slots)) in zip(
        range(count), cycle(product(WORKS, SIZES)), strict=False
    ):
        drawn = loads(LAWS[n % 2], windows, SEED + n, 256 * devices)
        given = {"devices": devices, "slots": slots, "name": f"seed{SEED + n}"} | kernel_of(work)
        found.append(Copies.from_arrays(loads=drawn, **given))
    return found


ROWS = (
    Row("layout, 4 windows", 30, ("layout/*windows/*windows4",), (WINDOWS | {"windows": 4},)),
    Row("layout, 8 windows", 30, ("layout/*windows/*windows8",), (WINDOWS | {"windows": 8},)),
    Row("layout, 16 windows", 30, (), (WINDOWS | {"windows": 16},)),
    Row("layout, 1 ns", 10, ("layout/roofline/*", "layout/nanoseconds/*"),
        (SKEW | {"model": ["deepseek-v2", "qwen3-235b-a22b", "glm-4.5-air", "deepseek-v3"],
                 "seed": [SEED, SEED + 1, SEED + 2], "batch": 256, "hbm_slots": 6, "quantum_ns": 1,
                 "layout_from": "none"},)),
    Row("replication, 8 windows", 10, ("replication/v3-windows/*",), partial(copies, 8)),
    Row("replication, one window", 10,
        ("replication/v3/*", "replication/v3-kernel/*", "replication/v3-more-devices/v3-64x5*"),
        partial(copies, 1)),
    Row("placement, the GPU binds", 20, ("placement/gpu-bound*/*",),
        (BOUND | {"batch": 1, "steps": 200, "share": 0.6, "first_step": STARTS},
         BOUND | BATCH | {"batch": 32, "steps": 100, "share": 0.8,
                          "first_step": [0, 30, 60, 90, 120, 150]})),
    Row("joint, Mixtral, 20 steps", 20, ("joint/mixtral/*",),
        (PLAN | {"steps": 20, "bits": "2,4,8", "reserved_gib": 2.0,
                 "quality_loss": [0.01, 0.03]},)),
    Row("joint, with caches", 20, ("joint/few-layers/*ways2",),
        (PLAN | {"layers": 4, "steps": 6, "share": 0.4, "bits": "4,8", "quality_loss": 0.05,
                 "max_ways": [1, 2]},)),
)  # fmt: skip


def searches(rows: list[Row], given: argparse.Namespace) -> Iterator[str]:
    """Yield the table of rows with a search."""
    yield (f"| row | instances | gap, median / largest | proven | CPU s "
           f"| on the first {given.beside}: own | CP-SAT | HiGHS |")  # fmt: skip
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for row in rows:
        own = PROBLEMS[row.name.split(",")[0]].exact[0].name
        work = row.work * given.work
        for kind, instances in instances_of(row, given.count):
            all_of = ablation.measured(instances, own, work, [0])
            first = instances[: given.beside]
            cells = [
                gaps(all_of.gaps[: given.beside]),
                *(left_open(first, e, work) for e in ENGINES),
            ]
            figures = f"{gaps(all_of.gaps)} | {all_of.proven} | {all_of.cpu_s / len(instances):.1f}"
            yield f"| {row.name} | {kind} {len(instances)} | {figures} | {' | '.join(cells)} |"


def confirmations(rows: list[Row], given: argparse.Namespace) -> Iterator[str]:
    """Yield what a second reason costs each row's own method, in turn without and with it."""
    yield "| row | instances | own | confirmed | single | open | CPU s without | with |"
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    for row in rows:
        work = row.work * given.work
        for kind, instances in instances_of(row, given.count):
            spent, kinds = [0.0, 0.0], Counter[str]()
            moeopt.solve(instances[0], work_limit=work / 10)  # kernels and solvers
            for number, instance in enumerate(instances):
                found = {}
                for verify in ((False, True), (True, False))[number % 2]:
                    begin = process_time()
                    found[verify] = moeopt.solve(instance, work_limit=work, verify=verify)
                    spent[verify] += process_time() - begin
                closed = found[True].objective == found[True].bound
                kinds[str(found[True].proof) if closed else "open"] += 1
            counts = [kinds[name] for name in ("own", "confirmed", "single", "open")]
            cells = [f"{kind} {len(instances)}", *counts, *(f"{one:.1f}" for one in spent)]
            yield f"| {row.name} | {' | '.join(map(str, cells))} |"


def instances_of(row: Row, count: int) -> Iterator[tuple[str, list[Any]]]:
    """Yield the library's instances of a row and fresh ones, at most so many, if there are any."""
    for kind, source in (("library", row.library), ("fresh", row.fresh)):
        if callable(source):
            yield kind, source(count)
        elif source and ("MOEOPT_TRACES" in os.environ or "trace" not in source[0]):
            like = ablation.Row(row.name.replace(",", ":"), "", source)
            yield kind, ablation.instances_of(like, count)


def gaps(found: list[float]) -> str:
    """Return the median and the largest gap."""
    return f"{median(found):.3f} / {max(found):.3f} %" if found else "-"


def left_open(instances: list[Any], engine: str, work: float) -> str:
    """Return what an engine leaves open on the problem's whole model."""
    limit_s = 2 * work if engine == "milp" else None
    try:
        return gaps(ablation.measured(instances, engine, work, [0], limit_s).gaps)
    except moeopt.InputError as error:
        return str(error)


def simulator(given: argparse.Namespace) -> str:
    """Return the simulator's speed on 64 experts in 26 layers."""
    study = [sys.executable, str(Path(__file__).with_name("engine_speed.py")), "--event-steps", "1"]
    study += ["--steps", f"{1 + 100 * given.work:.0f}", "--model", "deepseek-v2-lite"]
    return subprocess.run(study, check=True, capture_output=True, text=True).stdout.strip()


CALLS: dict[str, Callable[[argparse.Namespace], str]] = {
    "simulator": simulator,
    "commands": lambda _: "\n".join(first_use.commands()),
    "warm": lambda _: "\n".join(first_use.warmed()),
}
"""Rows without a search."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--count", type=int, default=12, help="instances of a row and kind at most")
    parser.add_argument("--traces", type=Path, help="folder with the traces")
    parser.add_argument("--beside", type=int, default=2, help="instances of CP-SAT and HiGHS")
    parser.add_argument("--work", type=float, default=1.0, help="a factor on all work limits")
    parser.add_argument("--confirm", action="store_true", help="what a second reason costs, alone")
    given = parser.parse_args()
    if given.traces:
        os.environ["MOEOPT_TRACES"] = str(given.traces)
    names = tuple(given.rows or [""])
    for name, call in CALLS.items():
        if name.startswith(names) and not given.confirm:
            print(call(given), end="\n\n", flush=True)
    warm()
    table = confirmations if given.confirm else searches
    for line in table([row for row in ROWS if row.name.startswith(names)], given):
        print(line, flush=True)


if __name__ == "__main__":
    main()
