"""Fiddler's split of one layer between two hosts, faster than the table as it is described."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

EXACT_IN_32_BITS = 2**24


def best_split(gpu_ns: Integers, cpu_ns: Integers, grid: int) -> NDArray[np.bool_]:
    """Return which experts `moeopt.problems.tri_domain.heuristics.fiddler` runs on the GPU.

    The same table of least CPU times over GPU times, and of equal splits the same one. Three things
    make it smaller: no split is later than one that is known; so the GPU gets at least what the CPU
    cannot do by then; and times in units of their common divisor fit into 32 bits.

    Parameters
    ----------
    gpu_ns, cpu_ns
        What each expert takes on either host, int64 of shape (experts,).
    grid
        Most steps of the table over the GPU's time.
    """
    limit = int(min(gpu_ns.sum(), cpu_ns.sum()))
    step = max(int(np.gcd.reduce(gpu_ns)), -(-limit // grid), 1)
    width = -(-gpu_ns // step)
    fewest, most = _range(width * step, cpu_ns, limit // step * step)
    size, first = most // step + 1, fewest // step
    unit = max(int(np.gcd.reduce(cpu_ns)), 1)
    kind = np.float32 if int(cpu_ns.sum()) // unit < EXACT_IN_32_BITS else np.float64
    least, other = (np.full(size, np.inf, dtype=kind) for _ in range(2))
    least[0] = 0
    taken = np.zeros((len(width), size), dtype=np.bool_)
    # After a row the GPU has at most what was offered, at least what later rows cannot make up for.
    end, left = 1, int(width.sum())
    for row, (shift, length) in enumerate(
        zip(width.tolist(), (cpu_ns // unit).tolist(), strict=True)
    ):
        end, left = min(end + shift, size), left - shift
        begin = max(first - left, 0)
        np.add(least[begin:end], kind(length), out=other[begin:end])
        come = max(begin, shift)
        if come < end:
            on_gpu, on_cpu = least[come - shift : end - shift], other[come:end]
            np.less(on_gpu, on_cpu, out=taken[row, come:end])
            np.minimum(on_gpu, on_cpu, out=on_cpu)
        least, other = other, least
    later = np.maximum(least[first:].astype(np.float64) * unit, np.arange(first, size) * step)
    return _walk(taken, width.tolist(), first + int(later.argmin()))


def _range(gpu_ns: Integers, cpu_ns: Integers, limit_ns: int) -> tuple[int, int]:
    """Return the least and the most time on the GPU in any split that is not late.

    The experts that cost the GPU least for what they relieve the CPU of go first: some such split
    is known, and a fraction of the last one bounds what every other needs.
    """
    price = np.where(cpu_ns > 0, gpu_ns / np.maximum(cpu_ns, 1), np.inf)
    order = price.argsort(kind="stable")
    gpu = np.concatenate([[0], gpu_ns[order].cumsum()])
    cpu = cpu_ns.sum() - np.concatenate([[0], cpu_ns[order].cumsum()])
    most = int(np.maximum(gpu, cpu)[gpu <= limit_ns].min())
    full = int((cpu > most).sum()) - 1  # whole experts that are not enough
    if full < 0:
        return 0, most
    part = (cpu[full] - most) / max(int(cpu_ns[order[full]]), 1)
    share = int(gpu_ns[order[full]] * part * (1 - 1e-9))
    return int(gpu[full]) + share, most


def _walk(taken: Any, width: list[int], at: int) -> NDArray[np.bool_]:
    """Return the choice of each expert that ends at this entry of the table."""
    split = np.zeros(len(width), dtype=np.bool_)
    for row in range(len(width) - 1, -1, -1):
        if taken[row, at]:
            split[row] = True
            at -= width[row]
    return split
