"""Predictions of splits that options and a command line of llama.cpp say, or the runtime's fit."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from moeopt.core.errors import InfeasibleError, InputError
from moeopt.core.units import MIB
from moeopt.exporters.targets.llama_cpp import (
    BACKENDS,
    CUDA,
    fitted,
    read_split_flags,
    unfelt_overrides,
)
from moeopt.problems.split import PROBLEM
from moeopt.problems.split.check import used_bytes, violations
from moeopt.problems.split.generate import tensors_apart
from moeopt.problems.split.instance import Instance, Solution
from moeopt.sim.costs.threads import threaded
from moeopt.sim.machines.cores import cores_of
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.causes import told_of
from moeopt.sim.machines.runtimes.context import ALLOCATED, DEPTH, Context
from moeopt.sim.machines.runtimes.flags import CommandLine, Told, read_line, told
from moeopt.sim.machines.runtimes.kv_types import KvType, kv_type_of, kv_width
from moeopt.sim.machines.runtimes.options import PredictOptions
from moeopt.sim.machines.runtimes.setting import UBATCH, Setting
from moeopt.sim.models.by_layer import by_layer
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import at_bits
from moeopt.sim.presets import get_model

from .asked import what_fits
from .goal import Goal
from .placed import by_layers, check_rows, split_us
from .split import (
    SplitPrediction,
    Wish,
    gpus_of,
    host_calls,
    instance_of,
    no_room,
    options_of,
    predicted_split,
    shared_of,
    without,
)

N = TypeVar("N", bound=int | None)

CUTS_LAYERS = "llama.cpp-fit"
"""The rule that lays gate, up and down of a layer apart, where whole layers leave memory free."""


def predict_wanted(
    machine: Machine, model: ModelShape | str, wanted: PredictOptions, words: Sequence[str] | None
) -> SplitPrediction:
    """Predict by the options of ``moeopt predict``, and what `words` or a split say beside them.

    Raises
    ------
    InputError
        If options and flags contradict each other, or a flag is none.
    """
    shape = get_model(model)
    line = read_line(words or ())
    said = told(line, shape, machine, wanted.runtime)
    if words is not None:
        said = replace(said, notes=said.notes + tuple(_unsaid(line, shape, wanted)))
    given, words = words is not None, _with_blocks(words, line, wanted.n_cpu_moe)
    kv = _kv_types(said, wanted)
    ubatch = _agreed("--ubatch", wanted.ubatch, UBATCH, "-ub", said.ubatch)
    room = _agreed("--context", wanted.context, ALLOCATED, "-c", said.room)
    slot = room if said.slot is None else said.slot
    depth = min(DEPTH, slot) if wanted.depth is None else wanted.depth
    if depth > slot:
        why = f"a cache of -c {room}" if slot == room else f"a slot of -np: {slot} of -c {room}"
        raise InputError(
            f"must be at most {slot}, not {depth}: --flags ask for {why}", field="--depth"
        )
    bits = None if wanted.bits is None else str(wanted.bits)
    threads = _agreed("--threads", wanted.threads, None, "-t", said.threads)
    if machine.nodes and (cores := cores_of(machine, "interleaved").threads) is not None:
        if threads is not None:  # flags may ask for more than there are
            threads = min(threads, cores)
        elif given:  # a runtime that is told none takes all cores
            threads = cores
    setting = Setting(
        machine,
        shape if bits is None else at_bits(shape, bits),
        wanted.runtime,
        Context(depth, room),
        kv=kv,
        ubatch=ubatch,
        threads=threads,
        numa=said.numa or "interleaved",
        runtime_date=wanted.runtime_date,
    )
    wish = Wish(shape, bits, Goal(wanted.prompt or 0))
    options_of(setting, wish)
    setting = threaded(setting)
    split = wanted.plan if isinstance(wanted.plan, Solution) else None
    try:
        found = predict_split(setting, wish, words, said, split, wanted.path)
    except InfeasibleError as error:
        if split is not None:
            raise

        def check(other: Setting, name: str | None) -> None:
            predict_split(other, replace(wish, bits=name), words, said)

        hint = what_fits(setting, shape, bits, check, contexts=False)
        raise InfeasibleError(f"{error}; {hint}") from None
    setting, solution = found.setting, found.solution

    def speed_of(other: Setting) -> float:
        return 1e6 / split_us(other, solution)

    calls = host_calls(found.instance, solution)
    asks, why_so = told_of(setting, calls, threads, speed_of, found.speeds[0], wanted.measured)
    return replace(found, asks=asks, explained=why_so)


def predict_split(
    setting: Setting,
    wish: Wish,
    words: Sequence[str] | None = None,
    said: Told | None = None,
    split: Solution | None = None,
    path: str | None = None,
) -> SplitPrediction:
    """Predict what a command line does on a machine with several GPUs or nodes.

    Parameters
    ----------
    words
        Flags that say where layers and experts lie, as the runtime is given them; None: as it fits
        them itself (``--fit``).
    said
        What they say beside that, which the setting has: for the command.
    split
        In place of `words`.

    Raises
    ------
    InputError
        If a flag is none.
    InfeasibleError
        If a device has too little memory: MiB by device.
    """
    setting, wish = by_layers(setting), replace(wish, model=by_layer(wish.model))
    if split is not None and -1 in split.attention:
        wish = replace(wish, granularity="tensor")
    instance = instance_of(setting, wish)
    gpus = gpus_of(instance)
    used: Sequence[int] | None = None
    notes: tuple[str, ...] = ()
    if split is not None:
        check_rows(setting.model, len(instance.devices), split)
        found = split.model_copy(update={"instance": instance.name})
    elif words is not None:
        instance, found = _placed(words, setting, wish, instance)
        notes = tuple(unfelt_overrides(words, setting.model, len(gpus)))
        used = fitted(words, len(gpus)) if setting.runtime == "llama.cpp" else None
    else:
        used = range(len(gpus))
    if used is not None:
        rule = "ik-auto-fit" if setting.runtime == "ik_llama.cpp" else CUTS_LAYERS
        if rule == CUTS_LAYERS:
            instance = tensors_apart(instance)
        left = instance
        for row in {*range(len(gpus))} - {*used}:
            left = without(left, gpus[row])
        fit = PROBLEM.functions()[rule](left)
        if fit is None:
            raise InfeasibleError(no_room(instance))
        found = fit.model_copy(update={"instance": instance.name})
    elif wrong := [why for rule, why in violations(instance, found) if rule != "SP-C4"]:
        raise InfeasibleError(_too_full(instance, found) or wrong[0])
    line = " ".join(words or ())
    backend = next((name for name in BACKENDS if re.search(rf"\b{name}\d", line)), CUDA)
    made = predicted_split(setting, wish, instance, found, path, backend, said)
    return replace(made, notes=made.notes + (() if said is None else said.notes) + notes)


def _placed(
    words: Sequence[str], setting: Setting, wish: Wish, instance: Instance
) -> tuple[Instance, Solution]:
    """Return what flags say of where parts lie; by tensor where they lay a layer's apart."""
    gpus, model = gpus_of(instance), setting.model
    memory = [float(instance.devices[gpu].capacity) for gpu in gpus]
    shared = shared_of(instance, setting)
    at, own = read_split_flags(words, model.layers, memory, model.nextn or 0, shared)
    apart = [len(set(homes)) > 1 for homes in own]
    if any(apart[layer] for layer in model.moe_layers) and wish.granularity == "layer":
        instance = instance_of(setting, replace(wish, granularity="tensor"))
    number = {f"{CUDA}{row}": gpu for row, gpu in enumerate(gpus)}
    attention, experts, layer, tensor = list[int](), list[int](), -1, 0
    for row in instance.layers:
        begins = row.attention_ns is not None
        layer, tensor = layer + begins, 0 if begins else tensor + 1
        attention.append(number.get(at[layer], instance.source) if begins else -1)
        home = number.get(own[layer][tensor], instance.source)
        experts.append(home if row.experts_ns is not None else -1)
    found = Solution(instance=instance.name, attention=tuple(attention), experts=tuple(experts))
    return instance, found


def _too_full(instance: Instance, solution: Solution) -> str:
    """Return by how many MiB devices are too small for a split; empty if none is."""
    taken, said = {*solution.attention, *solution.experts}, []
    for number, used in enumerate(used_bytes(instance, solution)):
        device = instance.devices[number]
        missing = used + device.buffer * (number in taken) - device.capacity
        if missing > 0:
            said.append(f"{device.name} lacks {-(-missing // MIB):,} of {device.capacity // MIB:,}")
    return f"machine: {instance.name} does not fit: {', '.join(said)} MiB" if said else ""


def _unsaid(line: CommandLine, model: ModelShape, wanted: PredictOptions) -> Iterator[str]:
    """Yield what is taken where a command line leaves a choice to the runtime."""
    if "-c" not in line.given and wanted.context == ALLOCATED:
        length = model.context_length
        own = "the model's own length" if length is None else f"the model's own {length:,}"
        if length != ALLOCATED:
            yield f"--flags: no -c: {ALLOCATED:,} tokens are taken; the runtime would take {own}"
    if "-ngl" not in line.given and wanted.runtime == "ik_llama.cpp":
        yield "--flags: no -ngl: all layers are taken to be on the GPUs"


def _with_blocks(
    words: Sequence[str] | None, line: CommandLine, n_cpu_moe: int | None
) -> Sequence[str] | None:
    """Return a command line with ``--n-cpu-moe`` as the option of that name has it."""
    if n_cpu_moe is None:
        return words
    for flag in line.flags:
        if flag.name == "--cpu-moe" or (
            flag.name == "--n-cpu-moe" and flag.value != f"{n_cpu_moe}"
        ):
            given = " ".join(flag.words)
            raise InputError(f"is {n_cpu_moe}, but --flags say {given}", field="--n-cpu-moe")
    return [*(words or ()), "--n-cpu-moe", str(n_cpu_moe)]


def _agreed(option: str, value: N, default: N, flag: str, said: N | None) -> N:
    """Return what an option and a flag say; a default says nothing."""
    if said is None or said == value:
        return value
    if value != default:
        raise InputError(f"is {value}, but --flags say {flag} {said}", field=option)
    return said


def _kv_types(said: Told, wanted: PredictOptions) -> tuple[KvType, KvType]:
    """Return the types of keys and values in the cache; llama.cpp has f16 for what nobody says."""
    own = None if wanted.kv_bits is None else kv_type_of(wanted.kv_bits, wanted.runtime)
    for flag, kind in zip(("-ctk", "-ctv"), said.kv, strict=True):
        if None not in (own, kind) and abs(kv_width(kind or "") - kv_width(own or "")) > 0.01:
            raise InputError(
                f"is {wanted.kv_bits}, but --flags say {flag} {kind}", field="--kv-bits"
            )
    keys, values = (kind or own or "f16" for kind in said.kv)
    return keys, values
