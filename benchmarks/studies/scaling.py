"""What instances cost by their size: to make, to decide by rule, to prove optimal, to execute.

    python benchmarks/studies/scaling.py [--problems a,b] [--seeds 3] [--limit 2] [--smaller N]
        [--page docs/performance.md]

Sizes double. Of each size as many instances are generated as there are seeds, and every one is
decided by the published rule and by the package's own exact method, and its solution executed in
the event engine. Times are CPU seconds of one core, the median over the seeds; a kernel that is
compiled or loaded on the way is measured again. An exact method goes on to the next size as long as
it proves more than half of the instances within the limit; a line ends as well where its median is
above the limit.

The slope is that of the least-squares line through the last points of log(time) over log(size), up
to four: cost grows like size to that power. Prints a Markdown table; with ``--page`` the table goes
to that file, between its markers, and an SVG for each problem to a folder beside it, named alike.
"""

import argparse
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from statistics import median
from typing import Any

import numpy as np

import moeopt
from benchmarks.rooms.core import compile_all
from benchmarks.rooms.problems import execute, get_problem
from benchmarks.rooms.sim import get_model
from benchmarks.studies.scaling_figures import Line, Panel, figure
from moeopt import InputError

LIMIT_S, SEEDS = 2.0, 3
COMPILED_S = 0.001
"""Compiling or loading kernels that took longer is not measured."""

SHORT_S, REPEATS = 0.05, 3
"""Calls shorter than that are repeated, since clocks tick and caches are cold."""

FITTED = 4
"""Most points that a slope is fitted through."""

BEGIN, END = "<!-- scaling: begin -->", "<!-- scaling: end -->"

Make = Callable[[int, int], Any]
"""Size and seed -> an instance."""


@dataclass(frozen=True)
class Axis:
    """A size that doubles."""

    name: str
    sizes: tuple[int, ...]
    make: Make


@dataclass
class Measured:
    """Median CPU seconds by size, of what was measured; and where proofs end.

    Attributes
    ----------
    seconds
        "generate", "rule", "exact", "execute" -> size -> seconds.
    stopped
        The first size at which half of the instances or more were not proven within the limit, and
        how many were; None if there was none.
    """

    seconds: dict[str, dict[int, float]] = field(default_factory=dict)
    stopped: tuple[int, int, int] | None = None


KINDS = ("exact", "rule", "generate", "execute")


def shape(model: str, **changes: Any) -> Any:
    """Return a model's shape with other numbers of layers or experts, all layers with experts."""
    if "layers" in changes:
        changes |= {"dense_layers": 0}
    known = get_model(model)
    data = known.model_dump(exclude_none=True) | changes | {"name": f"{model}, resized"}
    return type(known).model_validate(data)


def made(problem: str, model: Any, machine: str = "trimoe", **options: Any) -> Any:
    """Return an instance; by default of TriMoE's synthetic skew."""
    options = {"workload": "trimoe-skew"} | options
    return moeopt.generate(problem, machine=machine, model=model, **options)


def doubling(first: int, last: int) -> tuple[int, ...]:
    """Return the sizes from the first to the last."""
    sizes = [first]
    while 2 * sizes[-1] <= last:
        sizes.append(2 * sizes[-1])
    return tuple(sizes)


def _layer(problem: str, first: int, last: int, name: str = "experts", **options: Any) -> Axis:
    """Return an axis over a layer's experts, two tokens in each step for every expert."""

    def make(size: int, seed: int) -> Any:
        model = shape("deepseek-v2", routed_experts=size, top_k=min(6, size // 2))
        return made(problem, model, batch=2 * size, seed=seed, **options)

    return Axis(name, doubling(first, last), make)


def _dimms(problem: str, first: int, last: int, experts: int = 160, **options: Any) -> Axis:
    model = shape("deepseek-v2", routed_experts=experts)

    def make(size: int, seed: int) -> Any:
        return made(problem, model, batch=2 * experts, dimms=size, seed=seed, **options)

    return Axis("DIMMs", doubling(first, last), make)


def _layers(
    problem: str, first: int, last: int, model: str, name: str = "layers", **options: Any
) -> Axis:
    def make(size: int, seed: int) -> Any:
        given = dict(options)
        if "slots" in given:
            given["slots"] *= size
        return made(problem, shape(model, layers=size), seed=seed, **given)

    return Axis(name, doubling(first, last), make)


def _option(problem: str, name: str, sizes: tuple[int, ...], model: str, **options: Any) -> Axis:
    def make(size: int, seed: int) -> Any:
        return made(problem, model, seed=seed, **options, **{name: size})

    return Axis(name, sizes, make)


def _balance_experts() -> Axis:
    def make(size: int, seed: int) -> Any:
        model = shape("deepseek-moe-16b", routed_experts=size, top_k=min(6, size // 2))
        return made(
            "balance", model, "edge-gpu-ndp-6", stage="prefill", slices_per_unit=4,
            activations="single", ndp_speedup=16.0, quantum_ns=1, seed=seed,
        )  # fmt: skip

    return Axis("experts", doubling(8, 128), make)


def _bitwidth(name: str, first: int, last: int) -> Axis:
    def make(size: int, seed: int) -> Any:
        change = {"routed_experts": size} if name == "experts" else {"layers": size}
        if name == "experts":
            change |= {"layers": 4, "top_k": 6}
        return made(
            "bitwidth", shape("deepseek-v2-lite", **change), "cxl-ndp", budget="model", seed=seed
        )

    return Axis(name, doubling(first, last), make)


def _copies(name: str, first: int, last: int) -> Axis:
    def make(size: int, seed: int) -> Any:
        experts = size if name == "experts" else 128
        devices = size if name == "devices" else 8
        model = shape("deepseek-v3", routed_experts=experts, top_k=min(8, experts // 2))
        slots = -(-(experts + SPARE) // devices)
        given = {"devices": devices, "slots": slots, "windows": size if name == "windows" else 1}
        return made("replication", model, batch=32 * experts, seed=seed, **given)

    return Axis(name, doubling(first, last), make)


def _split_layers() -> Axis:
    def make(size: int, seed: int) -> Any:
        model = shape("deepseek-v2", layers=size)
        return moeopt.generate("split", machine="4xrtx4090+xeon-spr", model=model, seed=seed)

    return Axis("layers", doubling(4, 64), make)


SPARE = 8
"""Copies of `replication` beyond one of each expert, at least."""

SMALL_GPU: dict[str, Any] = {"machine": "rtx4090-7960x", "model": "deepseek-v2-lite"}
MOVES: dict[str, Any] = {"windows": "two", "residents": 4}
JOINT: dict[str, Any] = {
    **{"machine": "rtx4090-7960x", "model": "mixtral-8x7b"},
    **{"share": 0.3, "quality_loss": 0.05, "bits": "4,8"},
}
HOSTS: dict[str, Any] = {"hbm_slots": 4, "layout_from": "none"}
CORES: dict[str, Any] = {"machine": "ktransformers-a100"}

AXES: dict[str, list[Axis]] = {
    "tri_domain": [
        _layer("tri_domain", 32, 1024, cold_cut="experts 0.7"),
        _dimms("tri_domain", 2, 64, cold_cut="experts 0.7"),
    ],
    "layout": [
        _layer("layout", 16, 256, **HOSTS),
        _option("layout", "windows", doubling(1, 8), "deepseek-v2-lite", batch=256, **HOSTS),
        _layer("layout", 16, 256, "experts, 1 ns", quantum_ns=1, **HOSTS),
    ],
    "relayout": [
        _layer("relayout", 16, 128, **MOVES),
        _dimms("relayout", 2, 16, experts=32, **MOVES),
    ],
    "balance": [_balance_experts()],
    "placement": [
        _layers("placement", 2, 32, steps=50, share=0.25, **SMALL_GPU),
        _option("placement", "steps", doubling(25, 400), layers=8, share=0.25, **SMALL_GPU),
        _layers("placement", 2, 32, name="layers, GPU binds", steps=50, share=0.6, **SMALL_GPU,
                gpu_us=25, offload_us=60, fixed_us=30),
    ],
    "bitwidth": [_bitwidth("layers", 2, 32), _bitwidth("experts", 16, 256)],
    "cache": [
        _layers("cache", 4, 64, tokens=200, slots=8, **SMALL_GPU),
        _option("cache", "tokens", doubling(100, 1600), layers=16, slots=128, **SMALL_GPU),
    ],
    "deferral": [
        _layers("deferral", 4, 256, "deepseek-v3", machine="ktransformers-a100", variation=0.2,
                quantum_ns=1),
    ],
    "joint": [
        _layers("joint", 4, 32, steps=10, **JOINT),
        _option("joint", "steps", doubling(5, 80), layers=8, **JOINT),
        _layers("joint", 1, 16, name="layers, caches", steps=5, max_ways=2, **JOINT),
    ],
    "replication": [_copies("experts", 64, 512), _copies("devices", 2, 32),
                    _copies("windows", 1, 16)],
    "split": [_split_layers()],
    "threads": [
        _layer("threads", 8, 256, **CORES),
        _option("threads", "threads", doubling(1, 32), "deepseek-v2-lite", batch=8, **CORES),
    ],
}  # fmt: skip


def main() -> None:
    """Run the command line."""
    compile_all()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", default=",".join(AXES), help="comma-separated; default: all")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--limit", type=float, default=LIMIT_S, help="seconds per solve")
    parser.add_argument("--smaller", type=int, default=0, help="leave out so many largest sizes")
    parser.add_argument("--page", type=Path, help="a page with markers, e.g. docs/performance.md")
    arguments = parser.parse_args()
    rows: list[str] = []
    for problem in arguments.problems.split(","):
        panels, notes = [], []
        for axis in AXES[problem]:
            sizes = axis.sizes[: len(axis.sizes) - arguments.smaller]
            found = measure(problem, axis, sizes, range(arguments.seeds), arguments.limit)
            panels.append(panel(axis.name, found))
            rows.append(row(problem, axis.name, sizes, found))
            print(rows[-1], flush=True)
            notes.append(axis.name)
        if arguments.page:
            folder = arguments.page.with_suffix("")
            folder.mkdir(exist_ok=True)
            title = f"{problem}: CPU time (log) over {' and over '.join(notes)}"
            (folder / f"{problem}.svg").write_text(figure(title, panels), encoding="utf-8")
    if arguments.page:
        command = f"python benchmarks/studies/scaling.py --page docs/{arguments.page.name}"
        _insert(arguments.page, "\n".join([HEADER, *rows, "", f"`{command}`"]))


def measure(
    problem: str, axis: Axis, sizes: tuple[int, ...], seeds: range, limit_s: float
) -> Measured:
    """Measure everything on all sizes."""
    info = get_problem(problem)
    method, rule = info.exact[0].name, info.published
    found = Measured({kind: {} for kind in KINDS})
    moeopt.solve(axis.make(sizes[0], 0), method, time_limit_s=limit_s)  # loads the kernels
    going = dict.fromkeys(KINDS, True)
    for size in sizes:
        times: dict[str, list[float]] = {kind: [] for kind in KINDS}
        proven = 0
        for seed in seeds:
            # Once: what a workload drew is remembered, and a second call would cost less.
            seconds, instance = _timed(lambda seed=seed, size=size: axis.make(size, seed), 1)
            times["generate"].append(seconds)
            seconds, decided = _solved(instance, rule, limit_s)
            times["rule"].append(seconds)
            solution = decided.solution
            if going["exact"]:
                seconds, best = _solved(instance, method, limit_s)
                times["exact"].append(seconds if best.status == "optimal" else np.inf)
                proven += best.status == "optimal"
                solution = best.solution or solution
            if solution is not None and going["execute"]:
                with suppress(InputError):
                    seconds, _ = _timed(lambda i=instance, s=solution: execute(i, s))
                    times["execute"].append(seconds)
        for kind, values in times.items():
            if values and going[kind] and np.isfinite(middle := median(values)):
                found.seconds[kind][size] = middle
                going[kind] = middle <= limit_s
        if going["exact"] and 2 * proven <= len(seeds):
            found.stopped, going["exact"] = (size, proven, len(seeds)), False
        if not going["generate"]:
            break
    return found


def _solved(instance: Any, method: str, limit_s: float) -> tuple[float, Any]:
    """Return CPU seconds and the result; the second run's where the first one compiled."""
    for _ in range(2):
        seconds, result = _timed(
            lambda: moeopt.solve(instance, method, time_limit_s=limit_s, workers=1)
        )
        if (result.compile_s or 0.0) < COMPILED_S:
            break
    return seconds, result


def _timed(call: Callable[[], Any], repeats: int = REPEATS) -> tuple[float, Any]:
    """Return the CPU seconds of a call and its value; of a short one the least of several."""
    seconds: list[float] = []
    while len(seconds) < repeats and sum(seconds) < SHORT_S:
        begin = _cpu_s()
        value = call()
        seconds.append(_cpu_s() - begin)
    return min(seconds), value


def _cpu_s() -> float:
    used = [getrusage(whose) for whose in (RUSAGE_SELF, RUSAGE_CHILDREN)]
    return sum(of.ru_utime + of.ru_stime for of in used)


def slope(seconds: dict[int, float]) -> float | None:
    """Return the power of the size that the last times grow with; None with too few of them."""
    points = sorted(seconds.items())[-FITTED:]
    if len(points) < 3:
        return None
    sizes, times = np.log([size for size, _ in points]), np.log([max(s, 1e-7) for _, s in points])
    return float(np.polyfit(sizes, times, 1)[0])


NAMES = {"exact": "proof", "rule": "rule", "generate": "generation", "execute": "execution"}

HEADER = (
    "| problem | size | from | to | slope of the proof | s at the last | proofs end |\n"
    "|---|---|---:|---:|---:|---:|---|"
)


def row(problem: str, name: str, sizes: tuple[int, ...], found: Measured) -> str:
    """Return a line of the table."""
    exact = found.seconds["exact"]
    fitted = slope(exact)
    power = "-" if fitted is None else f"{fitted:.1f}"
    last = f"{exact[max(exact)]:.2g}" if exact else "-"
    end = "beyond"
    if found.stopped is not None:
        size, proven, seeds = found.stopped
        end = f"at {size}: {proven} of {seeds}"
    reached = max(found.seconds["generate"], default=sizes[0])
    return f"| {problem} | {name} | {sizes[0]} | {reached} | {power} | {last} | {end} |"


def panel(name: str, found: Measured) -> Panel:
    """Return what a figure shows of an axis."""
    lines = [Line(NAMES[kind], found.seconds[kind], slope(found.seconds[kind])) for kind in KINDS]
    stopped = None if found.stopped is None else found.stopped[0]
    return Panel(name, [line for line in lines if line.points], stopped)


def _insert(page: Path, text: str) -> None:
    before, rest = page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
