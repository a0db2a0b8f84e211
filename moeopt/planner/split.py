"""Plans and predictions over several GPUs or memory nodes: problem `split`, and a command line."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil
from typing import TypeVar, cast

from moeopt.core.envelope import validated
from moeopt.core.errors import InfeasibleError, InputError, LimitError
from moeopt.core.logs import logger_of
from moeopt.core.units import MIB
from moeopt.exporters.targets.llama_cpp import (
    BACKENDS,
    CUDA,
    Shared,
    fitted,
    read_split_flags,
    shared_by_ik,
    split_flags,
    unfelt_overrides,
)
from moeopt.problems.generate import generate
from moeopt.problems.split import PROBLEM
from moeopt.problems.split.check import objective, used_bytes, violations
from moeopt.problems.split.generate import Options, tensors_apart
from moeopt.problems.split.instance import Instance, Solution
from moeopt.sim.costs.interval import few_measured
from moeopt.sim.costs.threads import threaded
from moeopt.sim.machines.cores import NumaMode, cores_of
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.causes import Explained, asked_for, explained
from moeopt.sim.machines.runtimes.command import NUMA, command_line, running
from moeopt.sim.machines.runtimes.context import ALLOCATED, DEPTH, Context
from moeopt.sim.machines.runtimes.flags import CommandLine, Told, read_line, told
from moeopt.sim.machines.runtimes.kv_types import KvType, kv_type_of, kv_width
from moeopt.sim.machines.runtimes.memory import ik_buffer_bytes, is_stated, unstated, uses
from moeopt.sim.machines.runtimes.options import PredictOptions
from moeopt.sim.machines.runtimes.setting import UBATCH, Setting
from moeopt.sim.machines.runtimes.speeds import Speed, WithSpeeds, speeds_as_dict, speeds_in_words
from moeopt.sim.models.by_layer import by_layer
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import at_bits, not_read
from moeopt.sim.presets import get_model
from moeopt.sim.traces.count_sample import counts_of_model
from moeopt.sim.traces.trace import Counts
from moeopt.solvers import arguments
from moeopt.solvers.run import solve

from .asked import nearest
from .goal import Goal
from .options import PlanOptions, SeveralOptions, depth_of
from .placed import by_layers, check_rows, split_speeds, split_us
from .report import Bracket, PlanReport, Row

logger = logger_of(__name__)

N = TypeVar("N", bound=int | None)

PARTS = ("attention", "experts", "buffers")
"""What lies in a device's memory."""

CUTS_LAYERS = "llama.cpp-fit"
"""The rule that lays gate, up and down of a layer apart, where whole layers leave memory free."""

CUT_SHORT = "interrupted: the plan is the best so far, and not all comparisons were made"
"""Note of a plan after Ctrl-C."""


@dataclass(frozen=True)
class Wish:
    """What a split is for, beside its setting.

    Attributes
    ----------
    model, bits
        The model as it was named, and the quantisation of its weights that is asked for.
    prompt_tokens, reply_tokens
        Of a request; without a prompt decoding alone counts.
    granularity
        Experts by "layer", or by "tensor".
    counts
        Of the model: which experts a prompt activates, layer by layer.
    """

    model: ModelShape
    bits: str | None = None
    prompt_tokens: int = 0
    reply_tokens: int = 1
    granularity: str = "layer"
    counts: Counts | None = None


@dataclass(frozen=True)
class SplitPrediction(WithSpeeds):
    """What lies where on which device, and how fast that is predicted to be.

    Attributes
    ----------
    setting
        As the runtime is started.
    instance, solution
        Of problem `split`.
    speeds
        Decoding one sequence, with an 80 % interval, and reading a prompt: at the depth asked for,
        and at others.
    command
        What runs it.
    asks
        What decides the speed and was assumed, with the option that says it.
    explained
        By what a measured speed differs, where one was given.
    """

    setting: Setting
    instance: Instance
    solution: Solution
    speeds: tuple[Speed, ...]
    command: str
    notes: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    explained: Explained | None = None

    @property
    def n_cpu_moe(self) -> int:
        """How many layers' experts the host computes."""
        hosts = [not device.buffer for device in self.instance.devices]
        layers = accumulate(home >= 0 for home in self.solution.attention)
        homes = zip(layers, self.solution.experts, strict=True)
        return len({layer for layer, home in homes if home >= 0 and hosts[home]})

    def memory_mib(self) -> dict[str, dict[str, float]]:
        """Return what each device's memory goes to, in MiB."""
        found = {device.name: dict.fromkeys(PARTS, 0.0) for device in self.instance.devices}
        names, solution = list(found), self.solution
        rows = zip(self.instance.layers, solution.attention, solution.experts, strict=True)
        for layer, at, home in rows:
            for part, device in (("attention", at), ("experts", home)):
                if device >= 0:
                    found[names[device]][part] += getattr(layer, f"{part}_bytes") / MIB
        for number in {*solution.attention, *solution.experts} - {-1}:
            found[names[number]]["buffers"] += self.instance.devices[number].buffer / MIB
        return found

    @property
    def bottleneck(self) -> str:
        """Of which device's parts the time is most: its name."""
        spent = dict.fromkeys((device.name for device in self.instance.devices), 0)
        names = list(spent)
        for row, layer in enumerate(self.instance.layers):
            for part in ("attention", "experts"):
                home, times = getattr(self.solution, part)[row], getattr(layer, f"{part}_ns")
                if times is not None:
                    spent[names[home]] += times[home] or 0
        return max(names, key=lambda name: spent[name])

    def to_dict(self) -> dict[str, object]:
        """Return the prediction as JSON values."""
        used = {at: ceil(sum(parts.values())) for at, parts in self.memory_mib().items()}
        spoken = speeds_as_dict(self.setting.context, self.speeds)
        told = None if self.explained is None else self.explained.to_dict()
        asked = {"asks": list(self.asks), "explained": told}
        return self.facts() | spoken | {"memory_mib": used, "command": self.command} | asked

    def facts(self) -> dict[str, object]:
        """Return as JSON values what `split` tells beside speeds and memory."""
        first = ("tokens_per_s", "low", "high", "prompt_tokens_per_s", "n_cpu_moe", "bottleneck")
        return {name: getattr(self, name) for name in first} | {
            "attention": list(self.solution.attention),
            "experts": list(self.solution.experts),
            "devices": [device.model_dump() for device in self.instance.devices],
        }


def plan_split(
    setting: Setting,
    wish: Wish,
    *,
    time_limit_s: float | None = None,
    work_limit: float | None = None,
    path: str | None = None,
    backend: str = CUDA,
) -> PlanReport:
    """Return the best split of a model's layers over a machine's devices.

    Parameters
    ----------
    setting
        Without a number of threads those that are fastest.
    time_limit_s, work_limit
        For all solves together; as in `moeopt.solve`.
    path, backend
        The model's file, and what GPUs are called, of `BACKENDS`: for the command.

    Raises
    ------
    InfeasibleError
        If nothing fits: one line with MiB by device.
    LimitError
        If the limit passed before a split was found.
    """
    if backend not in BACKENDS:
        raise InputError(
            f"must be one of {', '.join(BACKENDS)}, not {backend!r:.40}", field="--backend"
        )
    setting, wish = threaded(by_layers(setting)), replace(wish, model=by_layer(wish.model))
    instance = _instance(setting, wish)
    gpus = [n for n, device in enumerate(instance.devices) if device.buffer]
    limits = arguments.limits(time_limit_s, work_limit)
    result = solve(instance, "labels", **limits.part(1 / 2 if gpus else 1).asked)
    chosen = result.solution
    logger.info("%s: split over %d devices: %s", instance.name, len(instance.devices), result.said)
    if not isinstance(chosen, Solution):
        if result.termination in ("time_limit", "work_limit"):
            raise LimitError(f"{instance.name}: no split was found within the limit")
        hint = _nearest(setting, wish, None)
        raise InfeasibleError(f"{_no_room(instance)}; {hint}")
    made = _made(setting, wish, instance, chosen, path, backend)
    goal = Goal(wish.prompt_tokens, wish.reply_tokens)
    best, score = objective(instance, chosen), goal.seconds(made.speeds[0])
    variants = _variants(setting, wish, instance, gpus)
    defaults, notes, worth = list[Row](), made.notes, dict[str, float | None]()
    interrupted = result.termination == "interrupted"
    try:
        for name, rule in PROBLEM.functions().items():
            of = tensors_apart(instance) if name == CUTS_LAYERS else instance
            found = rule(of)
            if found is None:
                notes += (f"{name} finds no split that fits",)
                continue
            ratio = objective(of, found) / best
            defaults.append(Row(name, setting, found, score * ratio))
        for names, changed in () if interrupted else variants:
            share = limits.part(1 / 2 / len(variants))
            answer = solve(changed, "labels", **share.asked, verify=False)
            left = answer.solution
            longer = objective(changed, left) / best - 1 if isinstance(left, Solution) else None
            worth |= dict.fromkeys(names, longer)
            if answer.termination == "interrupted":
                raise KeyboardInterrupt
    except KeyboardInterrupt:  # the plan is there: comparisons are what is left out
        interrupted = True
    logger.info("%s: beside it %d rules, %d machines", instance.name, len(defaults), len(worth))
    notes += (CUT_SHORT,) if interrupted else ()
    bound = result.bound if isinstance(result.bound, int) else None
    row = Row("plan", setting, chosen, score, made.speeds, made.memory_mib())
    report = PlanReport(
        "devices",
        goal,
        (row,),
        Bracket(best, bound, "ns", result.proof),
        tuple(defaults),
        worth,
        notes,
        made.command,
        instance,
        made.facts(),
    )
    return replace(report, lines=tuple(_lines(made, report)))


def predict_split(
    setting: Setting,
    wish: Wish,
    words: Sequence[str] | None = None,
    path: str | None = None,
    said: Told | None = None,
    split: Solution | None = None,
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
    model = setting.model
    if split is not None and -1 in split.attention:
        wish = replace(wish, granularity="tensor")
    instance = _instance(setting, wish)
    gpus = [number for number, device in enumerate(instance.devices) if device.buffer]
    used = list(range(len(gpus))) if words is None and split is None else None
    notes: tuple[str, ...] = ()
    if split is not None:
        check_rows(model, len(instance.devices), split)
        found = split.model_copy(update={"instance": instance.name})
    elif words is not None:
        memory = [float(instance.devices[gpu].capacity) for gpu in gpus]
        shared = _shared(instance, setting)
        at, own = read_split_flags(words, model.layers, memory, model.nextn or 0, shared)
        apart = [len(set(homes)) > 1 for homes in own]
        if any(apart[layer] for layer in model.moe_layers) and wish.granularity == "layer":
            wish = replace(wish, granularity="tensor")
            instance = _instance(setting, wish)
        number = {f"{CUDA}{row}": gpu for row, gpu in enumerate(gpus)}
        attention, experts, layer, tensor = list[int](), list[int](), -1, 0
        for row in instance.layers:
            begins = row.attention_ns is not None
            layer, tensor = layer + begins, 0 if begins else tensor + 1
            attention.append(number.get(at[layer], instance.source) if begins else -1)
            home = number.get(own[layer][tensor], instance.source)
            experts.append(home if row.experts_ns is not None else -1)
        found = Solution(instance=instance.name, attention=tuple(attention), experts=tuple(experts))
        notes = tuple(unfelt_overrides(words, model, len(gpus)))
        used = fitted(words, len(gpus)) if setting.runtime == "llama.cpp" else None
    if used is not None:
        rule = "ik-auto-fit" if setting.runtime == "ik_llama.cpp" else CUTS_LAYERS
        if rule == CUTS_LAYERS:
            instance = tensors_apart(instance)
        fit = PROBLEM.functions()[rule](_with_gpus(instance, [gpus[row] for row in used]))
        if fit is None:
            raise InfeasibleError(_no_room(instance))
        found = fit.model_copy(update={"instance": instance.name})
    elif wrong := [why for rule, why in violations(instance, found) if rule != "SP-C4"]:
        raise InfeasibleError(_too_full(instance, found) or wrong[0])
    line = " ".join(words or ())
    backend = next((name for name in BACKENDS if re.search(rf"\b{name}\d", line)), CUDA)
    made = _made(setting, wish, instance, found, path, backend, said)
    return replace(made, notes=made.notes + (() if said is None else said.notes) + notes)


def _shared(instance: Instance, setting: Setting) -> Shared | None:
    """Return what ik_llama.cpp shares out."""
    if setting.runtime != "ik_llama.cpp":
        return None
    room = setting.context.allocated
    return shared_by_ik(instance, ik_buffer_bytes(setting.model, setting.ubatch, room))


def predict_wanted(
    machine: Machine, model: ModelShape | str, wanted: PredictOptions, words: Sequence[str] | None
) -> SplitPrediction:
    """Predict by the options of ``moeopt predict``, and what `words` or a split say beside them.

    Raises
    ------
    InputError
        If options and flags contradict each other, or a flag is none.
    """
    path, shape = wanted.path, get_model(model)
    line = read_line(words or ())
    said = told(line, shape, machine, wanted.runtime)
    if words is not None:
        said = replace(said, notes=said.notes + tuple(_unsaid(line, shape, wanted)))
    given, words = words is not None, _with_blocks(words, line, wanted.n_cpu_moe)
    kv = _kv_types(said, wanted)
    ubatch = _agreed("--ubatch", wanted.ubatch, 512, "-ub", said.ubatch)
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
    wish = Wish(shape, bits, wanted.prompt or 0)
    _options(setting, wish)
    setting = threaded(setting)
    split = wanted.plan if isinstance(wanted.plan, Solution) else None
    try:
        found = predict_split(setting, wish, words, path, said, split)
        return _told(found, threads, wanted.measured)
    except InfeasibleError as error:
        reason = str(error)
    if split is not None:
        raise InfeasibleError(reason)
    raise InfeasibleError(f"{reason}; {_nearest(setting, wish, words, said)}")


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


def _nearest(
    setting: Setting, wish: Wish, words: Sequence[str] | None, said: Told | None = None
) -> str:
    """Return the widest quantisation with which it fits, in words."""

    def with_bits(name: str) -> None:
        narrow = replace(setting, model=at_bits(wish.model, name))
        predict_split(narrow, replace(wish, bits=name), words, said=said)

    return nearest(wish.model, wish.bits, setting.runtime, with_bits) or "no quantisation fits"


def _made(
    setting: Setting,
    wish: Wish,
    instance: Instance,
    chosen: Solution,
    path: str | None,
    backend: str,
    said: Told | None = None,
) -> SplitPrediction:
    """Return speeds and command line of a split; placed as was `said` where it has to be."""
    machine, model = setting.machine, setting.shape
    calls = _host_calls(instance, chosen)
    speeds = split_speeds(
        setting,
        chosen.attention,
        chosen.experts,
        calls,
        wish.prompt_tokens or None,
        wish.counts,
    )
    try:
        shared = _shared(instance, setting)
        placing = split_flags(instance, chosen, model.nextn, shared, backend, quoted=True)
    except InputError:  # attention in an order that only overrides reach: the flags that were given
        placing = [] if said is None else list(said.placing)
    return SplitPrediction(
        setting=setting,
        instance=instance,
        solution=chosen,
        speeds=speeds,
        command=command_line(model, placing, running(setting, said), path) if placing else "",
        notes=not_read(model.quantisation, setting.runtime)
        + few_measured(setting, calls)
        + _unstated(machine, instance, chosen)
        + _no_flag(setting)
        + _counted_blocks(model, placing),
    )


def _counted_blocks(model: ModelShape, placing: Sequence[str]) -> tuple[str, ...]:
    """Return that ``-ngl`` counts blocks which only the model's file tells of, where it matters.

    It counts from the end: a block that predicts further tokens comes behind the last layer.
    """
    asked = dict(zip(placing[::2], placing[1::2], strict=False)).get("-ngl", "999")
    if model.nextn is not None or asked in ("0", "999"):
        return ()
    return (
        f"-ngl {asked}: of a file with {model.layers} blocks; add its nextn_predict_layers where it"
        " counts more (--model FILE.gguf does so), else that many layers lie elsewhere on each"
        " device",
    )


def _told(found: SplitPrediction, threads: int | None, measured: float | None) -> SplitPrediction:
    """Return a prediction with what it asks for, and with what explains a measured speed."""
    setting, solution, calls = (
        found.setting,
        found.solution,
        _host_calls(found.instance, found.solution),
    )
    model = setting.shape
    read = sum(calls) * model.top_k * model.expert_bytes
    if not read and measured is None:
        return found

    def speed_of(other: Setting) -> float:
        return 1e6 / split_us(other, solution.attention, solution.experts)

    host = uses(setting, calls)[-1] if read else None
    told = None
    if measured is not None:
        told = explained(setting, found.speeds[0], measured, speed_of, host, read)
    asks = asked_for(setting, threads, speed_of) if read else ()
    return replace(found, asks=asks, explained=told)


def _no_flag(setting: Setting) -> tuple[str, ...]:
    """Return that no flag asks for how memory is taken to be spread, where that is so."""
    numa, runtime = setting.numa, setting.runtime
    if len(setting.machine.nodes) < 2 or numa in NUMA:
        return ()
    how = {
        "first-touch": "every thread must write first what it reads later",
        "nodes": "it takes a runtime that computes on each node by itself",
        "tensor-parallel": "it takes a runtime that slices every expert over the nodes",
        "one-computes": "it is what Windows does by itself",
        "mirrored": "it takes a build that keeps a copy of the weights on each node",
    }
    return (
        f"--numa {numa}: {runtime} has no flag for it, so the command does not ask for it:"
        f" {how[numa]}",
    )


def _unstated(machine: Machine, instance: Instance, solution: Solution) -> tuple[str, ...]:
    """Return that the host's memory is assumed, if it is and something lies there."""
    used = used_bytes(instance, solution)
    need = sum(
        size for size, device in zip(used, instance.devices, strict=True) if not device.buffer
    )
    if is_stated(machine) or not need:
        return ()
    return (unstated(machine, need),)


def _host_calls(instance: Instance, solution: Solution) -> list[float]:
    """Return the share of each layer's experts that the host computes."""
    hosts = [not device.buffer for device in instance.devices]
    layers = accumulate(home >= 0 for home in solution.attention)
    own = dict[int, list[bool]]()
    for layer, home in zip(layers, solution.experts, strict=True):
        if home >= 0:
            own.setdefault(layer, []).append(hosts[home])
    return [sum(each) / len(each) for each in own.values()]


def _variants(
    setting: Setting, wish: Wish, instance: Instance, gpus: Sequence[int]
) -> list[tuple[list[str], Instance]]:
    """Return what else there could be, named: less a GPU, a larger one, twice the host's channels.

    GPUs that are alike, so that it does not matter which of them it is, share one instance.
    """
    machine, found = setting.used, list[tuple[list[str], Instance]]()
    names = [instance.devices[gpu].name for gpu in gpus]
    groups = list[list[int]]()
    for gpu in gpus:
        group = next((one for one in groups if _alike(instance, one[0], gpu)), None)
        groups.append([gpu]) if group is None else group.append(gpu)
    for group in groups if len(gpus) > 1 else ():
        found.append(([f"without {names[gpu]}" for gpu in group], _without(instance, group[0])))

    def with_other(changed: Machine) -> Instance:
        return _instance(replace(setting, machine=changed, threads=None), wish)

    for group in groups:
        card = machine.gpus[group[0]]
        more = machine.with_devices(card.with_capacity(2 * card.gpu_gib))
        larger = [f"{names[gpu]} with twice the memory" for gpu in group]
        found.append((larger, with_other(more)))
    twice = []
    for node in machine.nodes:
        memory = node.memory
        measured = None if memory.measured_gb_s is None else 2 * memory.measured_gb_s
        wider = node.with_memory(gb_s=2 * memory.gb_s, measured_gb_s=measured)
        most = node.only("cpu").most_gb_s
        twice.append(wider if most is None else wider.with_part("cpu", most_gb_s=2 * most))
    channels = with_other(machine.with_devices(*twice))
    return [*found, (["the host with twice the channels"], channels)]


def _alike(instance: Instance, one: int, other: int) -> bool:
    """Tell whether two GPUs could be exchanged: same memory, times and hops."""
    turn = list(range(len(instance.devices)))
    turn[one], turn[other] = other, one
    for hops in (instance.hop_ns, instance.prompt_hop_ns or ()):
        if any(row[at] != hops[turn[i]][turn[at]] for i, row in enumerate(hops) for at in turn):
            return False
    first, second = instance.devices[one], instance.devices[other]
    if (first.capacity, first.buffer) != (second.capacity, second.buffer):
        return False
    times = ("attention_ns", "experts_ns", "prompt_attention_ns", "prompt_experts_ns")
    each = (getattr(layer, name) for layer in instance.layers for name in times)
    return all(row is None or row[one] == row[other] for row in each)


def wished(
    machine: Machine,
    model: ModelShape,
    options: PlanOptions,
    several: SeveralOptions,
    counts: Counts | None = None,
) -> tuple[Setting, Wish]:
    """Return the setting that the options of a plan ask for, and what it is for."""
    runtime = options.runtime or "llama.cpp"
    kind = kv_type_of(options.kv_bits or 16.0, runtime)
    setting = Setting(
        machine,
        model if options.bits is None else at_bits(model, options.bits),
        runtime,
        Context(depth_of(options, several.goal), options.cache.allocated),
        kv=(kind, kind),
        ubatch=several.ubatch or UBATCH,
        numa=cast(NumaMode, several.numa),  # `_options` refuses others
    )
    wish = Wish(
        model,
        options.bits,
        several.prompt_tokens,
        several.reply_tokens,
        several.granularity,
        None if counts is None else counts_of_model(counts, model),
    )
    _options(setting, wish)
    return setting, wish


def split_page(found: SplitPrediction) -> str:
    """Return a prediction as text."""
    return "\n".join(_lines(found))


def _lines(found: SplitPrediction, report: PlanReport | None = None) -> Iterator[str]:
    """Yield the lines of a prediction, or of the plan of which it is the best row."""
    instance, solution = found.instance, found.solution
    of = "tensors" if instance.by_tensor else "layers"
    yield f"{instance.name}: {len(instance.layers)} {of}, {len(instance.devices)} devices"
    yield found.setting.context.in_words()
    yield ""
    yield "predicted, with 80 % intervals:"
    yield from speeds_in_words(found.speeds)
    gap = None if report is None or report.proof is None else report.proof.gap
    if gap is not None:
        proven = "the best split for these times" if gap == 0 else f"at most {gap:.2%} off"
        yield f"proven: {proven}"
    yield ""
    yield f"{'device':10} {'attention':>10} {'experts':>8} {'MiB used':>10} {'of':>8}"
    used = found.memory_mib().values()
    for number, (device, parts) in enumerate(zip(instance.devices, used, strict=True)):
        attention, experts = solution.attention.count(number), solution.experts.count(number)
        mib, total = ceil(sum(parts.values())), device.capacity // MIB
        yield f"{device.name:10} {attention:10} {experts:8} {mib:10,} {total:8,}"
    yield ""
    if report is not None and report.defaults:
        of = f"request, {report.goal.in_words()}," if report.goal.prompt else "decoded token"
        yield f"time of a {of} against this plan's:"
        for row in report.defaults:
            yield f"  {row.name}: {row.score / report.best.score - 1:+.1%}"
        for name, excess in report.worth.items():
            if excess is None:
                yield f"  {name}: does not fit"
            else:
                out = ", leave it out" * (name.startswith("without") and excess <= 0)
                yield f"  {name}: {excess:+.1%}{out}"
        yield ""
    yield from _further(found)
    yield found.command


def _further(found: SplitPrediction) -> Iterator[str]:
    """Yield what a prediction asks for, and what explains a measured speed."""
    for asked in found.asks:
        yield f"assumed: {asked}"
    if found.explained is not None:
        yield from found.explained.in_words()


def _instance(setting: Setting, wish: Wish) -> Instance:
    keys, values = setting.shape.kv_widths
    model = wish.model if keys == values else wish.model.with_kv_bits(keys, values)
    options = _options(setting, wish).model_dump()
    counts = wish.counts if wish.prompt_tokens else None
    made = generate("split", machine=setting.used, model=model, counts=counts, **options)
    assert isinstance(made, Instance)  # noqa: S101
    return made


def _options(setting: Setting, wish: Wish) -> Options:
    """Return what the generator of `split` is told; InputError for what it refuses."""
    keys, values = setting.shape.kv_widths
    asked = {
        "bits": wish.bits,
        "kv_bits": keys if keys == values else None,
        "context": setting.context.depth,
        "room": setting.context.allocated,
        "ubatch": setting.ubatch,
        "runtime": setting.runtime,
        "numa": setting.numa,
        "runtime_date": None if setting.runtime_date is None else f"{setting.runtime_date}",
        "prompt_tokens": wish.prompt_tokens,
        "reply_tokens": wish.reply_tokens,
        "granularity": wish.granularity,
    }
    with validated(model=Options):
        return Options.model_validate(asked)


def _with_gpus(instance: Instance, gpus: Sequence[int]) -> Instance:
    """Return the instance in which nothing fits onto other GPUs."""
    for number, device in enumerate(instance.devices):
        if device.buffer and number not in gpus:
            instance = _without(instance, number)
    return instance


def _without(instance: Instance, gpu: int) -> Instance:
    """Return the instance in which nothing fits onto a GPU."""
    devices = tuple(
        device.model_copy(update={"capacity": 0}) if number == gpu else device
        for number, device in enumerate(instance.devices)
    )
    return instance.model_copy(update={"devices": devices, "name": f"{instance.name}-without{gpu}"})


def _too_full(instance: Instance, solution: Solution) -> str:
    """Return by how many MiB devices are too small for a split; empty if none is."""
    taken, said = {*solution.attention, *solution.experts}, []
    for number, used in enumerate(used_bytes(instance, solution)):
        device = instance.devices[number]
        missing = used + device.buffer * (number in taken) - device.capacity
        if missing > 0:
            said.append(f"{device.name} lacks {-(-missing // MIB):,} of {device.capacity // MIB:,}")
    return f"machine: {instance.name} does not fit: {', '.join(said)} MiB" if said else ""


def _no_room(instance: Instance) -> str:
    needed = sum(
        layer.attention_bytes + (layer.experts_bytes if layer.experts_ns else 0)
        for layer in instance.layers
    )
    rooms = ", ".join(
        f"{device.name} {max(0, device.capacity - device.buffer) // MIB:,}"
        for device in instance.devices
    )
    return (
        f"machine: {instance.name} does not fit: {needed // MIB:,} MiB are needed; there are"
        f" {rooms} MiB beside buffers"
    )
