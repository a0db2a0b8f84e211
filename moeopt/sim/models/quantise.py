"""Quantising weight matrices to few bits, and what the outputs of experts lose by it.

Rows are rounded to the nearest of some values, or column by column, each error made good by the
columns that are still free (GPTQ). Losses are mean squared errors on given or drawn activations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError

from .loss_table import LossTable

Floats = NDArray[np.float64]

MAX_BITS = 16


class Grid:
    """Equally spaced values for each row (output channel) of some matrices.

    With one bit the values are plus and minus the row's mean magnitude, the best scale for its
    signs. From two bits on they are spread from the row's least value to its greatest, as GPTQ's
    default quantiser does, with 0 among them: outliers make them coarse.

    Parameters
    ----------
    weights
        Shape (..., rows, columns).
    bits
        From 1 to 16.

    Raises
    ------
    InputError
        If the bits are out of range.
    """

    def __init__(self, weights: Floats, bits: int) -> None:
        if not 1 <= bits <= MAX_BITS:
            raise InputError(f"bits: must be from 1 to {MAX_BITS}, not {bits}")
        self.bits = bits
        if bits == 1:
            self.step = np.abs(weights).mean(axis=-1)
            self.zero = np.zeros_like(self.step)
            return
        low = np.minimum(weights.min(axis=-1), 0)
        high = np.maximum(weights.max(axis=-1), 0)
        self.step = (high - low) / (2**bits - 1)
        self.step[self.step == 0] = 1.0
        self.zero = np.rint(-low / self.step)

    def nearest(self, column: Floats) -> Floats:
        """Return the grid's values nearest to one column of the matrices, shape (..., rows)."""
        if self.bits == 1:
            return np.asarray(np.where(column >= 0, self.step, -self.step), dtype=np.float64)
        level = np.clip(np.rint(column / self.step) + self.zero, 0, 2**self.bits - 1)
        return np.asarray(self.step * (level - self.zero), dtype=np.float64)


def round_to_nearest(weights: Floats, bits: int) -> Floats:
    """Return matrices of shape (..., rows, columns) with each entry rounded by itself."""
    grid = Grid(weights, bits)
    columns = [grid.nearest(weights[..., j]) for j in range(weights.shape[-1])]
    return np.stack(columns, axis=-1)


DAMPING = 0.01
"""Share of the Hessian's mean diagonal that is added to its diagonal, as in GPTQ."""

BLOCK = 64
"""Columns whose errors reach the columns behind the block together, as one matrix product."""


def gptq(weights: Floats, factor: Floats, bits: int) -> Floats:
    """Return quantised matrices whose outputs stay close to those of `weights`.

    Column by column, from the first on: the column is rounded to the grid of the original rows, and
    the columns after it move to where the squared error of the output is least, given those that
    are rounded: the columns from j on change by -(error of column j) / U[j, j] times U[j, j:].

    Parameters
    ----------
    weights
        Shape (..., rows, columns).
    factor
        U, the upper Cholesky factor of the Hessian's inverse (`inverse_factor`).
    bits
        Per weight, as for `round_to_nearest`.

    References
    ----------
    Frantar, Ashkboos, Hoefler, Alistarh: GPTQ (ICLR 2023), Algorithm 1.
    """
    columns = weights.shape[-1]
    grid = Grid(weights, bits)
    stack = np.broadcast_shapes(weights.shape[:-2], factor.shape[:-2])
    free = np.array(np.broadcast_to(weights, (*stack, *weights.shape[-2:])))
    rounded = np.empty_like(free)
    for first in range(0, columns, BLOCK):
        end = min(first + BLOCK, columns)
        errors = np.empty((*free.shape[:-1], end - first))
        for j in range(first, end):
            rounded[..., j] = grid.nearest(free[..., j])
            error = (free[..., j] - rounded[..., j]) / factor[..., j, j, None]
            free[..., j + 1 : end] -= error[..., None] * factor[..., None, j, j + 1 : end]
            errors[..., j - first] = error
        free[..., end:] -= errors @ factor[..., first:end, end:]
    return rounded


def inverse_factor(hessian: Floats, damping: float = DAMPING) -> Floats:
    """Return U, upper triangular, with U^T U = (hessian + damping)^-1.

    Parameters
    ----------
    hessian
        Shape (..., columns, columns): mean outer product of activations.
    damping
        Share of the mean diagonal that is added; at least 1e-9.
    """
    mean = np.trace(hessian, axis1=-2, axis2=-1) / hessian.shape[-1]
    lift = max(damping, 1e-9) * np.where(mean > 0, mean, 1.0)
    damped = hessian + lift[..., None, None] * np.eye(hessian.shape[-1])
    inverse = np.linalg.inv(damped)
    symmetric = (inverse + np.swapaxes(inverse, -1, -2)) / 2
    return np.asarray(np.swapaxes(np.linalg.cholesky(symmetric), -1, -2), dtype=np.float64)


Quantiser = Literal["rtn", "gptq"]


def rounding(method: Quantiser, hessian: Floats) -> Callable[[Floats, int], Floats]:
    """Return what rounds weights to so many bits: each by itself, or making errors good."""
    if method == "rtn":
        return round_to_nearest
    factor = inverse_factor(hessian)
    return lambda weights, bits: gptq(weights, factor, bits)


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
    to_bits = rounding(method, hessian)
    found = [output_mse(exact, to_bits(exact, width), hessian) for width in bits]
    return np.stack(found, axis=-1)


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
    into, out_of = (rounding(method, hessian_of(x)) for x in (activations, inner))
    found = []
    for width in bits:
        rounded_gate, rounded_up = into(np.stack([gate, up]), width)
        through = _inner(rounded_gate, rounded_up, activations) @ out_of(down, width).T
        found.append(np.square(through - output).mean())
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


@dataclass(frozen=True)
class Inputs:
    """What the experts are run on.

    Attributes
    ----------
    given
        Activations (tokens, hidden) for all layers or (layers, tokens, hidden); None: normal
        numbers of unit variance, drawn anew for each layer.
    tokens, seed
        Of the normal numbers.
    """

    given: Floats | None = None
    tokens: int = 256
    seed: int = 0

    def of(self, position: int, hidden: int) -> Floats:
        """Return the activations of a layer, the `position`-th that has experts.

        Raises
        ------
        InputError
            If activations are given, but none for this layer.
        """
        if self.given is None:
            rng = np.random.default_rng([self.seed, position])
            return rng.standard_normal((self.tokens, hidden))
        if self.given.ndim == 2:
            return self.given
        if position >= len(self.given):
            raise InputError(f"activations: hold {len(self.given)} layers, and more are measured")
        return np.asarray(self.given[position], dtype=np.float64)

    def facts(self) -> dict[str, object]:
        """Return what provenance should say."""
        if self.given is None:
            return {"inputs": "standard normal", "tokens": self.tokens, "seed": self.seed}
        return {"inputs": "given", "tokens": self.given.shape[-2]}


def measured_table(
    name: str,
    read: Callable[[int, int], Matrices],
    layers: Sequence[int],
    experts: int,
    bits: Sequence[int],
    *,
    inputs: Inputs,
    method: Quantiser = "gptq",
    on_start: Callable[[int, int, str, str], None] | None = None,
) -> LossTable:
    """Quantise experts and return the mean squared errors of their outputs.

    Parameters
    ----------
    name
        Of the table.
    read
        Returns the matrices of (layer, expert).
    layers, experts
        Numbers of the layers in the model, and how many experts each has.
    bits
        The widths, rising.
    inputs, method
        See `Inputs` and `expert_losses`.
    on_start
        Called with (experts done, experts in all, layer, expert) before each expert.

    Raises
    ------
    InputError
        If shapes do not fit, a value is not finite or a width is out of range.
    """
    found = np.empty((len(layers), experts, len(bits)))
    for position, layer in enumerate(layers):
        for expert in range(experts):
            if on_start:
                done = position * experts + expert
                on_start(done, len(layers) * experts, f"layer {layer}", f"expert {expert}")
            matrices = read(layer, expert)
            activations = inputs.of(position, matrices[0].shape[-1])
            found[position, expert] = expert_losses(matrices, activations, bits, method)
    facts = {"quantiser": method, "model_layers": list(layers)} | inputs.facts()
    return LossTable(name, tuple(bits), found, facts)
