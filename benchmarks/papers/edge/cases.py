"""The paper's twelve cases, four models on two, four or six NDP-DIMMs, less those without room."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

import numpy as np

from benchmarks.rooms.balance import Instance
from benchmarks.rooms.sim import ModelShape, Trace, get_model
from moeopt import generate, get_machine, set_machine

MODELS = ("deepseek-moe-16b", "qwen3-30b-a3b", "phi-3.5-moe", "mixtral-8x7b")
"""Table II."""

UNITS = (2, 4, 6)
"""NDP-DIMMs of 32 GB each (Fig. 9)."""

DIMM_BYTES = 32 * 10**9

FINE = 16
"""Slices on each unit that stand for the paper's real-valued shares of experts."""

Reading = Literal["expert-parallel", "balanced", "in hindsight"]
"""What MoNDE leaves to the GPU, see `monde`."""


@dataclass(frozen=True)
class Setting:
    """What the paper leaves open in decoding, at its defaults.

    Attributes
    ----------
    reading
        Of MoNDE's rule.
    at_random
        Whether prefetched experts are used no more often than others.
    slices
        On each unit.
    latency_us
        What an activation transfer takes on top of its bytes.
    """

    reading: Reading = "balanced"
    at_random: bool = False
    slices: int = FINE
    latency_us: float = 1.0


DEFAULT = Setting()


def machine_name(units: int) -> str:
    """Return the preset with so many NDP-DIMMs."""
    return f"edge-gpu-ndp-{units}"


def cases() -> Iterator[tuple[str, int]]:
    """Yield the supported (model, units): the expert weights fit into the NDP-DIMMs (Fig. 9)."""
    for model in MODELS:
        shape = get_model(model)
        for units in UNITS:
            if shape.weights_of("experts") * shape.bytes_per_weight <= units * DIMM_BYTES:
                yield model, units


def prefetched(model: ModelShape) -> int:
    """Return how many experts of each layer are prefetched in the ablation: TopK, Mixtral 1 (IV-D).

    Mixtral's are so large that one per layer is all the GPU has room for.
    """
    return 1 if model.name == "mixtral-8x7b" else model.top_k


@cache
def decode_instance(model: str, units: int, hits: int = 0, setting: Setting = DEFAULT) -> Instance:
    """Return one layer of one decoded token of whose experts `hits` were prefetched.

    The instance comes from the generator, with a trace of two tokens that is made for it: the
    prompt's only token chooses the first experts, which are then resident; the decoded token
    chooses `hits` of these, and others.
    """
    shape, machine = get_model(model), get_machine(machine_name(units))
    k = shape.top_k
    prompt = np.arange(k)
    decoded = np.concatenate([prompt[:hits], k + np.arange(k - hits)])
    made = generate(
        "balance",
        machine=set_machine(machine, {"pcie.latency_us": setting.latency_us}),
        model=shape,
        trace=Trace("made for so many hits", np.stack([prompt, decoded])[:, None]),
        seq_len=1,
        step=1,
        residents=prefetched(shape) if hits else 0,
        slices_per_unit=setting.slices,
        name=f"{model}-{units}-units-{hits}-hits-{setting.slices}-slices",
    )
    return cast(Instance, made)
