"""Usage that is still to come: futures of an instance, widths decided on them, hold-outs.

A loss counts by the share of choices that went to its expert, and shares of few choices are rough:
an expert that was not chosen once may well be next time. Choices are taken to be Poisson, and how
popular experts are to follow a gamma law; then the share after c of N choices among E experts has
mean (c + a) / (N + E a), a sum of pseudo-choices (Laplace's rule of succession where a = 1). An
instance states neither N nor a. Both follow from how many experts lose nothing at any width, which
says that they were not chosen, and how much the shares of the others vary (`_choices`). Where every
expert was chosen, N is taken to be large, and the forecast is what was observed.

A loss is linear in how often its expert is chosen, so that the mean over futures is a problem of
the same kind, with the futures' losses summed, and its exact dynamic program gives the stochastic
optimum. For a quantile `decide` compares that optimum and the one that fits what was observed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv

from moeopt.core.clock import checkpoint
from moeopt.core.errors import InputError
from moeopt.core.futures import Draw, Futures, drawn_from
from moeopt.core.rounding import rounded
from moeopt.core.search import Search

from . import dynamic_program
from .check import objective
from .heuristics import greedy_marginal
from .instance import Instance, Layer, Solution

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


DRAWN_PER_UNIT = 1e6
"""Shares of experts that are drawn in a second of one core."""


def _layer(layer: Layer, choices: Choices | None, number: int, rng: np.random.Generator) -> Layer:
    """Return a layer's losses, summed over so many futures."""
    checkpoint(number * len(layer.experts) / DRAWN_PER_UNIT)
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


AT_ONCE = 2**62
"""Stands for the value of a decision that is reported before there are futures to value it on."""

TRAIN, SINGLE = 0, 1
"""Streams of futures: the first is summed; for a quantile, one stream each from the second on."""


def decide(observed: Instance, draw: Draw, search: Search, futures: Futures) -> None:
    """Report widths and what they lose in the futures."""
    if (first := greedy_marginal(observed)) is not None:
        search.offer(first, AT_ONCE)
    train: Instance = draw(futures.samples, TRAIN)
    single: list[Instance] = []
    if futures.quantile is not None:
        single = [draw(1, SINGLE + number) for number in range(futures.samples)]

    def offer(widths: Solution) -> None:
        def lost(instance: Instance) -> int:
            return objective(instance, widths.model_copy(update={"instance": instance.name}))

        value = futures.value([lost(one) for one in single]) if single else lost(train)
        search.offer(widths.model_copy(update={"instance": train.name}), value)

    for instance in (train, observed):
        if (start := greedy_marginal(instance)) is not None:
            offer(start)
    for instance in (train, observed) if single else (train,):
        inner = Search(search.remaining_s, search.seed)
        dynamic_program.solve(instance, inner)
        if inner.infeasible:
            search.infeasible = True
            return
        if inner.solution is not None:
            offer(inner.solution)
        if not single and isinstance(inner.bound, int):
            search.prove(inner.bound)


def joined(instances: Sequence[Instance]) -> Instance:
    """Return the instance whose experts lose the sums of what they lose in each.

    Raises
    ------
    InputError
        If losses are in different units, or of other experts or in another order.
    """
    first = instances[0]
    shape = [
        [(layer.loss_scale, [expert.expert for expert in layer.experts]) for layer in one.layers]
        for one in instances
    ]
    if len({one.loss_scale for one in instances}) > 1 or any(of != shape[0] for of in shape):
        raise InputError("losses: are in different units, or of other experts")
    layers = tuple(_sum(layers) for layers in zip(*(one.layers for one in instances), strict=True))
    return first.model_copy(update={"layers": layers, "provenance": None})


def _sum(layers: Sequence[Layer]) -> Layer:
    experts = tuple(
        same[0].model_copy(
            update={"loss": tuple(map(sum, zip(*(e.loss for e in same), strict=True)))}
        )
        for same in zip(*(layer.experts for layer in layers), strict=True)
    )
    errors = [layer.loss_error for layer in layers if layer.loss_error is not None]
    error = sum(errors) if errors else None
    return layers[0].model_copy(update={"experts": experts, "loss_error": error})
