"""A split of layers over several GPUs or memory nodes as a runtime has it: memory, speeds, command.

`devices` finds the best one. What a command line or the runtime's own fit says of where layers lie
`by_flags` reads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from moeopt.core.envelope import validated
from moeopt.core.errors import InputError
from moeopt.core.units import MIB
from moeopt.exporters.targets.llama_cpp import CUDA, Shared, shared_by_ik, split_flags
from moeopt.problems.generate import generate
from moeopt.problems.split.check import used_bytes
from moeopt.problems.split.generate import Options
from moeopt.problems.split.instance import Instance, Solution
from moeopt.sim.costs.interval import few_measured
from moeopt.sim.machines.runtimes.causes import Explained
from moeopt.sim.machines.runtimes.command import NUMA, command_line, running
from moeopt.sim.machines.runtimes.flags import Told
from moeopt.sim.machines.runtimes.memory import ik_buffer_bytes, is_stated, unstated
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.machines.runtimes.speeds import Speed, WithSpeeds, speeds_as_dict, speeds_in_words
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import not_read
from moeopt.sim.traces.trace import Counts

from .goal import DECODING, Goal
from .placed import layers_of, split_speeds

PARTS = ("attention", "experts", "buffers")
"""What lies in a device's memory."""


@dataclass(frozen=True)
class Wish:
    """What a split is for, beside its setting.

    Attributes
    ----------
    model, bits
        The model as it was named, and the quantisation of its weights that is asked for.
    goal
        Without a prompt decoding alone counts.
    granularity
        Experts by "layer", or by "tensor".
    counts
        Of the model: which experts a prompt activates, layer by layer.
    """

    model: ModelShape
    bits: str | None = None
    goal: Goal = DECODING
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
        return sum(share > 0 for share in host_calls(self.instance, self.solution))

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
        return self.first() | {
            "attention": list(self.solution.attention),
            "experts": list(self.solution.experts),
            "devices": [device.model_dump() for device in self.instance.devices],
        }

    def page(self, proven: Sequence[str] = (), compared: Sequence[str] = ()) -> Iterator[str]:
        """Yield the prediction as text.

        Parameters
        ----------
        proven, compared
            Of a plan: lines on what is proven of it, and on what there is beside it.
        """
        instance, solution = self.instance, self.solution
        of = "tensors" if instance.by_tensor else "layers"
        yield f"{instance.name}: {len(instance.layers)} {of}, {len(instance.devices)} devices"
        yield self.setting.context.in_words()
        yield ""
        yield "predicted, with 80 % intervals:"
        yield from speeds_in_words(self.speeds)
        yield from proven
        yield ""
        yield f"{'device':10} {'attention':>10} {'experts':>8} {'MiB used':>10} {'of':>8}"
        used = self.memory_mib().values()
        for number, (device, parts) in enumerate(zip(instance.devices, used, strict=True)):
            attention, experts = solution.attention.count(number), solution.experts.count(number)
            mib, total = ceil(sum(parts.values())), device.capacity // MIB
            yield f"{device.name:10} {attention:10} {experts:8} {mib:10,} {total:8,}"
        yield ""
        if compared:
            yield from (*compared, "")
        for asked in self.asks:
            yield f"assumed: {asked}"
        if self.explained is not None:
            yield from self.explained.in_words()
        yield self.command


def predicted_split(
    setting: Setting,
    wish: Wish,
    instance: Instance,
    chosen: Solution,
    path: str | None = None,
    backend: str = CUDA,
    said: Told | None = None,
) -> SplitPrediction:
    """Return speeds and command line of a split; placed as was `said` where it has to be.

    Parameters
    ----------
    path, backend
        The model's file, and what GPUs are called, of `BACKENDS`: for the command.
    """
    model, calls = setting.shape, host_calls(instance, chosen)
    prompt = wish.goal.prompt or None
    speeds = split_speeds(setting, chosen, calls, prompt, wish.counts)
    try:
        shared = shared_of(instance, setting)
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
        + tuple(_assumed(setting, instance, chosen, placing)),
    )


def _assumed(
    setting: Setting, instance: Instance, chosen: Solution, placing: Sequence[str]
) -> Iterator[str]:
    """Yield what is assumed of the machine's memory, the runtime and the model's file."""
    machine, runtime, numa = setting.machine, setting.runtime, setting.numa
    used = zip(used_bytes(instance, chosen), instance.devices, strict=True)
    need = sum(size for size, device in used if not device.buffer)
    if need and not is_stated(machine):
        yield unstated(machine, need)
    if len(machine.nodes) > 1 and numa not in NUMA:
        how = {
            "first-touch": "every thread must write first what it reads later",
            "nodes": "it takes a runtime that computes on each node by itself",
            "tensor-parallel": "it takes a runtime that slices every expert over the nodes",
            "one-computes": "it is what Windows does by itself",
            "mirrored": "it takes a build that keeps a copy of the weights on each node",
        }
        yield (
            f"--numa {numa}: {runtime} has no flag for it, so the command does not ask for it:"
            f" {how[numa]}"
        )
    asked = dict(zip(placing[::2], placing[1::2], strict=False)).get("-ngl", "999")
    if setting.model.nextn is None and asked not in ("0", "999"):  # it counts from the end
        yield (
            f"-ngl {asked}: of a file with {setting.model.layers} blocks; add its"
            " nextn_predict_layers where it counts more (--model FILE.gguf does so), else that many"
            " layers lie elsewhere on each device"
        )


def host_calls(instance: Instance, solution: Solution) -> list[float]:
    """Return the share of each layer's experts that the host computes."""
    hosts = [not device.buffer for device in instance.devices]
    own = dict[int, list[bool]]()
    for layer, home in zip(layers_of(solution.attention), solution.experts, strict=True):
        if home >= 0:
            own.setdefault(layer, []).append(hosts[home])
    return [sum(each) / len(each) for each in own.values()]


def shared_of(instance: Instance, setting: Setting) -> Shared | None:
    """Return what ik_llama.cpp shares out; None of llama.cpp."""
    if setting.runtime != "ik_llama.cpp":
        return None
    room = setting.context.allocated
    return shared_by_ik(instance, ik_buffer_bytes(setting.model, setting.ubatch, room))


def instance_of(setting: Setting, wish: Wish) -> Instance:
    """Return the instance of problem `split` for a setting."""
    keys, values = setting.shape.kv_widths
    model = wish.model if keys == values else wish.model.with_kv_bits(keys, values)
    options = options_of(setting, wish).model_dump()
    counts = wish.counts if wish.goal.prompt else None
    made = generate("split", machine=setting.used, model=model, counts=counts, **options)
    assert isinstance(made, Instance)  # noqa: S101
    return made


def options_of(setting: Setting, wish: Wish) -> Options:
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
        "prompt_tokens": wish.goal.prompt,
        "reply_tokens": wish.goal.reply,
        "granularity": wish.granularity,
    }
    with validated(model=Options):
        return Options.model_validate(asked)


def gpus_of(instance: Instance) -> list[int]:
    """Return the devices that are GPUs."""
    return [number for number, device in enumerate(instance.devices) if device.buffer]


def without(instance: Instance, gpu: int) -> Instance:
    """Return the instance in which nothing fits onto a GPU."""
    devices = tuple(
        device.model_copy(update={"capacity": 0}) if number == gpu else device
        for number, device in enumerate(instance.devices)
    )
    return instance.model_copy(update={"devices": devices, "name": f"{instance.name}-without{gpu}"})


def no_room(instance: Instance) -> str:
    """Return that a model does not fit onto the devices, in MiB."""
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
