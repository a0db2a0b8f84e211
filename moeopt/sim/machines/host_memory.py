"""The fields of schema 2 of the TriMoE problems, from a machine, a model and settlements."""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from moeopt.sim.machines.cost import NS_PER_S, computation_s, to_quanta, transfer_s
from moeopt.sim.machines.layer_cost import shared_experts_s
from moeopt.sim.source import Source
from moeopt.sim.traces.windows import LayerOptions

PER_CHANNEL = 2
"""DIMMs of a memory channel: TriMoE Table 1, "8 channels x 2 DIMM"."""


class MemoryOptions(LayerOptions):
    """The settlements that schema 2 can express; the defaults are schema 1."""

    dimm_share: Annotated[
        Literal["1", "1/2"], Field(description="part of a striped read that each DIMM is busy with")
    ] = "1"
    channels: Annotated[
        Literal["none", "two DIMMs each"], Field(description="memory channels that limit reads")
    ] = "none"
    gpu_base: Annotated[
        Literal["none", "shared experts"], Field(description="GPU's work before routed experts")
    ] = "none"
    gpu_work: Annotated[
        Literal["one path", "two parts"],
        Field(description="whether transfers and computation on the GPU overlap"),
    ] = "one path"


def memory_fields(
    source: Source, options: MemoryOptions, dimms: int, tokens: int
) -> dict[str, object]:
    """Return the fields of an instance that `moeopt.core.host_memory` names.

    Parameters
    ----------
    dimms
        DIMMs of the instance; 2c and 2c + 1 share a channel.
    tokens
        Tokens of the step: every one passes through the shared experts.

    Returns
    -------
    dict
        Empty if all settlements are as in schema 1.
    """
    fields: dict[str, object] = {}
    if options.dimm_share != "1":
        fields["dimm_share"] = (1, 2)
    if options.channels != "none":
        fields["channels"] = tuple(dimm // PER_CHANNEL for dimm in range(dimms))
    if options.gpu_base != "none":
        seconds = shared_experts_s(source.machine, source.model, tokens)
        fields["gpu_base_ns"] = int(to_quanta(seconds * NS_PER_S, source.quantum_ns))
    return fields


def parts_ns(source: Source, tokens: ArrayLike) -> tuple[NDArray[np.int64], int]:
    """Return the two parts of an expert that the GPU fetches: its computation, its transfer.

    Eq. 2 has three terms, of which each keeps another resource busy: the GPU, PCIe, and the DIMMs,
    whose rows have the read already. The link is busy for as long as it takes to move the bytes,
    however the expert lies.

    Parameters
    ----------
    tokens
        Token counts, each at least 1.
    """
    machine, model, quantum = source.machine, source.model, source.quantum_ns
    calculation = to_quanta(computation_s(machine, model, "gpu", tokens) * NS_PER_S, quantum)
    return calculation, int(to_quanta(transfer_s(machine, model) * NS_PER_S, quantum))
