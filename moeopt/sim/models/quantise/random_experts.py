"""Random weights and activations by a stated law, where no model's weights are at hand.

The law, for each expert by itself. Weights are Student-t, with degrees of freedom drawn from
`TAILS` (heavy tails make min-max grids coarse: at two bits such experts may lose more than at one),
times a scale that is log-normal over the experts. Activations are normal with a log-normal scale
per column, of which `OUTLIERS` have ten times that, plus a common direction. Losses are relative to
the mean square of the unquantised output, times the expert's squared scale.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .output_error import Quantiser, hessian_of, losses, output_mse

Floats = NDArray[np.float64]

ROWS, COLUMNS, TOKENS = 4, 32, 64
"""Of the matrix that stands for an expert, and the activations that it is measured on."""

TAILS = (2.1, 3.0, 5.0, 30.0)
SCALE_SIGMA = 0.5
OUTLIERS = 0.05
COMMON = 0.5


def law() -> dict[str, object]:
    """Return the law's numbers, for an instance's provenance."""
    return {
        "rows": ROWS,
        "columns": COLUMNS,
        "tokens": TOKENS,
        "student_t_degrees": list(TAILS),
        "scale_sigma": SCALE_SIGMA,
        "outlier_columns": OUTLIERS,
        "common_direction": COMMON,
    }


def random_losses(
    experts: int, bits: Sequence[int], method: Quantiser, rng: np.random.Generator
) -> Floats:
    """Return the losses of a layer of random experts, shape (experts, widths)."""
    scale = np.exp(SCALE_SIGMA * rng.standard_normal(experts))
    degrees = rng.choice(TAILS, size=experts)[:, None, None]
    weights = rng.standard_t(degrees, size=(experts, ROWS, COLUMNS))
    columns = np.exp(0.5 * rng.standard_normal((experts, 1, COLUMNS)))
    columns *= np.where(rng.random((experts, 1, COLUMNS)) < OUTLIERS, 10.0, 1.0)
    common = COMMON * rng.standard_normal((experts, TOKENS, 1))
    activations = columns * (rng.standard_normal((experts, TOKENS, COLUMNS)) + common)
    absolute = losses(weights, activations, bits, method)
    outputs = output_mse(np.zeros_like(weights), weights, hessian_of(activations))
    return np.asarray(absolute / outputs[:, None] * scale[:, None] ** 2, dtype=np.float64)


@lru_cache(maxsize=8)
def random_table(
    layers: int, experts: int, bits: tuple[int, ...], method: Quantiser, seed: int
) -> Floats:
    """Return the losses of random experts, shape (layers, experts, widths).

    Every layer has random numbers of its own, so that more layers leave the first ones as they are.
    The last few tables are kept, as instances that are compared share theirs; they are read-only.
    """
    streams = np.random.default_rng(seed).spawn(layers)
    table = np.stack([random_losses(experts, bits, method, stream) for stream in streams])
    table.flags.writeable = False
    return table
