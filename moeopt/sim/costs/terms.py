"""The terms that a token's time is made of, and what is expected of them before measurements."""

import tomllib
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from moeopt.core.envelope import field_error

Vector = NDArray[np.float64]


PRIOR = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
"""What is expected of each term before any measurement is seen, the same for every runtime."""

TERMS = tuple(PRIOR)
"""The terms in the order of `amounts`."""

FACTORS = tuple(
    (TERMS.index(name), [TERMS.index(of) for of in term["of"]])
    for name, term in PRIOR.items()
    if "of" in term
)
"""Terms that are factors, and the terms whose times each multiplies."""

ON_HOST = np.array(
    [name.startswith(("host_", "cpu_", "oblivious_")) and "of" not in PRIOR[name] for name in PRIOR]
)
"""Which terms are times of the CPU and its memory; the others are the GPU's, or factors."""

OF_RUNTIMES = (
    *("host_read", "host_layer_us", "layer_us", "host_decode", "latent_layer_us"),
    "cpu_linear_layer_us",
)
"""Terms that differ between runtimes; the others are fitted to all of them together."""

OVERLAPS = (
    ((TERMS.index("gpu_read"),), TERMS.index("gpu_decode")),
    ((TERMS.index("gpu_kv"),), TERMS.index("gpu_scores")),
    ((TERMS.index("host_read"), TERMS.index("oblivious_read")), TERMS.index("host_decode")),
)
"""Reads and the computing that overlaps with them."""


def prior() -> tuple[Vector, Vector]:
    """Return the logarithms of the expected costs, and their spreads, in the order of `TERMS`."""
    expected, spread = ([term[key] for term in PRIOR.values()] for key in ("expected", "spread"))
    return np.log(expected), np.array(spread)


OVERLAP = 4.0
"""How nearly reads and computing of a device overlap: together they take (r^p + d^p)^(1/p).

With 1 they add; without end the longer one alone counts, as for a roofline. Prefetching and many
threads in flight hide all but a little of the shorter one."""


def factored(rows: NDArray[np.float64], costs: Vector) -> NDArray[np.float64]:
    """Return rows x costs with each factor in the terms that it is of; its own entry is 0."""
    times = np.asarray(rows * costs, dtype=float)
    for factor, of in FACTORS:
        times[..., of] *= (costs[..., factor] ** rows[..., factor])[..., None]
        times[..., factor] = 0.0
    return times


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
    times = factored(rows, costs)
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


def sensitivity(
    rows: NDArray[np.float64], costs: Vector, overlap: float = OVERLAP
) -> tuple[Vector, NDArray[np.float64]]:
    """Return the time of a token in us, and by how much its logarithm follows each cost's.

    Returns
    -------
    (...,) array and (..., terms) array
        A term's share of the time; a factor's is that of what it multiplies, times its power.
    """
    times = term_times(rows, costs, overlap)
    total = np.asarray(times.sum(axis=-1))
    shares = times / total[..., None]
    for factor, of in FACTORS:
        shares[..., factor] = shares[..., of].sum(axis=-1) * rows[..., factor]
    return total, shares


def _every_term(costs: dict[str, float]) -> dict[str, float]:
    """Return the costs if there is one of each term."""
    if set(costs) != set(TERMS):
        said = f"must have exactly {', '.join(TERMS)}; `moeopt calibrate` writes them anew"
        raise field_error([], said)
    return costs


Cost = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]
Costs = Annotated[dict[str, Cost], AfterValidator(_every_term)]
"""Term -> what it costs, for all of them."""
