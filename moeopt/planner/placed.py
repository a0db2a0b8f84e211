"""A split of layers over devices as it runs: a token's way, and its speeds at several depths."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from moeopt.core.envelope import validated
from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import read_object
from moeopt.problems.split.instance import Solution
from moeopt.sim.costs.devices import DeviceTimes, device_times
from moeopt.sim.costs.interval import within
from moeopt.sim.costs.prompt import prompt_factor, upload_from
from moeopt.sim.engine.core import Engine
from moeopt.sim.engine.timeline import Resource
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.machines.runtimes.speeds import Speed, depths_of, speed_at
from moeopt.sim.models.by_layer import by_layer
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.plan import Plan, load_plan
from moeopt.sim.traces.trace import Counts

if TYPE_CHECKING:
    from moeopt.systems.plan_run import Simulation

FINE_NS = 1
"""Times of speeds are multiples of it; those of the problem `split` of a thousand times as much."""


def layers_of(attention: Sequence[int]) -> list[int]:
    """Return the layer of each row, from the device of its attention: -1 where it has none.

    Rows without attention are further tensors of the layer before.
    """
    return [count - 1 for count in accumulate(home >= 0 for home in attention)]


class Stop(NamedTuple):
    """One part of a layer on a device, and the hop before it; without a part: a last hop."""

    hop_ns: int
    device: int
    part: str
    layer: int
    ns: int


def by_layers(setting: Setting) -> Setting:
    """Return a setting whose model says of each layer what attention and shared experts it has.

    Else `moeopt.sim.costs.devices` takes the mean over the layers, and books shared experts' time
    with that of routed ones where their width is not stated; so do instances of problem `split`
    that were generated for such models, whose bytes stay.
    """
    return replace(setting, model=by_layer(setting.model))


def stops(
    times: DeviceTimes,
    split: Solution,
    *,
    prompt: bool = False,
    uploaded: bool = False,
) -> Iterator[Stop]:
    """Yield a token's or a ubatch's way through a split, in the rows of problem `split`.

    The way from the embedding to the first layer and from the head to the sampling is part of a
    step's own time, as it is fitted; so no hops are counted there, which `split` counts.

    Parameters
    ----------
    uploaded
        Whether experts in host memory are copied to the first GPU and computed there, as for a
        large ubatch: the activations then go there.
    """
    attention, experts = split.attention, split.experts
    at, homes, hop_ns = times.attention_ns, times.experts_ns, times.hop_ns
    if prompt:
        at, homes, hop_ns = (
            times.prompt_attention_ns,
            times.prompt_experts_ns,
            times.prompt_hop_ns,
        )
    layers = layers_of(attention)
    tensors = [0] * (layers[-1] + 1)
    for row, home in zip(layers, experts, strict=True):
        tensors[row] += home >= 0
    here = attention[0]
    for row, layer in enumerate(layers):
        if (home := attention[row]) >= 0:
            yield Stop(int(hop_ns[here, home]), home, "attention", layer, int(at[layer, home]))
            here = home
        if (home := experts[row]) >= 0:
            each = round(int(homes[layer, home]) / tensors[layer])
            there = 0 if uploaded and home >= times.source else home
            yield Stop(int(hop_ns[here, there]), home, "experts", layer, each)
            here = there
    head = next(home for home in reversed(attention) if home >= 0)
    yield Stop(int(hop_ns[here, head]), head, "", layers[-1], 0)


def total_us(way: Iterator[Stop]) -> float:
    """Return the time of a way in us."""
    return sum(stop.hop_ns + stop.ns for stop in way) / 1e3


def load_decision(path: str | Path) -> Plan | Solution:
    """Read what ``moeopt plan --out`` wrote: a plan, or a solution of problem `split`.

    Raises
    ------
    InputError
        If the file cannot be read or is neither.
    """
    expect("path", path, str, Path, what="a path")
    path = Path(path)
    if read_object(path).get("problem") != "split":
        return load_plan(path)
    with validated(path, Solution):
        return Solution.model_validate(read_object(path))


def check_rows(model: ModelShape, devices: int, split: Solution) -> None:
    """Raise InputError unless a split has the model's layers, each on one of so many devices."""
    attention, experts = split.attention, split.experts
    layers = sum(home >= 0 for home in attention)
    if layers != model.layers or len(attention) != len(experts) or attention[0] < 0:
        said = f"{split.instance}: attention: is of {layers} layers; {model.name} has"
        raise InputError(f"{said} {model.layers}")
    begins = [row for row, home in enumerate(attention) if home >= 0]
    for layer, row in enumerate(begins):
        if (experts[row] >= 0) != (layer in model.moe_layers):
            has = "experts" if layer in model.moe_layers else "no experts"
            raise InputError(f"{split.instance}: experts[{row}]: the layer has {has}")
    if max(*attention, *experts) >= devices:
        raise InputError(f"{split.instance}: there are {devices} devices on this machine")


def executed(
    setting: Setting, split: Solution, steps: int, *, timeline: bool = False
) -> "Simulation":
    """Execute single tokens of a split, through the event engine.

    Parameters
    ----------
    setting
        With its number of threads.
    timeline
        Whether to keep every task.

    Raises
    ------
    InputError
        If the split is not of this model and machine.
    """
    from moeopt.systems.plan_run import Simulation

    setting = by_layers(setting)
    model, times = setting.model, device_times(setting, FINE_NS)
    check_rows(model, len(times.names), split)
    engine = Engine([*map(Resource, times.names), Resource("hops")])
    ends, ran, after = list[int](), [0] * len(times.names), list[int]()
    for step in range(steps):
        for stop in stops(times, split):
            label, number = f"token {step}", stop.layer
            hop = engine.add(
                "hops", stop.hop_ns, after=after, kind="hop", number=number, label=label
            )
            after, kind = [hop], stop.part or "back"
            if stop.part:
                name = times.names[stop.device]
                after = [
                    engine.add(name, stop.ns, after=after, kind=kind, number=number, label=label)
                ]
            if stop.part == "experts":
                ran[stop.device] += model.top_k
        engine.run()
        ends.append(engine.finish_ns(after[0]))
    made = engine.timeline()
    step_ns = np.diff(ends, prepend=0)
    gpus = len(setting.machine.gpus)
    return Simulation(
        plan=split.instance,
        machine=setting.machine.name,
        model=model.name,
        steps=steps,
        layers=len(model.moe_layers),
        model_layers=len(model.moe_layers),
        tokens=steps,
        step_ns=step_ns,
        layer_ns=step_ns[:, None],
        makespan_ns=made.makespan_ns,
        usage=made.usage(),
        experts_run={"gpu": sum(ran[:gpus]), "cpu": sum(ran[gpus:]), "ndp": 0},
        hits=0,
        misses=0,
        fetches=0,
        migrations_done=0,
        migrations_missed=0,
        migrations_needless=0,
        timeline=made if timeline else None,
    )


def split_us(setting: Setting, split: Solution) -> float:
    """Return the time of a token in us at the setting's depth."""
    return total_us(stops(device_times(setting, FINE_NS), split))


def split_speeds(
    setting: Setting,
    split: Solution,
    host_calls: Sequence[float],
    prompt: int | None = None,
    counts: Counts | None = None,
) -> tuple[Speed, ...]:
    """Return the speeds of a split at the depths of `depths_of`, as `moeopt.predict` has them.

    Parameters
    ----------
    setting
        With its number of threads.
    host_calls
        Of each layer with experts, the share of calls on the host: for the 80 % intervals.
    prompt
        Tokens of a prompt; None: as many as fill the cache to each depth, a ubatch at least.
    counts
        Of the model: which experts a prompt activates.
    """
    found = list[Speed]()
    allocated, model = setting.context.allocated, setting.shape

    @cache
    def times(context: Context, ubatch: int) -> DeviceTimes:
        return device_times(replace(setting, context=context, ubatch=ubatch), FINE_NS, counts)

    for depth in depths_of(setting.context):
        at = replace(setting, context=Context(depth, allocated))
        token_us = total_us(stops(times(at.context, setting.ubatch), split))
        length = prompt or max(depth, setting.ubatch)
        tokens, context = min(length, setting.ubatch), Context(length, max(length, allocated))
        read = times(context, tokens)
        copied = bool(setting.machine.gpus) and tokens >= upload_from(model, setting.runtime)
        ubatch_us = total_us(stops(read, split, prompt=True, uploaded=copied))
        reading = 1e6 * tokens / ubatch_us, prompt_factor(setting, length, host_calls)
        found.append(speed_at(depth, token_us, within(at, host_calls).factor, *reading))
    return tuple(found)
