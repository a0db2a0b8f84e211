"""Measured time tables: one expert's three matrix products on this machine, by tokens.

Also rates of this machine: reading memory with all threads, matrix products, copies to the GPU.

Memory and time are bounded: a quarter of what is free and at most 1 GiB, about a second for each.
"""

import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any, Literal

import numpy as np

from moeopt.core.errors import InputError
from moeopt.core.wording import package
from moeopt.sim.models.model_shape import ModelShape

from .curve import TimeTable
from .machine import Machine
from .system import cpu_facts, this_system

MOST_BYTES = 2**30
LEAST_BYTES = 32 * 2**20
SECONDS = 1.0

MATRIX = 2048
"""Rows and columns of the matrices that are multiplied: large enough to be bound by computation."""

Torch = Any
"""The package torch, or what is its own."""

Clock = Callable[[], float]


@dataclass(frozen=True)
class Rate:
    """A measured rate, in the unit that its field says, and how it was measured."""

    value: float
    source: str


def read_bandwidth(
    threads: int,
    free_bytes: int,
    cache_bytes: int = 0,
    clock: Clock = time.perf_counter,
) -> Rate:
    """Return what so many threads together read from memory, in GB/s: the best pass, as in STREAM.

    Parameters
    ----------
    threads
        How many read, each its own part, which it also wrote first: on a machine with several
        sockets the part then lies near it.
    free_bytes
        Memory that is free; at most a quarter of it and 1 GiB are used.
    cache_bytes
        Size of the last cache, so that the source can say if it may have helped.
    clock
        What to time with, in s.
    """
    size = max(min(MOST_BYTES, free_bytes // 4), LEAST_BYTES) // threads // 8 * 8
    size = max(size, 2**20)
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(lambda _: np.ones(size // 8, dtype=np.int64), range(threads)))
        best, passes, start = float("inf"), 0, clock()
        while passes < 3 or clock() - start < SECONDS:
            before = clock()
            list(pool.map(np.sum, parts))
            best = min(best, clock() - before)
            passes += 1
            if passes >= 1000:
                break
    used = size * threads
    gb_s = used / max(best, 1e-9) / 1e9
    source = f"measured: {threads} threads summing {used / 2**20:.0f} MiB, best of {passes} passes"
    if used < 4 * cache_bytes:
        source += f"; a cache of {cache_bytes / 2**20:.0f} MiB may have helped"
    return Rate(round(gb_s, 2), source)


def cpu_tflops(clock: Clock = time.perf_counter) -> Rate:
    """Return the CPU's rate of multiplying matrices, in TFLOPS, with torch or else NumPy."""
    if (torch := optional_torch()) is not None:
        rates = []
        for kind in ("bfloat16", "float32"):
            left = torch.ones((MATRIX, MATRIX), dtype=getattr(torch, kind))
            taken = _best_s(partial(torch.mm, left, left), SECONDS / 2, clock)
            rates.append((2 * MATRIX**3 / taken / 1e12, kind))
        rate, kind = max(rates)
        by = f"torch {torch.__version__}, {kind}, {torch.get_num_threads()} threads"
    else:
        one = np.ones((MATRIX // 2, MATRIX // 2), dtype=np.float32)
        rate = 2 * (MATRIX // 2) ** 3 / _best_s(lambda: one @ one, SECONDS, clock) / 1e12
        by = f"NumPy {np.__version__}, float32 (torch is not installed)"
    return Rate(float(f"{rate:.4g}"), f"measured: products of square matrices, {by}")


def _best_s(run: Callable[[], object], seconds: float, clock: Clock) -> float:
    """Return the shortest time of a run, in s; one run is enough where it takes all the time."""
    start = clock()
    run()
    best, start, runs = clock() - start, clock(), 0
    if best > seconds:
        return best
    while runs < 2 or (clock() - start < seconds and runs < 1000):
        before = clock()
        run()
        best = min(best, clock() - before)
        runs += 1
    return max(best, 1e-9)


@dataclass(frozen=True)
class GpuRates:
    """What torch measured on the first GPU: TFLOPS, GB/s of its memory, GB/s from the host."""

    name: str
    memory_gib: float
    tflops: Rate
    read_gb_s: Rate
    from_host_gb_s: Rate


def gpu_rates(clock: Clock = time.perf_counter) -> GpuRates | None:
    """Return the rates of the first GPU that torch sees (CUDA or ROCm); None without one."""
    torch = optional_torch()
    if torch is None or not torch.cuda.is_available():
        return None
    by = f"torch {torch.__version__}"
    about = torch.cuda.get_device_properties(0)
    size = min(MOST_BYTES, torch.cuda.mem_get_info(0)[0] // 4)

    def best_s(run: Callable[[], object]) -> float:
        def finished() -> None:
            run()
            torch.cuda.synchronize()

        return _best_s(finished, SECONDS, clock)

    side = 4 * MATRIX
    left = torch.ones((side, side), dtype=torch.bfloat16, device="cuda")
    tflops = 2 * side**3 / best_s(lambda: left @ left) / 1e12
    there = torch.ones(size // 4, dtype=torch.float32, device="cuda")
    read = size / best_s(there.sum) / 1e9
    here = torch.ones(size // 16, dtype=torch.float32).pin_memory()
    to = there[: size // 16]
    host = size / 4 / best_s(lambda: to.copy_(here, non_blocking=True)) / 1e9
    mib = size / 2**20
    return GpuRates(
        name=str(about.name),
        memory_gib=round(about.total_memory / 2**30, 2),
        tflops=Rate(
            float(f"{tflops:.4g}"),
            f"measured: products of {side} x {side} matrices, {by}, bfloat16",
        ),
        read_gb_s=Rate(round(read, 1), f"measured: summing {mib:.0f} MiB, {by}, best pass"),
        from_host_gb_s=Rate(
            round(host, 2),
            f"measured: copy of {mib / 4:.0f} MiB from pinned memory, {by}, best pass",
        ),
    )


def optional_torch() -> Torch:
    """Return the package torch, None where it is not installed."""
    try:
        return import_module("torch")
    except ImportError:
        return None


TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
MOST_TOKENS = 2**20

ROTATED_BYTES = 512 * 2**20
"""Weights that are worked through before an expert comes again: more than caches hold."""

MOST_COPIES = 64

Runner = Callable[[int], None]
"""Runs one expert on so many tokens and returns when it is done."""

ProfileDevice = Literal["cpu", "gpu"]


@dataclass(frozen=True)
class Settings:
    """How to measure.

    Attributes
    ----------
    device
        "cpu", or "gpu" for the CUDA device that torch sees first.
    threads
        CPU threads; None for as many as torch takes by itself.
    tokens
        Token counts, at least two, rising.
    repeats, warm_up
        Runs per token count that count, and runs before them that do not.
    """

    device: ProfileDevice = "cpu"
    threads: int | None = None
    tokens: tuple[int, ...] = TOKENS
    repeats: int = 9
    warm_up: int = 3

    def check(self) -> None:
        """Raise InputError if a setting is out of range."""
        if self.device not in ("cpu", "gpu"):
            raise InputError(f"device: must be cpu or gpu, not {self.device!r}")
        if self.threads is not None and not 1 <= self.threads <= 65536:
            raise InputError(f"threads: must be from 1 to 65536, not {self.threads}")
        if self.threads is not None and self.device == "gpu":
            raise InputError("threads: is for the device cpu only")
        rising = all(a < b for a, b in zip(self.tokens, self.tokens[1:], strict=False))
        if len(self.tokens) < 2 or not rising:
            raise InputError(f"tokens: must be at least two, rising, not {list(self.tokens)}")
        if not 1 <= self.tokens[0] <= self.tokens[-1] <= MOST_TOKENS:
            raise InputError(f"tokens: must be from 1 to {MOST_TOKENS}")
        if not 1 <= self.repeats <= 10_000 or not 0 <= self.warm_up <= 10_000:
            raise InputError("repeats, warm_up: must be at least 1 and 0, at most 10000")


@dataclass(frozen=True)
class Bench:
    """An expert that can be run, and what runs it: the names that go into the source."""

    run: Runner
    device_name: str
    versions: str
    threads: int | None


def measure(
    run: Runner,
    settings: Settings,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    on_point: Callable[[int, float], None] = lambda tokens, ns: None,
) -> list[tuple[float, float]]:
    """Return (tokens, median ns) for every token count.

    Parameters
    ----------
    run
        Runs one expert; returns when it is done.
    clock_ns
        What to time with.
    on_point
        Called with every point as soon as it is measured.

    Raises
    ------
    InputError
        If the clock does not move: what ran is too short to be timed.
    """
    settings.check()
    points = []
    for tokens in settings.tokens:
        for _ in range(settings.warm_up):
            run(tokens)
        taken = []
        for _ in range(settings.repeats):
            start = clock_ns()
            run(tokens)
            taken.append(clock_ns() - start)
        middle = float(median(taken))
        if middle <= 0:
            raise InputError(f"tokens: {tokens} on one expert are too fast for the clock")
        points.append((float(tokens), middle))
        on_point(tokens, middle)
    return points


def padded(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return points whose times never fall: few tokens can be padded to more.

    One token often takes longer than two, where a library picks another kernel.
    """
    best = float("inf")
    lowered = []
    for tokens, ns in reversed(points):
        best = min(best, ns)
        lowered.append((tokens, best))
    return lowered[::-1]


def profile(
    machine: Machine,
    model: ModelShape,
    settings: Settings,
    *,
    command: str,
    date: str,
    bench: Bench | None = None,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    on_point: Callable[[int, float], None] = lambda tokens, ns: None,
) -> Machine:
    """Measure an expert of `model` and return `machine` with the table in it.

    Parameters
    ----------
    machine
        What to start from: all but the measured table stays as it is.
    model
        Its expert's sizes are measured, with random weights of its width.
    settings
        Device and token counts.
    command, date
        Go into the table's source.
    bench, clock_ns
        What runs the expert and what times it; by default torch and the system's clock.
    on_point
        Called with (tokens, ns) as the measurement goes on.

    Raises
    ------
    InputError
        If torch is not installed or sees no GPU, the machine lacks the device, or the weights'
        width cannot be run.

    Notes
    -----
    A table for the CPU belongs to a number of threads; a table of the same model, device and
    threads is replaced. Times that fall with more tokens are
    lowered to what padding gives (`padded`). Several experts are run in turn, so
    that weights come from memory and not from a cache.
    """
    settings.check()
    if settings.device == "cpu":
        machine.require("cpu")
    if model.bits != 8 * model.bytes_per_weight:
        raise InputError(f"model {model.name}: expert_bits: quantized experts cannot be measured")
    if bench is None:
        bench = torch_bench(model, settings)
    points = padded(measure(bench.run, settings, clock_ns, on_point))
    threads = bench.threads if settings.device == "cpu" else None
    by = f"median of {settings.repeats} runs after {settings.warm_up}"
    source = f"measured on {bench.device_name}, {date}, {bench.versions}: {command} ({by})"
    table = TimeTable(
        model=model.name,
        at=(machine.require(settings.device).id, settings.device),
        points=tuple(points),
        source=source,
        threads=threads,
    )
    return with_table(machine, table, machine.name)


def with_table(machine: Machine, table: TimeTable, name: str) -> Machine:
    """Return a machine of another name with a table added, or put in the place of its like."""
    kept: Sequence[TimeTable] = [old for old in machine.tables if old.key != table.key]
    return machine.model_copy(update={"name": name, "tables": (*kept, table)})


def torch_bench(model: ModelShape, settings: Settings) -> Bench:
    """Return an expert of a model's size, with random weights, ready to run.

    Raises
    ------
    InputError
        If torch is not installed, sees no GPU, or has no type of the weights' width.
    """
    torch = optional_torch()
    if torch is None:
        raise InputError(f"profile: needs {package('torch')}")
    if settings.device == "gpu" and not torch.cuda.is_available():
        raise InputError("device: gpu: torch sees no CUDA GPU; use --device cpu")
    dtype = {2.0: torch.bfloat16, 4.0: torch.float32}.get(model.bytes_per_weight)
    if dtype is None:
        raise InputError(
            f"model {model.name}: bytes_per_weight: must be 2 or 4 to be measured,"
            f" not {model.bytes_per_weight:g}"
        )
    where = "cuda" if settings.device == "gpu" else "cpu"
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    experts = _experts(torch, model, where, dtype)
    inputs = {
        tokens: torch.randn(tokens, model.hidden_size, device=where).to(dtype)
        for tokens in settings.tokens
    }
    turn = 0

    def run(tokens: int) -> None:
        nonlocal turn
        gate, up, down = experts[turn % len(experts)]
        turn += 1
        x = inputs[tokens]
        with torch.inference_mode():
            _ = (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T
        if where == "cuda":
            torch.cuda.synchronize()

    cpu = cpu_facts(this_system())
    name = cpu.name if cpu is not None else platform.processor() or "unknown CPU"
    if where == "cuda":
        name = torch.cuda.get_device_name(0)
    threads = None if where == "cuda" else int(torch.get_num_threads())
    on = name if threads is None else f"{name} with {threads} threads"
    return Bench(run, on, f"torch {torch.__version__}", threads)


def _experts(torch: Torch, model: ModelShape, where: str, dtype: Torch) -> list[tuple[Torch, ...]]:
    """Return copies of an expert that are together larger than the caches, at least two."""
    copies = min(MOST_COPIES, max(2, -(-ROTATED_BYTES // model.expert_bytes)))
    hidden, inner = model.hidden_size, model.expert_intermediate_size
    shapes = ((inner, hidden), (inner, hidden), (hidden, inner))
    generator = torch.Generator(device=where).manual_seed(0)
    return [
        tuple(
            (torch.randn(shape, generator=generator, device=where) * hidden**-0.5).to(dtype)
            for shape in shapes
        )
        for _ in range(copies)
    ]
