"""Problem `split`: how far rules are from the optimum, and predicted against measured speeds.

    python benchmarks/studies/split.py rules                  # by number of GPUs, on the library
    python benchmarks/studies/split.py tensors                # what tensors apart could bring
    python benchmarks/studies/split.py ratio [--cpu-s 2]      # own method, CP-SAT, HiGHS, one run
    python benchmarks/studies/split.py measured --points CSV  # speeds with several GPUs or nodes

CSV has a column ``tok_s``; the settings below belong to its rows, counted from 1. Costs are those
of the shipped profile, to which these points belong (docs/measured.md has them held out).
"""

import argparse
import csv
import json
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import moeopt
from benchmarks.rooms.core import Search, SolvingClock
from benchmarks.rooms.sim import Context, NumaMode, at_bits, devices, get_model
from benchmarks.rooms.sim import Setting as Started
from benchmarks.rooms.split import (
    ASSUMPTIONS,
    HEURISTICS,
    Instance,
    Solution,
    labels,
    objective,
    tensors_apart,
)
from benchmarks.rooms.study import interval, place
from moeopt import get_machine

ROOT = Path(__file__).parents[2]
HOST = -1
"""Stands for the host among GPUs 0, 1, ... of a setting."""

WINDOWS: NumaMode = "one-computes"


@dataclass(frozen=True)
class Setting:
    """What ran: the rows of the file with their contexts, and where layers lay."""

    group: str
    machine: str
    model: str
    bits: str
    rows: dict[int, int]
    attention: Sequence[int]
    experts: Sequence[int]
    numa: NumaMode = "interleaved"
    top_k: int | None = None
    changes: dict[str, Any] = field(default_factory=dict)


def shares(parts: Sequence[int], layers: int) -> list[int]:
    """Return the GPU of each layer as llama.cpp shares them out by ``-ts``."""
    ends = list(accumulate(parts))
    return [
        next(gpu for gpu, end in enumerate(ends) if row * ends[-1] < end * (layers + 1))
        for row in range(layers)
    ]


def settings() -> list[Setting]:
    """Return the settings of public points with several GPUs or nodes, and one GPU beside."""
    large, two = "qwen3-235b-a22b", "rtx5090+rtx4090+epyc-9005"
    one, old = "rtx5090+epyc-9005", "2xp100+2xxeon-e5-v4"
    layers = 94

    def kept(at: Sequence[int], *ranges: tuple[int, int, int]) -> list[int]:
        where = [HOST] * len(at)
        for first, last, gpu in ranges:
            for row in range(first, last + 1):
                where[row] = gpu
        return where

    def own(at: Sequence[int], first: int) -> list[int]:
        return [gpu if row < first else HOST for row, gpu in enumerate(at)]

    alone, halves = [0] * layers, shares([1, 1], layers)
    ts25, ts11, by_memory = (shares(p, layers) for p in ([25, 75], [11, 89], [32, 24]))
    first = [1 if 11 <= row <= 15 else gpu for row, gpu in enumerate(own(halves, 32))]
    second = [1 if row <= 13 else gpu for row, gpu in enumerate(own(halves, 31))]
    air = shares([1, 1], 46)
    nothing = [HOST] * layers
    fast: dict[str, Any] = {"changes": {"dram.speed_mt_s": 6400.0}}
    return [
        Setting("9355", one, large, "IQ3_K", {9: 256, 10: 8448}, alone, own(alone, 15), **fast),
        Setting("9355", one, large, "Q8_0", {13: 256, 14: 8448}, alone, own(alone, 6), **fast),
        Setting("9355", two, large, "IQ3_K", {11: 256, 12: 8448}, ts25, own(ts25, 35), **fast),
        Setting("9355", two, large, "Q8_0", {15: 256, 16: 8448}, ts11, own(ts11, 15), **fast),
        Setting(
            "9355", two, large, "IQ3_K", {1: 256, 2: 8448}, by_memory,
            kept(alone, (0, 19, 0), (20, 33, 1)), **fast,
        ),
        Setting(
            "9355", two, large, "Q8_0", {5: 256, 6: 8448}, by_memory,
            kept(alone, (0, 8, 0), (9, 14, 1)), **fast,
        ),
        Setting(
            "a6000", "2xa6000+epyc-7002", "glm-4.5-air", "Q4_0",
            {147: 512, 148: 4608, 149: 8704, 150: 12800, 151: 16896}, air, air,
        ),
        Setting("p100", old, large, "Q2_K", {59: 64}, halves, first, "isolate"),
        Setting("p100", old, large, "Q2_K", {60: 64}, halves, second, "first-touch"),
        Setting("p100", old, large, "Q2_K", {61: 64}, halves, first, "isolate", 4),
        Setting("p100", old, large, "Q2_K", {62: 64}, halves, first, "interleaved", 4),
        Setting("p100", old, large, "Q2_K", {63: 64}, halves, second, "first-touch", 4),
        Setting("p100", old, large, "IQ3_K", {64: 64}, halves, second, "first-touch", 4),
        Setting(
            "p100", "2xxeon-e5-v4", "qwen3-30b-a3b", "Q4_K_M", {66: 64}, nothing[:48],
            nothing[:48], "first-touch",
        ),
        Setting("skx", "2xxeon-skx", large, "Q8_0", {67: 64, 68: 8256}, nothing, nothing, WINDOWS),
        Setting(
            "skx", "2xxeon-skx", "qwen3-30b-a3b", "Q8_0", {69: 64, 70: 8256}, nothing[:48],
            nothing[:48], WINDOWS,
        ),
    ]  # fmt: skip


def predicted(setting: Setting, context: int) -> float:
    """Return the tokens/s of a setting."""
    machine = get_machine(setting.machine)
    if setting.changes:
        machine = moeopt.set_machine(machine, setting.changes)
    model = at_bits(get_model(setting.model), setting.bits)
    if setting.top_k is not None:
        model = model.model_copy(update={"top_k": setting.top_k})
    room = Context(context, context)
    started = Started(machine, model, "ik_llama.cpp", room, numa=setting.numa)
    found = devices.device_times(started, quantum_ns=1)
    here, total = found.source, 0
    for row in range(model.layers):
        for device, table in (
            (setting.attention[row], found.attention_ns),
            (setting.experts[row], found.experts_ns),
        ):
            at = found.source if device == HOST else device
            if table[row][at] >= 0:
                total += int(found.hop_ns[here][at] + table[row][at])
                here = at
    return 1e9 / (total + int(found.hop_ns[here][found.source]))


def measured(points: Path) -> None:
    """Print predicted against measured."""
    with points.open(newline="") as file:
        speeds = [float(row["tok_s"]) for row in csv.DictReader(file)]
    found: dict[str, list[float]] = defaultdict(list)
    for setting in settings():
        machine = get_machine(setting.machine)
        several = len(machine.gpus) > 1 or len(machine.nodes) > 1
        for row, context in setting.rows.items():
            speed, ours = speeds[row - 1], predicted(setting, context)
            found["several" if several else "one GPU"].append(abs(ours / speed - 1))
            print(
                f"{setting.machine} {setting.model} {setting.bits} {setting.numa} {context}:"
                f" {speed:g} measured, {ours:.4g} predicted, {ours / speed - 1:+.0%}"
            )
    for name, each in found.items():
        print(f"{name}: {len(each)} points, median error {statistics.median(each):.1%}")


def rules() -> None:
    """Print each rule's excess over the best known, by number of GPUs, where it finds a split.

    Median, largest and the median's interval over machines with a model. Under the assumptions'
    defaults, and under each other value of those that it takes. llama.cpp's fit lays tensors of one
    layer apart: it does so on every instance, also against the best split of whole layers.
    """
    ways: dict[str, Callable[[Instance], Solution | None]] = {}
    for rule, function in HEURISTICS.items():
        ways[rule] = function
        for one in ASSUMPTIONS:
            for value in one.alternatives if rule in one.methods else ():
                ways[f"{rule}[{one.name}={value}]"] = partial(function, **{one.name: value})
    table: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    cells: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    counts: dict[int, int] = defaultdict(int)
    folder = ROOT / "instances" / "split"
    best = json.loads((folder / "best_known.json").read_text())
    for name, entry in best.items():
        instance = moeopt.load(folder / name)
        assert isinstance(instance, Instance)
        gpus = sum(bool(device.buffer) for device in instance.devices)
        counts[gpus] += 1
        for rule, way in ways.items():
            of = tensors_apart(instance) if rule.startswith("llama.cpp-fit") else instance
            solution = way(of)
            if solution is not None:
                table[gpus][rule].append(objective(of, solution) / entry["objective"] - 1)
                cells[gpus][rule].append(place(name, instance.provenance or {})[0])
    proven = sum(entry["status"] == "optimal" for entry in best.values())
    print(f"{len(best)} instances, {proven} of them proven")
    for gpus in sorted(table):
        print(f"{gpus} GPUs, {counts[gpus]} instances")
        for rule in ways:
            each = table[gpus][rule]
            said = "none" if not each else f"{statistics.median(each):.1%} / {max(each):.1%}"
            if ends := interval(each, cells[gpus][rule]):
                said += f" [{ends[0]:.1%} to {ends[1]:.1%}]"
            print(f"  {rule:40} {said} (median / most), a split on {len(each)}")


def tensors() -> None:
    """Print by how much a token is shorter if a layer's three tensors may lie apart."""
    folder, found = ROOT / "instances" / "split", list[float]()
    best = json.loads((folder / "best_known.json").read_text())
    for name, entry in best.items():
        made = json.loads((folder / name).read_text())["provenance"]
        if not (name.startswith("two-gpus") or name.endswith("contiguousTrue.json")):
            continue
        options = made["options"] | {"granularity": "tensor"}
        where = {"machine": made["machine"], "model": made["model"]}
        result = moeopt.solve(moeopt.generate("split", **where, **options), "labels", work_limit=4)
        assert isinstance(result.objective, int)
        found.append(1 - result.objective / entry["objective"])
        print(f"{name}: {found[-1]:.1%} ({result.status})")
    print(f"{len(found)} instances: {statistics.median(found):.1%} (median), {max(found):.1%}")


class CpuClock(SolvingClock):
    """A clock of CPU seconds, so that load does not count."""

    def now(self) -> float:
        """Return CPU seconds of this process."""
        return time.process_time()


def large(seed: int, *, ordered: bool, alike: bool) -> Instance:
    """Return 94 layers on seven GPUs of four kinds and two nodes."""
    rng = random.Random(seed)
    kinds = [rng.choice([(24, 900), (32, 1700), (16, 400), (48, 760)]) for _ in range(7)]
    mib = 2**20
    devices = [
        {"name": f"gpu{n}", "capacity": (gib * 1024 - 800) * mib, "buffer": 1500 * mib}
        for n, (gib, _) in enumerate(kinds)
    ]
    devices += [{"name": f"numa{n}", "capacity": 2**38, "buffer": 0} for n in range(2)]

    def hop(i: int, j: int) -> int:
        if i == j:
            return 0
        return rng.choice((15_000, 22_000)) if max(i, j) < 7 else 12_000 if min(i, j) < 7 else 4_000

    layers = []
    for _ in range(94):
        held = int(1400 * mib * (1 if alike else rng.choice((1, 1.25))))
        layers.append(
            {
                "attention_ns": [(60 + 126_000 // r) * 1000 for _, r in kinds] + [400_000] * 2,
                "attention_bytes": 120 * mib,
                "experts_ns": [(30 + held // (16_000 * r)) * 1000 for _, r in kinds]
                + [(120 + held // 2_400_000) * 1000] * 2,
                "experts_bytes": held,
            }
        )
    return Instance(
        name=f"large{seed}", source=7, order=[7, 8, *range(7)] if ordered else None,
        devices=devices, hop_ns=[[hop(i, j) for j in range(9)] for i in range(9)], layers=layers,
    )  # fmt: skip


def gaps(cpu_s: float) -> None:
    """Print the gap of the own method after some CPU seconds, and that of CP-SAT and HiGHS."""
    others: dict[str, Callable[[Instance], moeopt.Result]] = {
        "cp-sat": lambda i: moeopt.solve(i, "cp-sat", time_limit_s=cpu_s * 5, warm_start=False),
        "milp": lambda i: moeopt.solve(i, "milp", time_limit_s=cpu_s * 5, warm_start=False),
    }
    for seed in range(3):
        for ordered, alike in ((True, True), (False, True), (True, False)):
            instance = large(seed, ordered=ordered, alike=alike)
            search = Search(limit_s=cpu_s, clock=CpuClock())
            labels.solve(instance, search)
            own = (search.objective - search.bound) / search.objective  # type: ignore[operator]
            said = [f"labels {own:.3%}"]
            for name, run in others.items():
                begin = time.process_time()
                found = run(instance)
                spent = time.process_time() - begin
                gap = None
                if found.objective is not None and found.bound is not None:
                    gap = (found.objective - found.bound) / found.objective  # type: ignore[operator]
                said.append(f"{name} {'none' if gap is None else f'{gap:.3%}'} ({spent:.1f} CPU s)")
            print(f"seed {seed}, ordered {ordered}, alike {alike}: {'; '.join(said)}", flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("rules", "tensors", "ratio", "measured"))
    parser.add_argument("--points", type=Path, help="the file of measured speeds")
    parser.add_argument("--cpu-s", type=float, default=2.0)
    given = parser.parse_args()
    if given.what == "measured":
        if given.points is None:
            parser.error("measured: needs --points")
        measured(given.points)
    elif given.what in ("rules", "tensors"):
        {"rules": rules, "tensors": tensors}[given.what]()
    else:
        gaps(given.cpu_s)


if __name__ == "__main__":
    main()
