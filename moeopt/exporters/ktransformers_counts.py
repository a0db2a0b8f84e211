"""KTransformers' placement by frequency, made to choose exactly the experts of a plan.

Its ``frequency`` strategy loads ``logical_count`` [buffer, layer, expert] from a file of torch,
layers without experts included, sums it over the first axis and puts the int(ratio x all experts)
experts of the largest counts on the GPU, over all layers together. Counts of 1 for the plan's
experts and 0 for all others, with the ratio that gives their number, leave it no choice.
"""

import math
import shlex
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import InputError
from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.ktransformers_deferral import deferral_flag
from moeopt.exporters.placed import placed
from moeopt.exporters.torch_file import torch_file
from moeopt.interop.torch_zip import read_torch

KEY = "logical_count"


def export(job: Job) -> Exported:
    """Return the counts of a placement."""
    plan = placed(job)
    counts = np.zeros((1, plan.all_layers, plan.experts), dtype=np.int32)
    for layer, own in zip(plan.hidden, plan.gpu, strict=True):
        counts[0, layer, list(own)] = 1
    ratio = ratio_of(plan.count, len(plan.hidden) * plan.experts)

    def flags(path: Path) -> str:
        line = f"--kt-expert-placement-strategy frequency --init-expert-location {_quoted(path)}"
        line += f" --kt-gpu-experts-ratio {ratio!r}"
        return line if job.deferred is None else f"{line} {deferral_flag(job.deferred)}"

    notes = plan.notes() | {"kt_gpu_experts_ratio": ratio, "deferred": job.deferred}
    return Exported(torch_file({KEY: counts}), flags, notes, job.deferral_loss)


def ratio_of(chosen: int, total: int) -> float:
    """Return a number from 0 to 1 with int(total * ratio) == chosen, in floats as it is computed.

    The quotient itself, or the next float above where the product falls short of the integer.
    """
    ratio = chosen / total
    while int(total * ratio) < chosen:
        ratio = math.nextafter(ratio, 2.0)
    return ratio


def read_ktransformers_counts(
    path: Path, ratio: float, moe_layers: list[int]
) -> list[tuple[int, ...]]:
    """Return the GPU experts of each layer with experts that KTransformers would choose.

    Parameters
    ----------
    path, ratio
        The file of counts and ``--kt-gpu-experts-ratio``.
    moe_layers
        The layers with experts, which the runtime takes from the model.

    Raises
    ------
    InputError
        If the file holds no such counts, or its counts leave the runtime a choice.
    """
    data = read_torch(path)
    counts = data.get(KEY) if isinstance(data, dict) else None
    if not isinstance(counts, np.ndarray) or counts.ndim != 3 or counts.dtype.kind not in "iu":
        raise InputError(f"{path}: {KEY}: must be a tensor of integers with 3 axes")
    summed: NDArray[np.int64] = counts.sum(axis=0)[moe_layers]
    chosen = int(summed.size * ratio)
    order = np.sort(summed, axis=None)[::-1]
    if 0 < chosen < summed.size and order[chosen - 1] == order[chosen]:
        raise InputError(f"{path}: {KEY}: the {chosen} largest counts are not told apart")
    least = order[chosen - 1] if chosen else order[0] + 1
    return [tuple(np.flatnonzero(row >= least).tolist()) for row in summed]


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
