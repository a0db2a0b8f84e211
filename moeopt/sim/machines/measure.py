"""Rates of this machine: reading memory with all threads, matrix products, copies to the GPU.

Memory and time are bounded: a quarter of what is free and at most 1 GiB, about a second for each.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

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


def thread_count() -> int:
    """Return how many threads may run here at once."""
    if hasattr(os, "sched_getaffinity"):
        return max(len(os.sched_getaffinity(0)), 1)
    return os.cpu_count() or 1


def read_bandwidth(
    threads: int,
    free_bytes: int,
    cache_bytes: int = 0,
    seconds: float = SECONDS,
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
    seconds
        For how long to go on.
    clock
        What to time with, in s.
    """
    size = max(min(MOST_BYTES, free_bytes // 4), LEAST_BYTES) // threads // 8 * 8
    size = max(size, 2**20)
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(lambda _: np.ones(size // 8, dtype=np.int64), range(threads)))
        best, passes, start = float("inf"), 0, clock()
        while passes < 3 or clock() - start < seconds:
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


def cpu_tflops(seconds: float = SECONDS, clock: Clock = time.perf_counter) -> Rate:
    """Return the CPU's rate of multiplying matrices, in TFLOPS, with torch or else NumPy."""
    if (torch := optional_torch()) is not None:
        rates = []
        for kind in ("bfloat16", "float32"):
            left = torch.ones((MATRIX, MATRIX), dtype=getattr(torch, kind))
            taken = _best_s(partial(torch.mm, left, left), seconds / 2, clock)
            rates.append((2 * MATRIX**3 / taken / 1e12, kind))
        rate, kind = max(rates)
        by = f"torch {torch.__version__}, {kind}, {torch.get_num_threads()} threads"
    else:
        one = np.ones((MATRIX // 2, MATRIX // 2), dtype=np.float32)
        rate = 2 * (MATRIX // 2) ** 3 / _best_s(lambda: one @ one, seconds, clock) / 1e12
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


def gpu_rates(seconds: float = SECONDS, clock: Clock = time.perf_counter) -> GpuRates | None:
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

        return _best_s(finished, seconds, clock)

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
