"""Power that the CPU-GPU collaborative paper measured, and energy per token from it (IV-E)."""

from typing import NamedTuple

from moeopt import InputError


class Watts(NamedTuple):
    """Mean power of the CPU package and of the GPU while decoding."""

    cpu: float
    gpu: float


PREFETCHING = 0
"""In place of a number of threads: the prefetching system that the paper compares with."""

MEASURED: dict[str, dict[int, Watts]] = {
    "mixtral-8x7b": {
        1: Watts(86.1, 91.6),
        2: Watts(91.7, 92.8),
        4: Watts(100.3, 101.0),
        8: Watts(111.0, 103.4),
        16: Watts(133.4, 99.6),
        24: Watts(147.5, 97.9),
        PREFETCHING: Watts(92.1, 96.3),
    },
    "phi-3.5-moe": {
        1: Watts(84.4, 97.4),
        2: Watts(88.4, 100.7),
        4: Watts(92.0, 105.9),
        8: Watts(98.4, 109.2),
        16: Watts(110.1, 106.0),
        24: Watts(118.3, 109.2),
        PREFETCHING: Watts(88.2, 100.7),
    },
}
"""Model -> threads -> Table IV: Threadripper 7960X and RTX 4090, its best cache for each."""


PHI_JOULE = {1: 49.1, 2: 33.8, 4: 26.7, 8: 25.9, 16: 22.1, 24: 21.9, PREFETCHING: 78.7}
"""Threads -> Table V for Phi-3.5-MoE, whose routing is unknown."""


def joule_per_token(model: str, threads: int, ns_per_token: float) -> float:
    """Return the energy of a token: power of both devices times its time, as in Table V.

    The power is that of the paper's own plan with as many threads; that a better plan draws the
    same is assumed.

    Raises
    ------
    InputError
        If the paper has no measurement for the model or the threads.
    """
    if model not in MEASURED or threads not in MEASURED[model]:
        known = "; ".join(f"{name}: {', '.join(map(str, of))}" for name, of in MEASURED.items())
        raise InputError(f"power: no measurement of {model} on {threads} threads; known: {known}")
    return sum(MEASURED[model][threads]) * ns_per_token / 1e9
