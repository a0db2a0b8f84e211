"""Runtimes' own plans: what they do by themselves, as plans for the engine."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.placement.instance import Instance as Placement
from moeopt.sim.machines.runtimes.command import strategy, uniform_experts
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.plan import Plan

from .budget import least_on_gpu

Ints = NDArray[np.int64]

Rows = tuple[tuple[int, ...], ...]

LLAMA_CPP = "llama.cpp"
KTRANSFORMERS = "ktransformers"

BLOCKS = "blocks"
"""The strategy of llama.cpp, which moves the experts of whole blocks."""

COUNTED = "frequency"
"""The strategy of KTransformers that decides by counting alone."""


@dataclass(frozen=True)
class Default:
    """A runtime's own plan.

    Attributes
    ----------
    plan
        Named by runtime and setting.
    runtime
        Who does so.
    flags
        How it is told to.
    strategy
        How it chooses: by blocks, by numbers of experts, or by counting (`COUNTED`).
    """

    plan: Plan
    runtime: str
    flags: str
    strategy: str = ""


def defaults(whole: Placement, common: Plan, model: ModelShape, counts: Ints) -> Iterator[Default]:
    """Yield the runtimes' own plans.

    - llama.cpp with ``--cpu-moe``: all experts on the CPU.
    - llama.cpp with ``--n-cpu-moe N``, the least N that fits: the experts of the first N blocks on
      the CPU. Blocks without experts count (its documentation: "the MoE weights of the first N
      layers").
    - ktransformers with the placement "uniform", its default: as many experts of every layer as
      fit, which are the first ones by number, and nothing deferred.
    - ktransformers with the placement "frequency": the experts that were chosen most often, over
      all layers together.

    Times and widths are those of the plan `common`, so that only the decisions differ. Plans that
    leave the host more experts than it has room for are left out.

    Parameters
    ----------
    whole
        The placement instance with all of the room for residents.
    common
        A plan with the times and widths.
    model
        Which blocks have experts.
    counts
        Shape (layers, experts): how many tokens chose each expert, which "frequency" goes by.
    """
    alike = Plan(times=common.times, bits=common.bits)
    needed = least_on_gpu(whole)
    for name, runtime, flags, how, rows in _settings(whole, model, counts):
        held = sum(int(whole.sizes[layer, list(row)].sum()) for layer, row in enumerate(rows))
        if held >= needed:
            plan = alike.model_copy(update={"name": f"{runtime} {name}", "resident": rows})
            yield Default(plan, runtime, flags, how)


def _settings(
    whole: Placement, model: ModelShape, counts: Ints
) -> Iterator[tuple[str, str, str, str, Rows]]:
    """Yield each setting's name, its runtime, its flags, how it chooses, and its residents."""
    yield "--cpu-moe", LLAMA_CPP, "-ngl 999 --cpu-moe", BLOCKS, ((),) * whole.layers
    blocks, rows = _last_layers(whole, model)
    setting = f"--n-cpu-moe {blocks}"
    yield setting, LLAMA_CPP, f"-ngl 999 {setting}", BLOCKS, rows
    each, rows = _equal_counts(whole)
    flags = " ".join(uniform_experts(each))
    yield f"uniform, {each} per layer", KTRANSFORMERS, flags, "uniform", rows
    rows = _most_chosen(whole, counts)
    held = sum(map(len, rows))
    flags = " ".join(strategy(COUNTED, "COUNTS.pt", (held, whole.sizes.size)))
    yield f"{COUNTED}, {held} experts", KTRANSFORMERS, flags, COUNTED, rows


def _last_layers(whole: Placement, model: ModelShape) -> tuple[int, Rows]:
    """Return the blocks whose experts are on the CPU, and the residents: the last layers."""
    taken = np.cumsum(whole.sizes.sum(axis=1)[::-1])
    off = whole.layers - int(np.searchsorted(taken, whole.gpu_slots, side="right"))
    everything = tuple(range(whole.experts))
    rows = tuple(() if layer < off else everything for layer in range(whole.layers))
    return (model.moe_layers[off - 1] + 1 if off else 0), rows


def _equal_counts(whole: Placement) -> tuple[int, Rows]:
    """Return how many experts of each layer fit, and the residents: the first ones."""
    taken = np.cumsum(whole.sizes.sum(axis=0))
    each = int(np.searchsorted(taken, whole.gpu_slots, side="right"))
    return each, (tuple(range(each)),) * whole.layers


def _most_chosen(whole: Placement, counts: Ints) -> Rows:
    """Return the experts of the largest counts that fit, ties to earlier layers and numbers."""
    order = np.argsort(-counts, axis=None, kind="stable")
    taken = np.cumsum(whole.sizes.ravel()[order])
    chosen = np.zeros(counts.size, dtype=bool)
    chosen[order[: np.searchsorted(taken, whole.gpu_slots, side="right")]] = True
    return tuple(tuple(np.flatnonzero(row).tolist()) for row in chosen.reshape(counts.shape))
