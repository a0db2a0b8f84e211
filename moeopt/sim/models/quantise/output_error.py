"""What the outputs of quantised matrices lose: the mean squared error on given activations."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError

from .gptq import compensated, inverse_factor
from .grids import round_to_nearest

Floats = NDArray[np.float64]

Quantiser = Literal["rtn", "gptq"]


def hessian_of(activations: Floats) -> Floats:
    """Return the mean outer product of activations, shape (..., columns, columns).

    Parameters
    ----------
    activations
        Shape (..., tokens, columns).
    """
    tokens = activations.shape[-2]
    return np.asarray(np.swapaxes(activations, -1, -2) @ activations / tokens, dtype=np.float64)


def output_mse(weights: Floats, quantised: Floats, hessian: Floats) -> Floats:
    """Return the mean squared difference of an output entry, shape (...).

    Over tokens x and rows w it is the mean of ((q - w) x)^2 = (q - w) H (q - w)^T.
    """
    difference = quantised - weights
    squares = (difference @ hessian * difference).sum(axis=-1)
    return np.asarray(squares.mean(axis=-1), dtype=np.float64)


def losses(
    weights: Floats, activations: Floats, bits: Sequence[int], method: Quantiser = "gptq"
) -> Floats:
    """Return the output MSE of matrices at every width, shape (..., widths).

    Parameters
    ----------
    weights
        Shape (..., rows, columns).
    activations
        Shape (..., tokens, columns).
    bits
        The widths.
    method
        "rtn" rounds each weight by itself, "gptq" makes errors good.

    Raises
    ------
    InputError
        If shapes do not fit, a value is not finite or a width is out of range.
    """
    if weights.ndim < 2 or activations.ndim < 2 or weights.shape[-1] != activations.shape[-1]:
        shapes = f"{weights.shape} and {activations.shape}"
        raise InputError(f"activations: must have as many columns as the weights, not {shapes}")
    if not (np.isfinite(weights).all() and np.isfinite(activations).all()):
        raise InputError("weights, activations: must be finite")
    if 0 in weights.shape or 0 in activations.shape:
        raise InputError("weights, activations: must not be empty")
    hessian = hessian_of(activations.astype(np.float64))
    exact = weights.astype(np.float64)
    if method == "rtn":
        rounded = [round_to_nearest(exact, width) for width in bits]
    else:
        factor = inverse_factor(hessian)
        rounded = [compensated(exact, factor, width) for width in bits]
    return np.stack([output_mse(exact, matrices, hessian) for matrices in rounded], axis=-1)
