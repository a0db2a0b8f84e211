"""What the paper's prefix split loses against exact widths, on experts that are quantised."""

from functools import cache

from benchmarks.papers.cxl.layer import HOT, MACHINE
from benchmarks.rooms.bitwidth import Instance
from moeopt import generate, solve

MODEL = "mixtral-8x7b"

WORKLOAD = "hdmoe-mixtral"


@cache
def lost(method: str, bits: float) -> float:
    """Return a method's loss in units of the prefix split's.

    Parameters
    ----------
    method
        A method of the `bitwidth` problem.
    bits
        Average width of the four experts of each layer on the NDP device (5.1).
    """
    return _objective(method, bits) / _objective("prefix-split", bits)


@cache
def _objective(method: str, bits: float) -> int:
    result = solve(_instance(bits), method)
    if not isinstance(result.objective, int):
        raise TypeError(f"{method}: ended {result.status}")
    return result.objective


@cache
def _instance(bits: float) -> Instance:
    made = generate(
        "bitwidth",
        machine=MACHINE,
        model=MODEL,
        workload=WORKLOAD,
        gpu_experts=HOT[MODEL],
        average_bits=bits,
    )
    if not isinstance(made, Instance):
        raise TypeError(type(made).__name__)
    return made
