"""The terms that a token's time is made of, and what is expected of them before measurements."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from moeopt.core.envelope import Frozen, field_error
from moeopt.sim.machines.fields import about

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
    "gpu_scores": Term(
        4.0,
        0.6,
        "products of one token with the context on the GPU, over operations / rate of its ordinary"
        " cores; it overlaps with the reads of the cache",
        "one query's products hardly use the matrix units, and as many instructions go to sums and"
        " exponentials; half of the cores are busy; assumed",
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
        1.2,
        0.3,
        "the same on several sockets, by a runtime that does not place weights by socket, over"
        " bytes / the rate of an even spread: a share local, the rest across the link",
        "KTransformers 2.3: cross-socket reads have 125 of 220 GB/s; a little over `host_read`,"
        " since both directions share the link",
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
    ((TERMS.index("gpu_kv"),), TERMS.index("gpu_scores")),
    ((TERMS.index("host_read"), TERMS.index("oblivious_read")), TERMS.index("host_decode")),
)
"""Reads and the computing that overlaps with them."""


def prior() -> tuple[Vector, Vector]:
    """Return the logarithms of the expected costs, and their spreads, in the order of `TERMS`."""
    expected = [PRIOR[term].expected for term in TERMS]
    return np.log(expected), np.array([PRIOR[term].spread for term in TERMS])


OVERLAP = 4.0
"""How nearly reads and computing of a device overlap: together they take (r^p + d^p)^(1/p).

With 1 they add; without end the longer one alone counts, as for a roofline. Prefetching and many
threads in flight hide all but a little of the shorter one."""


def term_times(
    rows: NDArray[np.float64], costs: Vector, overlap: float = OVERLAP
) -> NDArray[np.float64]:
    """Return what each term adds to the time of a token, in us.

    Parameters
    ----------
    rows
        (..., terms): what is needed of each (`amounts`).
    costs
        (terms,): what each costs.
    overlap
        The p of `OVERLAP`.

    Returns
    -------
    (..., terms) array
        Products; but a device's reads and the computing that overlaps with them share what both
        take in proportion to their p-th powers.
    """
    times = np.asarray(rows * costs, dtype=float)
    for reads, computing in OVERLAPS:
        read, work = times[..., list(reads)].sum(axis=-1), times[..., computing]
        longer = np.maximum(np.maximum(read, work), 1e-300)
        powers = (read / longer) ** overlap, (work / longer) ** overlap
        total = np.maximum(sum(powers), 1e-300)
        both = longer * total ** (1.0 / overlap)
        for term in reads:
            times[..., term] *= both * powers[0] / total / np.maximum(read, 1e-300)
        times[..., computing] = both * powers[1] / total
    return times


def token_us(rows: NDArray[np.float64], costs: Vector, overlap: float = OVERLAP) -> Vector:
    """Return the time of a token: the sum of `term_times`, (...,) for rows (..., terms)."""
    return np.asarray(term_times(rows, costs, overlap).sum(axis=-1))


def _every_term(costs: dict[str, float]) -> dict[str, float]:
    """Return the costs if there is one of each term."""
    if set(costs) != set(TERMS):
        raise field_error([], f"must have exactly {', '.join(TERMS)}")
    return costs


Cost = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]
Costs = Annotated[dict[str, Cost], AfterValidator(_every_term)]
Short = Annotated[str, Field(min_length=1, max_length=200)]


class CalibratedModel(Frozen):
    """A model whose speed was measured on the machine."""

    model: Annotated[Short, about("name of the model", find="`moeopt calibrate`")]
    bits: Annotated[
        Annotated[float, Field(strict=True, gt=0, le=64, allow_inf_nan=False)],
        about("width of its experts", "bits", "`moeopt calibrate`"),
    ]
    costs: Annotated[Costs, about("term -> cost, for this model", find="`moeopt calibrate`")]


class CalibratedRuntime(Frozen):
    """A runtime whose speed was measured on the machine."""

    runtime: Annotated[Short, about("name of the runtime", find="`moeopt calibrate`")]
    costs: Annotated[Costs, about("term -> cost, for any model", find="`moeopt calibrate`")]
    models: Annotated[
        tuple[CalibratedModel, ...],
        Field(max_length=100),
        about("the models that were measured", find="`moeopt calibrate`"),
    ]
    points: Annotated[
        Annotated[int, Field(strict=True, ge=1, le=10**6)],
        about("how many measurements there were", "points", find="`moeopt calibrate`"),
    ]
