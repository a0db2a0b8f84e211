"""What is checked before anything is solved: the trace, the budgets, and where files are to go."""

import os
import tempfile
from pathlib import Path

from moeopt.core.errors import InputError
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.trace import Trace

from .bits import check_average
from .budget import check_memory
from .request import Request

ENOUGH_CHOICES = 20
"""Choices per expert from which on it is certain that some fall on the upper half of the numbers:
numbers of experts say nothing of how popular they are."""


def check(request: Request) -> None:
    """Raise unless a plan can be made at all.

    Raises
    ------
    InputError
        If the trace is of another model, or options contradict each other.
    NoRoomError
        If something does not fit into memory, whatever is decided.
    """
    check_average(
        request.average_bits,
        request.bits,
        request.loss_table,
        budget=request.quality_loss is not None,
    )
    if isinstance(request.trace, Trace):
        check_trace(request.trace, request.model)
    check_memory(request)


def check_trace(trace: Trace, model: ModelShape) -> None:
    """Raise InputError unless the trace's layers and experts are the model's.

    A trace does not say how many experts there are. That it is of a model with fewer is taken for
    certain where in many choices not one is from the upper half.
    """
    layers, experts = len(model.moe_layers), model.routed_experts
    seen = trace.experts_seen
    few = 2 * seen <= experts and trace.topk_ids.size >= ENOUGH_CHOICES * experts
    if trace.layers != layers or seen > experts or few:
        own = f"{trace.layers} layers x {seen} experts (the highest number that occurs, plus one)"
        raise InputError(f"{trace.name}: {own} are not those of {model.name}: {layers} x {experts}")
    trace.check_fits(experts, model.top_k, layers)


def check_file(option: str, path: Path) -> None:
    """Raise InputError unless a file can be written to its folder."""
    _check_writable(option, path, path.parent)
    if path.is_dir():
        raise InputError(f"{option}: {path}: is a folder")


def check_folder(option: str, folder: Path) -> None:
    """Make a folder; raise InputError unless files can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{option}: {folder}: {error.strerror}") from None
    _check_writable(option, folder, folder)


def _check_writable(option: str, path: Path, folder: Path) -> None:
    """Write and remove a file: permissions do not tell what a file system takes."""
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")
    except OSError as error:
        raise InputError(f"{option}: {path}: {error.strerror}") from None
    os.close(handle)
    Path(name).unlink()
