"""The terms that a token's time is made of, and what is expected of them before measurements."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Term:
    """One term of a token's time.

    Attributes
    ----------
    expected
        Its cost before any measurement is seen: a ratio to an ideal time, or us.
    spread
        How uncertain that is: standard deviation of its logarithm.
    meaning, source
        What it is, and why that much was expected.
    """

    expected: float
    spread: float
    meaning: str
    source: str


PRIOR: dict[str, Term] = {
    "gpu_read": Term(
        1.05,
        0.2,
        "reads of weights from GPU memory, over bytes / read bandwidth",
        "matrix-vector kernels reach 80-95 % of a copy's bandwidth; assumed",
    ),
    "gpu_decode": Term(
        2.0,
        0.5,
        "unpacking and multiplying quantised weights on the GPU, over operations x the format's"
        " factor / rate of its ordinary cores; it overlaps with the reads",
        "as on the CPU; assumed",
    ),
    "gpu_kv": Term(
        1.5,
        0.35,
        "reads of the KV cache by attention on the GPU, over bytes / read bandwidth",
        "one token's attention fills a GPU worse than a matrix does; assumed",
    ),
    "gpu_latent": Term(
        6.0,
        0.6,
        "latent attention over the context on the GPU, over operations / peak of its matrix units",
        "all heads share one cache, so that operations and not bytes count; one token's products"
        " reach some 15 % of the peak; assumed",
    ),
    "token_us": Term(500.0, 0.7, "once per token: sampling, graph, head's launches", "assumed"),
    "layer_us": Term(
        60.0,
        0.5,
        "per layer on the GPU: its kernels' launches and tails, at a clock of 1.8 GHz",
        "some 20-30 kernels of 3-4 us (KTransformers 2.3: launches and waits of a kernel take"
        " microseconds); assumed",
    ),
    "latent_layer_us": Term(
        60.0,
        0.7,
        "on top of it for latent attention, which has more and smaller kernels",
        "assumed",
    ),
    "linear_layer_us": Term(
        60.0, 0.7, "on top of it for a layer with linear attention (Gated DeltaNet)", "assumed"
    ),
    "host_read": Term(
        1.05,
        0.3,
        "reads of weights from host memory, over bytes / read bandwidth of all threads",
        "assumed: threads wait for the slowest one",
    ),
    "oblivious_read": Term(
        2.5,
        0.4,
        "the same on several sockets, by a runtime that does not place weights by socket",
        "KTransformers 2.3: cross-socket reads have 125 of 220 GB/s, both sockets share the link",
    ),
    "host_decode": Term(
        2.0,
        0.5,
        "unpacking and multiplying quantised weights on the CPU, over operations x the format's"
        " factor / rate of its cores; it overlaps with the reads",
        "as many instructions for unpacking as for multiplying; assumed",
    ),
    "host_kv": Term(
        3.0,
        0.5,
        "reads of the KV cache by attention on the CPU, over bytes / read bandwidth",
        "attention of one token on the CPU is bound by its cores; assumed",
    ),
    "host_latent": Term(
        3.0,
        0.6,
        "latent attention over the context on the CPU, over operations / rate of its cores",
        "assumed",
    ),
    "host_layer_us": Term(
        40.0,
        0.7,
        "per layer with experts on the CPU: two hand-overs, waking threads, barriers",
        "two transfers of some 10-20 us; assumed",
    ),
    "host_expert_us": Term(
        3.0,
        1.0,
        "per expert on the CPU: three products of a few MB, each ended by a barrier of 16 threads;"
        " it grows with their root",
        "assumed: 1 us for each of three products",
    ),
    "cpu_layer_us": Term(
        60.0, 0.7, "per layer where there is no GPU: attention, norms, barriers", "assumed"
    ),
}
"""What is expected of each term before any measurement is seen, the same for every runtime."""

TERMS = tuple(PRIOR)
"""The terms in the order of `amounts`."""

OF_RUNTIMES = ("host_read", "host_layer_us", "layer_us", "host_decode", "latent_layer_us")
"""Terms that differ between runtimes; the others are fitted to all of them together."""

OVERLAPS = (
    ((TERMS.index("gpu_read"),), TERMS.index("gpu_decode")),
    ((TERMS.index("host_read"), TERMS.index("oblivious_read")), TERMS.index("host_decode")),
)
"""Reads and the decoding that overlaps with them, of GPU and CPU."""


def prior() -> tuple[Vector, Vector]:
    """Return the logarithms of the expected costs, and their spreads, in the order of `TERMS`."""
    expected = [PRIOR[term].expected for term in TERMS]
    return np.log(expected), np.array([PRIOR[term].spread for term in TERMS])


def term_times(rows: NDArray[np.float64], costs: Vector) -> NDArray[np.float64]:
    """Return what each term adds to the time of a token, in us.

    Parameters
    ----------
    rows
        (..., terms): what is needed of each (`amounts`).
    costs
        (terms,): what each costs.

    Returns
    -------
    (..., terms) array
        Products; but a device's reads r and its decoding d overlap: together they take
        sqrt(r^2 + d^2), shared in proportion to their squares.
    """
    times = np.asarray(rows * costs, dtype=float)
    for reads, decode in OVERLAPS:
        read, unpack = times[..., list(reads)].sum(axis=-1), times[..., decode]
        both = np.maximum(np.hypot(read, unpack), 1e-300)
        for term in reads:
            times[..., term] *= read / both
        times[..., decode] *= unpack / both
    return times


def token_us(rows: NDArray[np.float64], costs: Vector) -> NDArray[np.float64]:
    """Return the time of a token: the sum of `term_times`, (...,) for rows (..., terms)."""
    return np.asarray(term_times(rows, costs).sum(axis=-1))
