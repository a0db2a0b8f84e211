"""K26 and K27: what deferral does to prompts, and against skipping the same experts (4.1, 6.3)."""

from dataclasses import replace
from functools import cache
from statistics import fmean

import numpy as np

from benchmarks.papers.figure import Ours
from benchmarks.papers.ktransformers.end_to_end import LENGTHS
from benchmarks.papers.ktransformers.fiddler_layer import MODEL
from benchmarks.papers.ktransformers.other_systems import LAWS
from benchmarks.papers.ktransformers.step import decode_step
from benchmarks.papers.seeds import over_seeds
from benchmarks.rooms.deferral import skipping, uniform
from benchmarks.rooms.sim import Workload, find, get_model, routing_trace

DEFERRED = 3
"""Of DeepSeek-V3's eight experts (4.2)."""

AFFECTED = 6
"""Of the quantised model's (6.3)."""


def k26() -> Ours:
    """Return how often experts' weights are read in a prompt with deferral, over without it."""
    found = {law: over_seeds(lambda seed, law=law: _footprints(law, seed)) for law in LAWS}  # type: ignore[misc]
    every = over_seeds(lambda seed: (fmean(x for law in LAWS for x in _footprints(law, seed)),))
    said = "; ".join(
        f"{law} {', '.join(f'{value:.2f}' for value in drawn.values)}"
        for law, drawn in found.items()
    )
    return Ours(
        every.values,
        "assumed",
        (
            f"DeepSeek-V3, each token defers the last {DEFERRED} of its experts in the router's"
            " order; an expert that is needed at once by some tokens and later by others is read"
            " twice",
            "the mean over prompts of 32 to 8,192 tokens and two laws of routing",
        ),
        f"prompts of {', '.join(map(str, LENGTHS))} tokens: {said}",
        intervals=every.intervals,
        seeds=every.seeds,
    )


@cache
def _footprints(law: str, seed: int) -> tuple[float, ...]:
    model = get_model(MODEL)
    trace = routing_trace(
        find("workloads", Workload, law), model.routed_experts, model.top_k, 1, LENGTHS[-1], seed
    )
    ids, first = trace.topk_ids[:, 0].astype(np.int64), model.top_k - DEFERRED
    found = []
    for length in LENGTHS:
        now, late = (len(np.unique(of)) for of in (ids[:length, :first], ids[:length, first:]))
        found.append((now + late) / len(np.unique(ids[:length])))
    return tuple(found)


def k27() -> Ours:
    """Return a token's time with six experts deferred, over that with the same six skipped."""
    step = decode_step("ktransformers-4080", MODEL, "int4")
    deferred = step.time_ns(uniform(step.instance, AFFECTED))
    left = replace(step, instance=skipping(step.instance, AFFECTED))
    without = step.time_ns(step.without_deferral())
    return Ours(
        (deferred / left.time_ns(left.without_deferral()),),
        "assumed",
        ("times of the step as in K5 to K8",),
        f"six deferred experts take {deferred / without:.2f} of the time without deferral: all of"
        " their work runs beside the GPU's",
    )
