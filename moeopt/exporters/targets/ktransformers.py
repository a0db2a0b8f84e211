"""Plans for KTransformers, of both generations.

sglang-kt's placement by frequency is made to choose exactly the experts of a plan. It loads
``logical_count`` [buffer, layer, expert] from a file of torch, layers without experts included,
sums it over the first axis and puts the int(ratio x all experts) experts of the largest counts on
the GPU, over all layers together. Counts of 1 for the plan's experts and 0 for all others, with the
ratio that gives their number, leave it no choice. The flags exist in KTransformers' fork of SGLang,
the package ``sglang-kt``, only.

Its flag for deferred experts is one count for every token and layer. A plan in which all layers but
the last defer the same number has that form; the last layer has nothing to defer into. For any
other plan the best uniform count is found, which trying them all proves.

Files that ``torch.load(weights_only=True)`` reads are written without torch: a zip archive without
compression, in it the pickle ``data.pkl`` and the bytes of each tensor. The pickle is put together
from a handful of instructions, which build a dict of tensors and nothing else
(`moeopt.sim.traces.readers.torch_zip` reads it).
"""

import io
import math
import struct
import zipfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError, LimitError
from moeopt.exporters.exported import Exported, Job, Loss
from moeopt.exporters.plans import checked_objective, compared, known_shape, placed
from moeopt.exporters.target import Option, Target
from moeopt.problems.deferral.instance import Solution as Deferred
from moeopt.sim.machines.runtimes.command import SGLANG, ratio_of, strategy
from moeopt.solvers.run import solve

from .llama_cpp import RUNNING, complete

_START, _STOP = b"\x80\x02", b"."
_DICT, _MARK, _SET_ITEMS = b"}", b"(", b"u"
_TUPLE, _EMPTY_TUPLE, _FALSE, _CALL, _OUTSIDE = b"t", b")", b"\x89", b"R", b"Q"
_REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
_STORAGE = b"ctorch\nIntStorage\n"
_ORDERED_DICT = b"ccollections\nOrderedDict\n" + _EMPTY_TUPLE + _CALL
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The earliest date of a zip file: the same content gives the same bytes."""


def torch_file(tensors: Mapping[str, NDArray[np.int32]]) -> bytes:
    """Return the content of a file that holds a dict of tensors: integers of 32 bits, any shape."""
    items = [
        _text(name) + _tensor(str(key), array) for key, (name, array) in enumerate(tensors.items())
    ]
    program = _START + _DICT + _MARK + b"".join(items) + _SET_ITEMS + _STOP
    members = {"data.pkl": program, "byteorder": b"little"}
    for key, array in enumerate(tensors.values()):
        members[f"data/{key}"] = np.ascontiguousarray(array).astype("<i4").tobytes()
    members["version"] = b"3\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}", _FIRST_DAY), content)
    return stream.getvalue()


def _tensor(key: str, array: NDArray[np.int32]) -> bytes:
    """Return the instructions that rebuild a tensor of contiguous numbers from a storage."""
    strides = [math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim)]
    place = _MARK + _text("storage") + _STORAGE + _text(key) + _text("cpu") + _int(array.size)
    arguments = _int(0) + _numbers(array.shape) + _numbers(strides) + _FALSE + _ORDERED_DICT
    return _REBUILD + _MARK + place + _TUPLE + _OUTSIDE + arguments + _TUPLE + _CALL


def _text(value: str) -> bytes:
    content = value.encode()
    return b"X" + struct.pack("<I", len(content)) + content


def _int(value: int) -> bytes:
    """Return the instruction that puts an integer."""
    return b"J" + struct.pack("<i", value)


def _numbers(values: tuple[int, ...] | list[int]) -> bytes:
    return _MARK + b"".join(map(_int, values)) + _TUPLE


KEY = "logical_count"

FLAG = "--kt-max-deferred-experts-per-token"
UNIFORM = "the same number of deferred experts in every layer"


def export(job: Job) -> Exported:
    """Return the counts of a placement."""
    plan = placed(job)
    counts = np.zeros((1, plan.all_layers, plan.experts), dtype=np.int32)
    for layer, own in zip(plan.hidden, plan.gpu, strict=True):
        counts[0, layer, list(own)] = 1
    chosen = plan.count, len(plan.hidden) * plan.experts
    deferred, loss = _deferred(job)

    def flags(path: Path) -> str:
        line = complete(job, strategy("frequency", str(path), chosen), "ktransformers")
        return line if deferred is None else f"{line} {deferral_flag(deferred)}"

    notes = plan.notes() | {"kt_gpu_experts_ratio": ratio_of(*chosen), "deferred": deferred}
    return Exported(torch_file({KEY: counts}), flags, notes, loss)


def other_layers(job: Job) -> tuple[str, ...]:
    """Return why the runtime would choose another number of experts than the plan has.

    It takes the first ``first_k_dense_replace`` layers for those without experts, and of the others
    every ``moe_layer_freq``-th for one with.
    """
    shape = known_shape(job)
    moe = shape.moe_layers
    steps = {after - before for before, after in pairwise(moe)} or {1}
    regular = len(steps) == 1 and moe[-1] + max(steps) >= shape.layers
    if regular and (steps == {1} or moe[0] % max(steps) == 0):
        return ()
    how = "the runtime finds layers with experts by first_k_dense_replace and moe_layer_freq"
    return (f"{how}, which cannot say those of {shape.name}: it would choose other experts",)


def _deferred(job: Job) -> tuple[int | None, Loss | None]:
    """Return the count that a deferral plan gives each layer, and what uniformity costs."""
    pair = job.options["deferral"]
    if not isinstance(pair, tuple):
        return None, None
    solution, instance = pair
    if solution.problem != "deferral":
        raise InputError(f"--deferral: must be a solution of deferral, not of {solution.problem}")
    objective = checked_objective(instance, solution)
    return _uniform_count(Job(instance, solution, objective, limits=job.limits))


def _uniform_count(job: Job) -> tuple[int, Loss | None]:
    """Return the plan's count, or the best uniform one and what it costs."""
    counts = {count or 0 for count in job.plan(Deferred).deferred[:-1]} or {0}
    if len(counts) == 1:
        return counts.pop(), None
    result = solve(job.instance, "uniform-d", **job.limits.asked)
    found = result.solution
    if not isinstance(found, Deferred):
        raise LimitError(f"{job.instance.name}: {UNIFORM}: none found")
    return found.deferred[0] or 0, compared(job, job.instance, found, UNIFORM, proven=True)


def deferral_flag(count: int) -> str:
    """Return the flag for a count."""
    return f"{FLAG} {count}"


TARGETS = (
    Target(
        "ktransformers",
        "KTransformers (sglang-kt): expert counts that force the placement",
        ("placement",),
        ".pt",
        export,
        holds="every placement, and one count of deferred experts for all layers",
        loses="nothing of a placement; counts of deferred experts that differ between layers",
        strict_suffix=True,
        options=(
            *(option for option in RUNNING if option.name != "cache_type"),
            Option("sockets", int, "A pool of threads each; default: the runtime's.", None, 1, 64),
            Option("deferral", tuple, "Deferral solution whose flag goes along."),
        ),
        honoured=lambda job: "no" if other_layers(job) else "unknown",
        warn=other_layers,
        start=f'"${{PYTHON:-python3}}" {SGLANG}',
    ),
)
