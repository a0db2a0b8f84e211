"""The terms that a token's time is a sum of, and what is expected of them before measurements."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

TERMS = (
    "gpu_read",
    "host_read",
    "oblivious_read",
    "token_us",
    "layer_us",
    "latent_attention_us",
    "host_layer_us",
    "host_expert_us",
    "cpu_layer_us",
)
"""What the time of a token is a sum of, in the order of `amounts`; see `PRIOR`."""


@dataclass(frozen=True)
class Term:
    """One term of a token's time.

    Attributes
    ----------
    expected
        Its cost before any measurement is seen: a ratio to the time of bytes over bandwidth, or us.
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
        1.15,
        0.25,
        "reads from GPU memory, over bytes / measured bandwidth",
        "matrix-vector kernels reach 80-95 % of a copy's bandwidth; assumed",
    ),
    "host_read": Term(
        1.15,
        0.2,
        "reads of experts from host memory, over bytes / read bandwidth of all threads",
        "assumed: threads wait for the slowest one",
    ),
    "oblivious_read": Term(
        2.5,
        0.5,
        "the same on several sockets, by a runtime that does not place weights by socket",
        "KTransformers 2.3: cross-socket reads have 125 of 220 GB/s, both sockets share the link",
    ),
    "token_us": Term(500.0, 1.0, "once per token: sampling, graph, head's launches", "assumed"),
    "layer_us": Term(
        80.0,
        0.8,
        "per layer on the GPU: launches of its kernels",
        "some 20-30 kernels of 3-4 us (KTransformers 2.3: launches and waits of a kernel take"
        " microseconds); assumed",
    ),
    "latent_attention_us": Term(
        100.0,
        1.0,
        "on top of it for latent attention, which has more and smaller kernels",
        "assumed",
    ),
    "host_layer_us": Term(
        60.0,
        0.8,
        "per layer with experts on the CPU: two hand-overs, waking threads, barriers",
        "two transfers of some 10-30 us; assumed",
    ),
    "host_expert_us": Term(
        15.0,
        0.8,
        "per expert on the CPU: three products of a few MB, each ended by a barrier",
        "assumed: 5 us for each of three products",
    ),
    "cpu_layer_us": Term(
        60.0, 1.0, "per layer where there is no GPU: attention, norms, barriers", "assumed"
    ),
}
"""What is expected of each term before any measurement is seen, the same for every runtime."""


def prior() -> tuple[Vector, Vector]:
    """Return the logarithms of the expected costs, and their spreads, in the order of `TERMS`."""
    expected = [PRIOR[term].expected for term in TERMS]
    return np.log(expected), np.array([PRIOR[term].spread for term in TERMS])
