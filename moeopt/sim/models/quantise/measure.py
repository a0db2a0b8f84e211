"""A loss table from weights: every expert quantised at every width, on given or drawn inputs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.sim.models.loss_table import LossTable

from .expert import Matrices, expert_losses
from .output_error import Quantiser

Floats = NDArray[np.float64]


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
