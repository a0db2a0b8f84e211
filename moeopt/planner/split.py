"""Plans and predictions for several GPUs or memory nodes: problem `split`, and a command line."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from moeopt.core.envelope import validated
from moeopt.core.errors import InfeasibleError, InputError, LimitError
from moeopt.core.logs import logger_of
from moeopt.core.units import MIB, tokens_of
from moeopt.exporters.targets.llama_cpp import (
    BACKENDS,
    CUDA,
    Shared,
    flag_values,
    read_split_flags,
    shared_by_ik,
    split_flags,
)
from moeopt.problems.generate import generate
from moeopt.problems.split import PROBLEM
from moeopt.problems.split.check import objective, times_ns, used_bytes, violations
from moeopt.problems.split.generate import Options
from moeopt.problems.split.instance import Instance, Solution
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.command import NUMA, command_line, running
from moeopt.sim.machines.runtimes.memory import (
    LEAST_CONTEXT,
    ik_buffer_bytes,
    kv_bits_of,
    unstated,
)
from moeopt.sim.machines.runtimes.options import PredictOptions
from moeopt.sim.machines.runtimes.predict import costs_of
from moeopt.sim.machines.runtimes.profile import Kind, get_runtime
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import at_bits, narrower, not_read
from moeopt.sim.presets import get_model
from moeopt.solvers import arguments
from moeopt.solvers.run import solve

from .options import PlanOptions, SeveralOptions

logger = logger_of(__name__)

S = 1e9

CUT_SHORT = "interrupted: the plan is the best so far, and not all comparisons were made"
"""Note of a plan after Ctrl-C."""


@dataclass(frozen=True)
class SplitPlan:
    """What lies where, how fast that is predicted to be, and what else there is.

    Attributes
    ----------
    instance, solution
        Of problem `split`.
    tokens_per_s, low, high, prompt_tokens_per_s
        Decoding one sequence, with an 80 % interval, and reading a prompt; None without a prompt.
    gap
        How far the plan is from the proven bound at most, as a share; None without a bound.
    others
        Rule -> by how much longer it takes, as a share; None where it finds no split.
    without
        GPU -> by how much longer the best split without it takes, as a share; None if nothing fits.
    larger
        What the machine could have more of -> by how much longer the best split then takes.
    command
        What runs it.
    """

    instance: Instance
    solution: Solution
    tokens_per_s: float
    low: float
    high: float
    prompt_tokens_per_s: float | None
    gap: float | None
    others: dict[str, float | None]
    without: dict[str, float | None]
    larger: dict[str, float]
    command: str
    notes: tuple[str, ...] = ()

    @property
    def n_cpu_moe(self) -> int:
        """How many layers' experts the host computes."""
        hosts = [not device.buffer for device in self.instance.devices]
        layers = accumulate(home >= 0 for home in self.solution.attention)
        homes = zip(layers, self.solution.experts, strict=True)
        return len({layer for layer, home in homes if home >= 0 and hosts[home]})

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
        """Return the plan as JSON values."""
        apart = ("instance", "solution", "notes")
        return {name: value for name, value in vars(self).items() if name not in apart} | {
            "attention": list(self.solution.attention),
            "experts": list(self.solution.experts),
            "devices": [device.model_dump() for device in self.instance.devices],
        }


def plan_split(
    machine: Machine,
    model: ModelShape,
    options: Options,
    *,
    time_limit_s: float | None = None,
    work_limit: float | None = None,
    path: str | None = None,
    backend: str = CUDA,
) -> SplitPlan:
    """Return the best split of a model's layers over a machine's devices.

    Parameters
    ----------
    options
        Context, ubatch, runtime, and what a request is: `moeopt.problems.split.generate.Options`.
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
    instance = _instance(machine, model, options)
    gpus = [n for n, device in enumerate(instance.devices) if device.buffer]
    limits = arguments.limits(time_limit_s, work_limit)
    parts = 2 * len(gpus) + 1
    result = solve(instance, "labels", **limits.part(1 / 2 if gpus else 1).asked)
    chosen = result.solution
    logger.info("%s: split over %d devices: %s", instance.name, len(instance.devices), result.said)
    if not isinstance(chosen, Solution):
        if result.termination in ("time_limit", "work_limit"):
            raise LimitError(f"{instance.name}: no split was found within the limit")
        hint = _nearest(machine, model, options, None)
        raise InfeasibleError(f"{_no_room(instance)}; {hint}")
    best = objective(instance, chosen)
    others: dict[str, float | None] = {}
    variants = [
        ("without", instance.devices[gpu].name, _without(instance, gpu))
        for gpu in (gpus if len(gpus) > 1 else ())
    ]
    variants += [("larger", of, _instance(it, model, options)) for of, it in _larger(machine)]
    compared: dict[str, dict[str, float | None]] = {"without": {}, "larger": {}}
    interrupted = result.termination == "interrupted"
    try:
        for name, rule in PROBLEM.functions().items():
            found = rule(instance)
            others[name] = None if found is None else objective(instance, found) / best - 1
        for kind, name, changed in () if interrupted else variants:
            answer = solve(changed, "labels", **limits.part(1 / 2 / parts).asked)
            left = answer.solution
            better = objective(changed, left) / best - 1 if isinstance(left, Solution) else None
            compared[kind][name] = better
            if answer.termination == "interrupted":
                raise KeyboardInterrupt
    except KeyboardInterrupt:  # the plan is there: comparisons are what is left out
        interrupted = True
    larger = {name: less for name, less in compared["larger"].items() if less is not None}
    logger.info(
        "%s: beside it %d heuristics, %d machines less a GPU, %d larger",
        instance.name,
        len(others),
        len(compared["without"]),
        len(larger),
    )
    made = _made(machine, model, options, instance, chosen, path, backend)
    gap = (best - result.bound) / best if isinstance(result.bound, int) else None
    notes = made.notes + ((CUT_SHORT,) if interrupted else ())
    without = compared["without"]
    return replace(made, gap=gap, others=others, without=without, larger=larger, notes=notes)


def predict_split(
    machine: Machine,
    model: ModelShape,
    options: Options,
    words: Sequence[str] | None = None,
    path: str | None = None,
) -> SplitPlan:
    """Predict what a command line does on a machine with several GPUs or nodes.

    Parameters
    ----------
    options
        As for `plan_split`.
    words
        Flags that say where layers and experts lie, as the runtime is given them; None: as it fits
        them itself (``--fit``).

    Raises
    ------
    InputError
        If a flag is none.
    InfeasibleError
        If a device has too little memory: MiB by device.
    """
    instance = _instance(machine, model, options)
    gpus = [number for number, device in enumerate(instance.devices) if device.buffer]
    if words is None:
        rule = "ik-auto-fit" if options.runtime == "ik_llama.cpp" else "llama.cpp-fit"
        found = PROBLEM.functions()[rule](instance)
        if found is None:
            raise InfeasibleError(_no_room(instance))
    else:
        memory = [float(instance.devices[gpu].capacity) for gpu in gpus]
        shared = _shared(instance, model, options)
        at, own = read_split_flags(words, model.layers, memory, model.nextn or 0, shared)
        apart = [len(set(homes)) > 1 for homes in own]
        if any(apart[layer] for layer in model.moe_layers) and options.granularity == "layer":
            options = options.model_copy(update={"granularity": "tensor"})
            instance = _instance(machine, model, options)
        number = {f"{CUDA}{row}": gpu for row, gpu in enumerate(gpus)}
        attention, experts, layer, tensor = list[int](), list[int](), -1, 0
        for row in instance.layers:
            begins = row.attention_ns is not None
            layer, tensor = layer + begins, 0 if begins else tensor + 1
            attention.append(number.get(at[layer], instance.source) if begins else -1)
            home = number.get(own[layer][tensor], instance.source)
            experts.append(home if row.experts_ns is not None else -1)
        found = Solution(instance=instance.name, attention=tuple(attention), experts=tuple(experts))
        if wrong := [said for rule, said in violations(instance, found) if rule != "SP-C4"]:
            raise InfeasibleError(_too_full(instance, found) or wrong[0])
    said = " ".join(words or ())
    backend = next((name for name in BACKENDS if re.search(rf"\b{name}\d", said)), CUDA)
    return _made(machine, model, options, instance, found, path, backend)


def _shared(instance: Instance, model: ModelShape, options: Options) -> Shared | None:
    """Return what ik_llama.cpp shares out."""
    if options.runtime != "ik_llama.cpp":
        return None
    room = max(options.room, options.context)
    return shared_by_ik(instance, ik_buffer_bytes(model, options.ubatch, room))


def predict_wanted(
    machine: Machine, model: ModelShape | str, wanted: PredictOptions, words: Sequence[str] | None
) -> SplitPlan:
    """Predict by the options of ``moeopt predict``; what `words` say of them counts more."""
    asked: dict[str, object] = {
        "bits": None if wanted.bits is None else str(wanted.bits),
        "kv_bits": 16.0 if wanted.kv_bits is None else kv_bits_of(wanted.kv_bits),
        "context": wanted.context,
        "room": max(wanted.context, LEAST_CONTEXT),
        "ubatch": wanted.ubatch,
        "runtime": wanted.runtime,
        "prompt_tokens": wanted.prompt or 0,
    }
    if wanted.n_cpu_moe is not None:
        words = [*(words or ()), "--n-cpu-moe", str(wanted.n_cpu_moe)]
    with validated(model=Options):
        options = Options.model_validate(asked | told(words or ()))
    path, shape = wanted.path, get_model(model)
    try:
        return predict_split(machine, shape, options, words, path)
    except InfeasibleError as error:
        said = str(error)
    raise InfeasibleError(f"{said}; {_nearest(machine, shape, options, words)}")


def _nearest(
    machine: Machine, model: ModelShape, options: Options, words: Sequence[str] | None
) -> str:
    """Return the widest quantisation with which it fits, in words."""
    for name in narrower(model, options.bits, options.runtime):
        try:
            predict_split(machine, model, options.model_copy(update={"bits": name}), words)
        except InfeasibleError:
            continue
        return f"it fits with --bits {name}"
    return "no quantisation fits"


def _made(
    machine: Machine,
    model: ModelShape,
    options: Options,
    instance: Instance,
    chosen: Solution,
    path: str | None,
    backend: str,
) -> SplitPlan:
    """Return speeds and command line of a split."""
    token_ns, _ = times_ns(instance, chosen)
    sized = model if options.bits is None else at_bits(model, options.bits)
    sized = sized.model_copy(update={"kv_bits": options.kv_bits})
    room = max(options.room, options.context)
    how = running(machine, sized, room, options.ubatch, options.runtime, options.numa)
    prompt = None
    if instance.prompt_weight:
        prompt = _prompt_speed(machine, model, options, chosen)
    profile = get_runtime(options.runtime)
    within = profile.interval(
        costs_of(machine, sized, profile)[1], _kind(machine, instance, chosen)
    )
    speed = S / token_ns
    try:
        shared = _shared(instance, sized, options)
        placing = split_flags(instance, chosen, sized.nextn or 0, shared, backend)
    except InputError:  # attention in an order that only overrides reach: the flags that were given
        placing = []
    return SplitPlan(
        instance=instance,
        solution=chosen,
        tokens_per_s=float(f"{speed:.4g}"),
        low=float(f"{speed / within.factor:.4g}"),
        high=float(f"{speed * within.factor:.4g}"),
        prompt_tokens_per_s=None if prompt is None else float(f"{prompt:.4g}"),
        gap=None,
        others={},
        without={},
        larger={},
        command=command_line(sized, placing, how, path) if placing else "",
        notes=not_read(sized.quantisation, options.runtime)
        + _unstated(machine, instance, chosen)
        + _no_flag(machine, options),
    )


def _prompt_speed(machine: Machine, model: ModelShape, options: Options, chosen: Solution) -> float:
    """Return the tokens/s at which a prompt is read, as `moeopt.predict` has it for one GPU.

    In ubatches of which none is longer than the prompt, and over the prompt's own context: what the
    cache holds when a token is decoded, which the instance is about, is another number.
    """
    prompt = options.prompt_tokens
    tokens = min(prompt, options.ubatch)
    changed = {"context": prompt, "ubatch": tokens, "prompt_tokens": tokens}
    read = _instance(machine, model, options.model_copy(update=changed))
    return tokens * S / times_ns(read, chosen)[1]


def _no_flag(machine: Machine, options: Options) -> tuple[str, ...]:
    """Return that no flag asks for how memory is taken to be spread, where that is so."""
    if len(machine.nodes) < 2 or options.numa in NUMA:
        return ()
    how = {
        "first-touch": "every thread must write first what it reads later",
        "nodes": "it takes a runtime that computes on each node by itself",
        "mirrored": "it takes a build that keeps a copy of the weights on each node",
    }
    return (
        f"--numa {options.numa}: {options.runtime} has no flag for it, so the command does not ask"
        f" for it: {how[options.numa]}",
    )


def _unstated(machine: Machine, instance: Instance, solution: Solution) -> tuple[str, ...]:
    """Return that the host's memory is assumed, if it is and something lies there."""
    used = used_bytes(instance, solution)
    need = sum(
        size for size, device in zip(used, instance.devices, strict=True) if not device.buffer
    )
    if machine.dram.capacity_gb is not None or len(machine.nodes) > 1 or not need:
        return ()
    return (unstated(machine, need),)


def _kind(machine: Machine, instance: Instance, solution: Solution) -> Kind:
    """Return what computes."""
    homes = {*solution.attention, *solution.experts} - {-1}
    hosts = {home for home in homes if not instance.devices[home].buffer}
    if hosts and len(machine.nodes) > 1:
        return "several sockets"
    if not hosts:
        return "all on the GPU"
    return "CPU only" if hosts == homes else "GPU and CPU"


def _larger(machine: Machine) -> Iterator[tuple[str, Machine]]:
    """Yield the machine with twice the memory of a GPU, and with twice the host's channels."""
    gpus = machine.every_gpu
    for number, gpu in enumerate(gpus):
        more = gpu.model_copy(update={"hbm_gb": 2 * gpu.hbm_gb})
        changed = (*gpus[:number], more, *gpus[number + 1 :])
        fields: dict[str, object] = {"gpus": changed} if machine.gpus else {"gpu": more}
        yield f"gpu{number} with twice the memory", machine.model_copy(update=fields)
    cpu, dram = machine.require_cpu(), machine.dram
    fields = {"dram": dram.model_copy(update={"striped_gb_s": 2 * dram.striped_gb_s})}
    fields["nodes"] = tuple(
        node.model_copy(update={"bandwidth_gb_s": 2 * node.bandwidth_gb_s})
        for node in machine.nodes
    )
    faster: dict[str, object] = {}
    if cpu.bandwidth_gb_s is not None:
        faster["bandwidth_gb_s"] = 2 * cpu.bandwidth_gb_s
    if cpu.numa is not None:
        twice = {"local_gb_s": 2 * cpu.numa.local_gb_s}
        faster["numa"] = cpu.numa.model_copy(update=twice)
    fields["cpu"] = cpu.model_copy(update=faster)
    yield "the host with twice the channels", machine.model_copy(update=fields)


def told(words: Sequence[str]) -> dict[str, object]:
    """Return what a command line says of context, cache, ubatch and nodes: fields of `Options`."""
    given, found = dict(flag_values(words)), dict[str, object]()
    for flag, name in (("-c", "room"), ("-ub", "ubatch")):
        if flag in given:
            found[name] = tokens_of(flag, given[flag])
    if "-ctk" in given:
        found["kv_bits"] = kv_bits_of(given["-ctk"])
    numa = {flag: name for name, flag in NUMA.items()}
    if given.get("--numa") in numa:
        found["numa"] = numa[given["--numa"]]
    return found


def wished(options: PlanOptions, several: SeveralOptions) -> Options:
    """Return what the generator of `split` is told by the options of a plan."""
    asked = {
        "bits": options.bits,
        "kv_bits": 16.0 if options.kv_bits is None else kv_bits_of(options.kv_bits),
        "room": options.context,
        "context": min(options.context, several.prompt_tokens + several.reply_tokens // 2),
        "runtime": options.runtime or "llama.cpp",
    }
    named = ("ubatch", "numa", "prompt_tokens", "reply_tokens", "granularity")
    with validated(model=Options):
        return Options.model_validate(asked | {name: getattr(several, name) for name in named})


def split_page(plan: SplitPlan) -> str:
    """Return the plan as text."""
    return "\n".join(_lines(plan))


def _lines(plan: SplitPlan) -> Iterator[str]:
    instance, solution = plan.instance, plan.solution
    of = "tensors" if instance.by_tensor else "layers"
    yield f"{instance.name}: {len(instance.layers)} {of}, {len(instance.devices)} devices"
    yield ""
    speed = f"decoding: {plan.tokens_per_s:g} tokens/s"
    if plan.prompt_tokens_per_s is not None:
        speed += f"; prompt: {plan.prompt_tokens_per_s:g} tokens/s"
    yield f"{speed} (predicted; decoding 80 %: {plan.low:g} to {plan.high:g})"
    if plan.gap is not None:
        proven = (
            "the best split for these times" if plan.gap == 0 else f"at most {plan.gap:.2%} off"
        )
        yield f"proven: {proven}"
    yield ""
    yield f"{'device':10} {'attention':>10} {'experts':>8} {'MiB used':>10} {'of':>8}"
    for number, (device, used) in enumerate(
        zip(instance.devices, used_bytes(instance, solution), strict=True)
    ):
        attention, experts = solution.attention.count(number), solution.experts.count(number)
        mib = (used + device.buffer * bool(attention or experts)) // MIB
        total = device.capacity // MIB
        yield f"{device.name:10} {attention:10} {experts:8} {mib:10,} {total:8,}"
    yield ""
    of = "request" if instance.prompt_weight else "token"
    yield f"time of a {of} against this plan's:"
    for name, excess in plan.others.items():
        yield f"  {name}: {'finds no split that fits' if excess is None else f'{excess:+.1%}'}"
    for name, excess in plan.without.items():
        if excess is None:
            yield f"  without {name}: does not fit"
        else:
            yield f"  without {name}: {excess:+.1%}{', leave it out' * (excess <= 0)}"
    for what, excess in plan.larger.items():
        yield f"  {what}: {excess:+.1%}"
    if plan.others:
        yield ""
    yield plan.command


def _instance(machine: Machine, model: ModelShape, options: Options) -> Instance:
    made = generate("split", machine=machine, model=model, **options.model_dump())
    assert isinstance(made, Instance)  # noqa: S101
    return made


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
