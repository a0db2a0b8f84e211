"""What the output of a whole expert loses when all of its matrices are quantised alike."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError

from .gptq import compensated, inverse_factor
from .grids import round_to_nearest
from .output_error import Quantiser, hessian_of, losses

Floats = NDArray[np.float64]

Matrices = Sequence[NDArray[np.floating]]
"""One matrix, or three of a gated expert: gate and up (inner, hidden), down (hidden, inner)."""


def expert_losses(
    matrices: Matrices, activations: Floats, bits: Sequence[int], method: Quantiser = "gptq"
) -> Floats:
    """Return the mean squared error of an expert's output at every width, shape (widths,).

    A gated expert computes ``down (silu(gate x) * (up x))``. Gate and up are quantised against the
    expert's input, down against what the exact gate and up hand to it; then the quantised expert
    runs as a whole, so that the errors of its matrices add up as they would.

    Parameters
    ----------
    matrices
        See `Matrices`.
    activations
        The expert's input, shape (tokens, hidden).
    bits
        The widths.
    method
        "rtn" rounds each weight by itself, "gptq" makes errors good.

    Raises
    ------
    InputError
        If shapes do not fit, a value is not finite or a width is out of range.
    """
    exact = [np.asarray(matrix, dtype=np.float64) for matrix in matrices]
    if len(exact) == 1:
        return losses(exact[0], activations, bits, method)
    _check_gated(exact, activations)
    gate, up, down = exact
    inner = _inner(gate, up, activations)
    output = inner @ down.T
    factors = [inverse_factor(hessian_of(x)) for x in (activations, inner)]
    found = []
    for width in bits:
        if method == "gptq":
            into = compensated(np.stack([gate, up]), factors[0], width)
            out_of = compensated(down, factors[1], width)
        else:
            into = round_to_nearest(np.stack([gate, up]), width)
            out_of = round_to_nearest(down, width)
        error = _inner(into[0], into[1], activations) @ out_of.T - output
        found.append(np.square(error).mean())
    return np.array(found)


def _inner(gate: Floats, up: Floats, activations: Floats) -> Floats:
    """Return what gate and up hand to down: silu(gate x) * (up x)."""
    gated = activations @ gate.T
    # silu(g) = g / (1 + exp(-g)); clipped, as exp of more than 700 is no float
    return np.asarray(gated / (1 + np.exp(np.clip(-gated, None, 700))) * (activations @ up.T))


def _check_gated(matrices: Sequence[Floats], activations: Floats) -> None:
    if len(matrices) != 3 or any(matrix.ndim != 2 for matrix in matrices):
        raise InputError("weights: an expert must have one matrix, or gate, up and down")
    gate, up, down = matrices
    if gate.shape != up.shape or down.shape != gate.shape[::-1]:
        shapes = ", ".join(str(matrix.shape) for matrix in matrices)
        raise InputError(f"weights: gate, up and down must fit each other, not {shapes}")
    if activations.ndim != 2 or activations.shape[1] != gate.shape[1]:
        reason = f"must have {gate.shape[1]} columns as the gate has"
        raise InputError(f"activations: {reason}, not shape {activations.shape}")
    if 0 in gate.shape or 0 in activations.shape:
        raise InputError("weights, activations: must not be empty")
    if not all(np.isfinite(array).all() for array in (*matrices, activations)):
        raise InputError("weights, activations: must be finite")
