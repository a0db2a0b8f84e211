"""llama.cpp's flags: all layers on the GPU, but the routed experts of some kept on the CPU.

``-ot PATTERN=CPU,...`` keeps the tensors on the CPU in whose names a regular expression is found; a
layer's experts are one tensor for each of up, down and gate (or the last two in one), so that only
whole layers can be chosen. ``--n-cpu-moe N`` does so for the first N blocks; blocks without experts
count and have nothing to keep.

The rest of the line says how much context the cache has room for, in what type, and what else the
runtime chooses badly by itself (`moeopt.sim.machines.runtimes.memory`).

The patterns have no character that a shell would take for its own, so that the flags are the same
words with ``$(cat flags.txt)``, through ``xargs``, and typed.

**Resident experts by a profile**: a fork (thecodacus/llama.cpp, branch ``perf``) has
``--moe-cache-profile FILE --moe-cache-slots N``. FILE is what its ``llama-moe-trace`` records,
``pos,layer,id,id,...``; of each layer whose experts are on the CPU it copies the N experts that
occur most often in decoded tokens (position 0 and later) to the GPU, and keeps them there. A file
in which exactly the plan's experts occur leaves it no choice. N is the same for all layers.

**Several GPUs**: ``-ts`` gives each a share of the offloaded layers, in order, the output layer as
one of the last GPU's; ``-ot PATTERN=DEVICE,...`` puts the tensors elsewhere that a pattern finds,
all of a layer's experts, or gate, up and down each. Devices are called by their backend: CUDA0,
ROCm0, Vulkan0, MTL0.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from moeopt.core.errors import InputError
from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.target import Option, Target, by_class
from moeopt.problems.split.heuristics import ik_places
from moeopt.problems.split.instance import Instance as Split
from moeopt.problems.split.instance import Solution as SplitSolution
from moeopt.sim.machines.runtimes.command import Running, override, patterns
from moeopt.sim.machines.runtimes.context import ALLOCATED, MOST_CONTEXT
from moeopt.sim.machines.runtimes.flags import read_line, whole
from moeopt.sim.machines.runtimes.kv_types import CACHE_TYPES
from moeopt.sim.machines.runtimes.memory import ik_buffer_bytes
from moeopt.sim.machines.runtimes.setting import UBATCH
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.tensor_names import tensor_names

ALL_LAYERS = ("-ngl", "999")

SERVER = '"${LLAMA_SERVER:-llama-server}" -m'

PROFILE = "llama.cpp-profile"

EQUAL_COUNTS = "equally many experts of each layer on the GPU"

IDS_IN_A_LINE = 256
"""Experts in a line of a profile: its reader takes lines of up to 4095 characters."""

ON_CPU = "-ngl 999 --cpu-moe"

CPU, CUDA = "CPU", "CUDA"

BACKENDS = (CUDA, "ROCm", "Vulkan", "MTL", "SYCL")
"""What builds call their GPUs, with a number behind."""

MAX_BLOCKS = 2**12


def export(job: Job) -> Exported:
    """Return the flags of a placement, brought to whole layers if it is not of that form.

    Where the first layers are on the CPU, `same_as` says so by ``--n-cpu-moe``, which
    ik_llama.cpp counts from the last layer on, without those that have no experts.
    """
    if isinstance(job.instance, Split):
        return _of_split(job, job.instance)
    from moeopt.exporters.plans import placed_whole  # plans of splits load no placement

    plan, loss = placed_whole(job)
    off = plan.off_gpu
    line = complete(job, [*ALL_LAYERS, *(override(off) if off != plan.hidden else ["--cpu-moe"])])
    leading = off and off == plan.hidden[: len(off)] and not job.text("runtime")
    first = complete(job, [*ALL_LAYERS, "--n-cpu-moe", str(off[-1] + 1)]) if leading else None
    notes = plan.notes() | {"cpu_layers": list(off)}
    return Exported(f"{line}\n".encode(), lambda _: line, notes, loss, first)


def export_ik(job: Job) -> Exported:
    """Return the same for ik_llama.cpp."""
    return export(replace(job, options=dict(job.options) | {"runtime": "ik_llama.cpp"}))


def _of_split(job: Job, instance: Split) -> Exported:
    """Return the flags of a split."""
    shape, shared, how = job.shape, None, _running(job)
    if how.runtime == "ik_llama.cpp":
        buffer = 0 if shape is None else ik_buffer_bytes(shape, how.ubatch, how.context)
        shared = shared_by_ik(instance, buffer)
    more, backend = None if shape is None else shape.nextn, job.text("backend") or CUDA
    if backend not in BACKENDS:
        raise InputError(f"--backend: must be one of {', '.join(BACKENDS)}, not {backend!r:.40}")
    placing = split_flags(instance, job.plan(SplitSolution), more, shared, backend)
    line = shlex.join(how.flags(placing))
    return Exported(f"{line}\n".encode(), lambda _: line)


def complete(job: Job, placing: Sequence[str], runtime: str | None = None) -> str:
    """Return placing flags with what else the runtime is to be told, by the job's options."""
    return shlex.join(_running(job, runtime).flags(placing))


def _running(job: Job, runtime: str | None = None) -> Running:
    attention = None if job.shape is None else job.shape.attention
    cache = job.text("cache_type") or "f16"
    if cache not in CACHE_TYPES:
        known = ", ".join(CACHE_TYPES)
        raise InputError(f"--cache-type: must be one of {known}, not {cache!r:.40}")
    return Running(
        context=job.number("context") or ALLOCATED,
        kv=(cache, cache),
        ubatch=job.number("ubatch") or UBATCH,
        threads=job.number("threads"),
        runtime=runtime or job.text("runtime") or "llama.cpp",
        pools=job.number("sockets"),
        latent=attention is not None and attention.kind == "latent",
    )


def export_profile(job: Job) -> Exported:
    """Return the profile of a placement, brought to equal counts if it is not of that form."""
    from moeopt.exporters.plans import placed, restricted

    plan, loss = placed(job), None
    if len(set(map(len, plan.gpu))) > 1:
        plan, loss = restricted(job, "equal-counts", EQUAL_COUNTS)
    slots = len(plan.gpu[0])
    lines = [
        ",".join(map(str, (0, layer, *own[first : first + IDS_IN_A_LINE])))
        for layer, own in zip(plan.hidden, plan.gpu, strict=True)
        for first in range(0, slots, IDS_IN_A_LINE)
    ]

    def flags(path: Path) -> str:
        if slots in (0, plan.experts):  # none are cached, or none are on the CPU
            return ON_CPU if slots == 0 else "-ngl 999"
        profile = f"--moe-cache-profile {shlex.quote(str(path))}"
        return f"{ON_CPU} {profile} --moe-cache-slots {slots}"

    text = "".join(f"{line}\n" for line in lines)
    return Exported(text.encode(), flags, plan.notes() | {"slots": slots}, loss)


def runs_without(job: Job) -> tuple[str, ...]:
    """Return that the fork runs a model as if there were no cache, by its class."""
    if by_class(PROFILE)(job) == "yes":
        return ()
    model = job.model_class or "a model of unknown class"
    where = "the fork uses the cache for its deepseek2, qwen35moe and laguna models only"
    return (f"{where}: it may run {model} without it; look for 'expert cache:' in its log",)


class Shared(NamedTuple):
    """What ik_llama.cpp shares out: bytes of each layer with its experts, a GPU's compute buffer.

    `moe` are the layers with experts, of which its ``--n-cpu-moe`` takes the last.
    """

    sizes: list[int]
    buffer: int
    moe: list[int]


def shared_by_ik(instance: Split, buffer: int = 0) -> Shared:
    """Return what ik_llama.cpp shares out of a model."""
    sizes, moe = list[int](), list[int]()
    for layer in instance.layers:
        if layer.attention_ns is not None:
            sizes.append(layer.attention_bytes)
            moe += [len(sizes) - 1] if layer.experts_ns is not None else []
        sizes[-1] += layer.experts_bytes
    return Shared(sizes, buffer, moe)


def split_flags(
    instance: Split,
    solution: SplitSolution,
    more: int | None = None,
    shared: Shared | None = None,
    backend: str = CUDA,
    *,
    quoted: bool = False,
) -> list[str]:
    """Return the flags that place a split's parts, in pairs of name and value.

    Blocks that predict further tokens count as layers for ``-ngl`` and ``-ts``, though nothing of
    them is loaded. Shares that end half a layer early say the same whether a file has one or none,
    so that ``-ts`` alone needs no number.
    ik_llama.cpp shares out bytes, experts included wherever they are put, beside a compute buffer
    on each GPU, to the nearest layer, and does not count the output layer.

    Parameters
    ----------
    instance
        With its GPUs first, called gpu0, gpu1, ...; all other devices are the host.
    solution
        Attention lies on the host first, then on the GPUs by number.
    more
        Such blocks of the model's file; None: unknown, none where ``-ngl`` needs a number, which it
        does where attention lies on the host.
    shared
        For ik_llama.cpp: `shared_by_ik`.
    backend
        What the GPUs are called, of `BACKENDS`.
    quoted
        Whether a shell gets the words in quotes, so that one pattern can stand for many blocks.

    Raises
    ------
    InputError
        If attention lies in another order, which the runtimes cannot do, or tensors are given apart
        that are not gate, up and down.
    """
    names = [device.name for device in instance.devices]
    gpus = [number for number, name in enumerate(names) if name.startswith("gpu")]
    at, tensors = list[int](), list[list[int]]()
    for home, experts in zip(solution.attention, solution.experts, strict=True):
        if home >= 0:
            at.append(home)
            tensors.append([])
        tensors[-1].append(experts)
    if any(len(own) not in (1, len(EXPERT_TENSORS)) for own in tensors):
        raise InputError("layers: experts must be given whole or as three tensors: gate, up, down")
    rank = {device: place for place, device in enumerate(gpus, start=1)}
    ranks = [rank.get(device, 0) for device in at]
    if ranks != sorted(ranks):
        raise InputError("attention: lies in another order than host, gpu0, gpu1, ...: no -ts does")
    used = [gpu for gpu in gpus if gpu in at or gpu in solution.experts]
    if not used:
        return ["-ngl", "0"]
    layers = sum(device in gpus for device in at)
    some = layers < len(at)
    flags = ["-ngl", str(layers + (more or 0) + (shared is None)) if some else "999"]
    if len(used) < len(gpus):
        flags += ["--device", ",".join(f"{backend}{gpus.index(gpu)}" for gpu in used)]
    if len(used) > 1:
        last = at[-1] if layers else used[-1]
        behind = 4 if more is None and not some else 3 + 2 * (more or 0)
        shares = [2 * at.count(gpu) + behind * (gpu == last) for gpu in used]
        shares[next(place for place, share in enumerate(shares) if share)] -= 1
        if shared is not None and layers:
            parts = list(zip(at, shared.sizes, strict=True))
            held = [
                shared.buffer + sum(size for home, size in parts if home == gpu) for gpu in used
            ]
            shares = [round(1e4 * size / sum(held)) for size in held]
        flags += ["-sm", "layer", "-ts", ",".join(map(str, shares))]
    if layers and not any(experts in gpus for own in tensors for experts in own):
        return [*flags, "--cpu-moe"]
    moved: dict[tuple[str, str], list[int]] = {}
    for layer, (home, own) in enumerate(zip(at, tensors, strict=True)):
        kinds = EXPERT_TENSORS if len(set(own)) > 1 else ("ffn_.+exps",)
        for kind, experts in zip(kinds, own, strict=False):
            if experts < 0 or experts == home or (experts not in gpus and home not in gpus):
                continue
            where = f"{backend}{gpus.index(experts)}" if experts in gpus else CPU
            moved.setdefault((kind, where), []).append(layer)
    terms = [
        pattern
        for (kind, where), own in moved.items()
        for pattern in patterns(own, f"{kind}={where}", quoted=quoted)
    ]
    return [*flags, "-ot", ",".join(terms)] if terms else flags


EXPERT_TENSORS = ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")


def read_split_flags(
    words: Sequence[str],
    layers: int,
    memory: Sequence[float],
    more: int = 0,
    shared: Shared | None = None,
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the device of each layer's attention, and of gate, up and down of its experts.

    GPUs are called CUDA0, CUDA1, ... in what is returned, whatever of `BACKENDS` the flags say.

    Parameters
    ----------
    words
        A command line; flags that say nothing of places do not count.
    layers
        Of the model.
    memory
        Of each GPU: what layers are shared out by without ``-ts``.
    more
        As for `split_flags`.
    shared
        As of `shared_by_ik`, for ik_llama.cpp.

    Raises
    ------
    InputError
        If a flag is none, or says what a split cannot: rows of matrices on several GPUs.
    """
    flags = _placing(words)
    given = dict(flags)
    names = [f"{CUDA}{number}" for number in range(len(memory))]
    devices = _devices(given, names)
    shares = [memory[names.index(name)] for name in devices]
    if "-ts" in given:
        shares = [_number("-ts", share) for share in re.split("[,/]", given["-ts"])]
        if len(shares) > len(devices) or sum(shares) <= 0:
            raise InputError(f"-ts: must be at most {len(devices)} shares above 0 in all")
    asked = _offloaded(given.get("-ngl"), of_ik=shared is not None)
    blocks = layers + more + (shared is None)
    offloaded = (blocks if asked < 0 else min(asked, blocks)) if devices else 0
    first = blocks - offloaded
    attention = [CPU] * min(first, layers)
    if shared is not None and devices:
        shares += [0.0] * (len(devices) - len(shares))
        places = ik_places(shared.sizes[first:], shares, shared.buffer)
        attention += [devices[place] for place in places]
    ends = list(zip(devices, accumulate(shares), strict=False))
    for row in range(layers - len(attention)):
        mine = [name for name, end in ends if row * ends[-1][1] < end * offloaded]
        attention.append(mine[0] if mine else ends[-1][0])
    overrides = list(_overrides(flags, (CPU, *names), None if shared is None else shared.moe))
    homes = [
        tuple(_home(overrides, f"blk.{layer}.{kind}.weight", at) for kind in EXPERT_TENSORS)
        for layer, at in enumerate(attention)
    ]
    return [
        _home(overrides, f"blk.{layer}.attn_output.weight", at)
        for layer, at in enumerate(attention)
    ], homes


def _overrides(
    flags: Sequence[tuple[str, str]], buffers: Sequence[str], of_ik: Sequence[int] | None
) -> Iterator[tuple[re.Pattern[str], str]]:
    """Yield patterns of tensors' names and where they send them; the first that fits holds.

    ``--n-cpu-moe`` means the first blocks, and of ik_llama.cpp's layers with experts the last.
    """
    for flag, value in flags:
        if flag == "--cpu-moe":
            yield re.compile(r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"), CPU
        if flag == "--n-cpu-moe":
            number = min(MAX_BLOCKS, whole(flag, value, 0))
            for block in range(number) if of_ik is None else of_ik[::-1][:number]:
                yield re.compile(rf"blk\.{block}\.ffn_(up|down|gate|gate_up)_(ch|)exps"), CPU
        if flag != "-ot":
            continue
        for part in value.split(","):
            pattern, _, buffer = part.partition("=")
            if buffer not in buffers or not pattern:
                known = ", ".join(buffers)
                raise InputError(f"-ot: must be PATTERN=DEVICE of {known}, not {part!r:.60}")
            try:
                yield re.compile(pattern), buffer
            except re.error as error:
                raise InputError(f"-ot: {pattern!r:.60}: {error}") from None


def _placing(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return the flags of a command line and their values, in order, with GPUs called CUDA."""
    own = re.compile(rf"\b({'|'.join(BACKENDS)})(?=\d+\b)")
    return [(flag.name, own.sub(CUDA, flag.value)) for flag in read_line(words).flags]


def _devices(given: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """Return the GPUs that layers are shared out over, of those that there are."""
    asked = given.get("--device")
    devices = [*names] if asked is None else [] if asked == "none" else asked.split(",")
    if unknown := [name for name in devices if name not in names]:
        known = ", ".join([*names, "none"])
        raise InputError(f"--device: must be of {known}, not {unknown[0]!r:.40}")
    mode = given.get("-sm", "layer")
    if mode not in ("layer", "none"):
        raise InputError(f"-sm: must be layer or none here, not {mode!r:.40}")
    if mode == "layer" or not devices:
        return devices
    main = whole("-mg", given.get("-mg", "0"), -(10**9))
    if main >= len(devices):
        raise InputError(f"-mg: must be below {len(devices)}, the number of GPUs, not {main}")
    return devices[main : main + 1] if main >= 0 else []


def _offloaded(said: str | None, *, of_ik: bool) -> int:
    """Return how many blocks are offered to GPUs; below 0: all."""
    if said is None or (said in ("all", "auto") and not of_ik):
        return -1
    if not re.fullmatch(r"-?\d{1,9}", said):
        kinds = "a whole number" if of_ik else "a whole number, all or auto"
        raise InputError(f"-ngl: must be {kinds}, not {said!r:.40}")
    return int(said)


def fitted(words: Sequence[str], gpus: int) -> list[int] | None:
    """Return the GPUs over which llama.cpp itself lays a model out, by its ``--fit``; None if not.

    It does so where nothing but which GPUs it is says where layers and experts lie: neither a
    number of layers, nor shares of several GPUs, nor a place for some tensors.
    """
    line, flags = read_line(words), _placing(words)
    given, names = dict(flags), [f"{CUDA}{number}" for number in range(gpus)]
    devices = _devices(given, names)
    asked = given.get("-ngl", "auto") in ("auto", "-1") and not line.off("-fit")
    placed = {"-ot", "--cpu-moe", "--n-cpu-moe"} & set(given)
    if not asked or placed or not devices or ("-ts" in given and len(devices) > 1):
        return None
    return [names.index(name) for name in devices]


def unfelt_overrides(words: Sequence[str], model: ModelShape, gpus: int) -> Iterator[str]:
    """Yield what ``-ot`` says in vain or of tensors that a split keeps together, in words.

    A layer's attention, shared experts and dense part lie where its ``attn_output`` lies.
    """
    devices = (CPU, *(f"{CUDA}{number}" for number in range(gpus)))
    flags = [(name, value) for name, value in _placing(words) if name == "-ot"]
    overrides, moved = list(_overrides(flags, devices, None)), dict[str, str]()
    names = [*tensor_names(model)]
    for pattern, _ in overrides:
        if not any(pattern.search(name) for name in names):
            yield (
                f"--flags: -ot {pattern.pattern!r:.80}: matches no tensor of {model.name}: they are"
                f" called {names[-1]} and the like"
            )
    for name in names:
        if not MATRIX.search(name) or SMALL.search(name):
            continue
        block = BLOCK.match(name)
        beside = [] if block is None else [f"{block[0]}attn_output.weight"]
        found = [
            next(((said.pattern, to) for said, to in overrides if said.search(one)), ("", ""))
            for one in (name, *beside)
        ]
        if found[0][1] != (found[1][1] if beside else ""):
            moved.setdefault(found[0][0] or found[1][0], name)
    for said, name in moved.items():
        yield (
            f"--flags: -ot {said!r:.80}: {name} is predicted where its layer's attn_output lies:"
            " parts of a layer other than its experts are kept together"
        )


BLOCK = re.compile(r"blk\.\d+\.")
MATRIX = re.compile(r"token_embd|output\.weight|attn_|ssm_|ffn_(gate|up|down)(_shexp)?\.weight")
SMALL = re.compile(r"_norm\.|_sinks")
"""A block's part of a name; tensors beside the routed experts that count; of those, small ones."""


def _home(overrides: Sequence[tuple[re.Pattern[str], str]], name: str, default: str) -> str:
    return next((to for pattern, to in overrides if pattern.search(name)), default)


def _number(flag: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{flag}: must be a number, not {text!r:.40}") from None


RUNNING = (
    Option("context", int, "Tokens that the KV cache has room for.", ALLOCATED, 1, MOST_CONTEXT),
    Option("cache_type", str, "Of the KV cache: f16, q8_0 etc.", "f16"),
    Option("ubatch", int, "Tokens of a prompt computed together.", UBATCH, 1, 2**16),
    Option("threads", int, "Threads that compute; default: the runtime's.", None, 1, 4096),
)
NAMED = Option("backend", str, f"What GPUs are called: {', '.join(BACKENDS)}.", CUDA)
"""What a command line has to say beside where things lie."""

WHOLE = Target(
    "llama.cpp",
    "llama.cpp: flags, whole layers",
    ("placement", "split"),
    ".txt",
    export,
    holds="whole layers' experts on a GPU or off it",
    loses="everything finer than a layer",
    names_experts=False,
    options=(*RUNNING, NAMED),
    start=SERVER,
)

TARGETS = (
    WHOLE,
    replace(
        WHOLE,
        name="ik_llama.cpp",
        summary="ik_llama.cpp: flags, whole layers",
        export=export_ik,
    ),
    Target(
        PROFILE,
        "llama.cpp, the fork with --moe-cache-profile: resident experts",
        ("placement",),
        ".csv",
        export_profile,
        holds="equally many experts of each layer, which ones being free",
        loses="counts that differ between layers",
        honoured=by_class(PROFILE),
        warn=runs_without,
        start=SERVER,
    ),
)
