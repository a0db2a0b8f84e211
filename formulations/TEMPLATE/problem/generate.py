"""TEMPLATE instances: experts of a layer, and GPU memory for a share of them."""

from typing import Annotated

import numpy as np
from pydantic import Field

from moeopt.core.envelope import Frozen
from moeopt.core.errors import InputError
from moeopt.sim.source import Source

from .instance import Expert, Instance


class Options(Frozen):
    """What this generator can be told besides machine, model, trace and seed."""

    batch: Annotated[int, Field(ge=1, le=2**16, description="tokens in the decode step")] = 64
    layer: Annotated[int, Field(ge=0, le=4096, description="layer of the trace, from 0")] = 0
    share: Annotated[float, Field(ge=0, le=1, description="share of experts that fit")] = 0.25
    halved: Annotated[
        int,
        Field(ge=0, le=4096, description="every so many experts one has half the size; 0: none"),
    ] = 3
    min_kept: Annotated[int, Field(ge=0, le=4096, description="least number of kept experts")] = 0


def generate(source: Source, options: Options) -> Instance:
    """Return the instance of one layer in the first step of the trace.

    An expert that is not kept costs its transfer to the GPU if any token goes to it.

    Raises
    ------
    InputError
        If the trace does not fit the model or has no such layer.
    """
    trace, model = source.trace_of(options.batch), source.model
    if options.layer >= trace.layers:
        raise InputError(f"layer: must be below {trace.layers}, not {options.layer}")
    counts = trace.counts(np.arange(options.batch), options.layer, model.routed_experts)
    miss, hit = (
        source.costs.of(model).path_ns(path, counts.clip(1), source.quantum_ns)
        for path in ("gpu_miss_striped", "gpu_hit")
    )
    sizes = [
        model.expert_bytes // (2 if options.halved and number % options.halved == 0 else 1)
        for number in range(len(counts))
    ]
    costs = [cost if tokens else 0 for cost, tokens in zip(miss - hit, counts, strict=True)]
    return Instance(
        name=source.name or f"{model.name}-layer{options.layer}-share{options.share:g}",
        provenance=source.provenance(trace, options.model_dump()),
        quantum_ns=source.quantum_ns,
        capacity_bytes=int(options.share * sum(sizes)),
        min_kept=options.min_kept,
        experts=tuple(
            Expert(size_bytes=size, miss_ns=cost) for size, cost in zip(sizes, costs, strict=True)
        ),
    )
