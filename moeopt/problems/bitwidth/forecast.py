"""Futures of a bitwidth instance: what losses count when other tokens choose the experts.

A loss counts by the share of choices that went to its expert, and shares of few choices are rough:
an expert that was not chosen once may well be next time. Choices are taken to be Poisson, and how
popular experts are to follow a gamma law; then the share after c of N choices among E experts has
mean (c + a) / (N + E a), a sum of pseudo-choices (Laplace's rule of succession where a = 1).

An instance states neither N nor a. Both follow from how many experts lose nothing at any width,
which says that they were not chosen, and how much the shares of the others vary (`_choices`).
Where every expert was chosen, N is taken to be large, and the forecast is what was observed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from moeopt.core.futures import Draw, Futures, drawn_from
from moeopt.core.rounding import rounded
from moeopt.problems.bitwidth.instance import Instance, Layer

Floats = NDArray[np.float64]

CHOICES_EACH = np.geomspace(0.05, 1e4, 200)
"""N / E as far as it is looked for; beyond it shares are as good as exact."""


@dataclass(frozen=True)
class Choices:
    """How sure the observed shares are.

    Attributes
    ----------
    each
        Choices per expert that were counted, on average: N / E.
    popularity
        The gamma law's shape, a.
    """

    each: float
    popularity: float


def draw(instance: Instance, futures: Futures, seed: int) -> Draw:
    """Return what draws losses like those of `instance`, summed over futures.

    Parameters
    ----------
    instance
        Losses as they counted in the tokens seen.
    futures
        Not used: shares are not followed over time.
    seed
        The same seed draws the same losses.
    """
    del futures
    choices = _choices(instance)

    def drawn(number: int, stream: int) -> Instance:
        rng = np.random.default_rng([seed, stream])
        layers = tuple(_layer(layer, choices, number, rng) for layer in instance.layers)
        return drawn_from(instance, f"futures{number}", seed, stream, layers=layers)

    return drawn


def _layer(layer: Layer, choices: Choices | None, number: int, rng: np.random.Generator) -> Layer:
    """Return a layer's losses, summed over so many futures."""
    losses = np.array([expert.loss for expert in layer.experts], dtype=np.float64)
    if choices is None or not losses.any():
        summed = number * losses
    else:
        summed = _of_one_choice(losses) * _shares(layer, choices, number, rng).sum(axis=0)[:, None]
    return layer.model_copy(
        update={
            "loss_error": None,
            "experts": tuple(
                expert.model_copy(update={"loss": tuple(row)})
                for expert, row in zip(
                    layer.experts, np.rint(rounded(summed)).astype(np.int64).tolist(), strict=True
                )
            ),
        }
    )


def _shares(layer: Layer, choices: Choices, number: int, rng: np.random.Generator) -> Floats:
    """Return shares of futures beside those observed, shape (futures, experts).

    Relative to the largest loss; see `_of_one_choice`. Each expert's quantiles are drawn one from
    each of `number` equal parts (Latin hypercube), so that even a small sample has the right mean.
    """
    used = _usage(layer)
    experts = len(used)
    counts = used / used.sum() * experts * choices.each
    shape = counts + choices.popularity
    parts = rng.permuted(np.tile(np.arange(number)[:, None], experts), axis=0)
    quantiles = (parts + rng.random((number, experts))) / number
    return np.asarray(gammaincinv(shape, quantiles) / shape.sum() * used.sum())


def _of_one_choice(losses: Floats) -> Floats:
    """Return losses of experts in their usual proportions, by width; 1 at the highest loss.

    Where an expert lost nothing, those of the median expert.
    """
    largest = losses.max(axis=1, keepdims=True)
    used = largest[:, 0] > 0
    shape: Floats = np.divide(losses, largest, out=np.ones_like(losses), where=largest > 0)
    shape[~used] = np.median(shape[used], axis=0)
    return shape


def _usage(layer: Layer) -> Floats:
    """Return how much each expert's loss counts: its largest loss, shape (experts,)."""
    return np.array([max(expert.loss) for expert in layer.experts], dtype=np.float64)


def _choices(instance: Instance) -> Choices | None:
    """Return the likeliest numbers of choices; None if every expert was chosen.

    Of a gamma-Poisson law with a mean of n choices per expert, the squared coefficient of variation
    is 1 / a + 1 / n, and (1 + n / a)^-a of the experts are not chosen. The first is measured on the
    importance, which is the usage where it is stated, and gives a for every n; the second makes
    the number that was not chosen likely or not.
    """
    variation, unused, experts = [], 0, 0
    for layer in instance.layers:
        used = _usage(layer)
        ranks = np.array([expert.importance for expert in layer.experts], dtype=np.float64)
        said = ranks if ranks.any() else used
        if len(said) > 1 and said.any() and used.any():
            variation.append(float(said.var(ddof=1) / said.mean() ** 2))
            unused += int((used == 0).sum())
            experts += len(used)
    if not unused or unused == experts:
        return None
    n = CHOICES_EACH
    shape = 1 / np.maximum(np.mean(variation) - 1 / n, 1e-3)
    none = -shape * np.log1p(n / shape)
    likely = unused * none + (experts - unused) * np.log(-np.expm1(none))
    best = int(np.argmax(rounded(likely)))
    return Choices(float(n[best]), float(shape[best]))
