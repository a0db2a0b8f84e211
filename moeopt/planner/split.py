"""Plans for machines with several GPUs or memory nodes: problem `split`, and a command line."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from moeopt.core.errors import InputError
from moeopt.core.wording import describe
from moeopt.exporters.targets.llama_cpp import split_flags
from moeopt.problems.generate import generate
from moeopt.problems.split.check import times_ns, used_bytes
from moeopt.problems.split.generate import Options
from moeopt.problems.split.heuristics import HEURISTICS
from moeopt.problems.split.instance import Instance, Solution
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.command import llama_command, running
from moeopt.sim.machines.runtimes.memory import NoRoomError, kv_bits_of
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import at_bits
from moeopt.solvers import arguments
from moeopt.solvers.run import solve

from .options import PlanOptions, SeveralOptions

MIB = 2**20
S = 1e9


@dataclass(frozen=True)
class SplitPlan:
    """What lies where, how fast that is predicted to be, and what else there is.

    Attributes
    ----------
    instance, solution
        Of problem `split`.
    tokens_per_s, prompt_tokens_per_s
        Decoding one sequence, and reading a prompt; None without a prompt.
    gap
        How far the plan is from the proven bound at most, as a share; None without a bound.
    others
        Rule -> by how much longer it takes, as a share; None where it finds no split.
    without
        GPU -> by how much longer the best split without it takes, as a share; None if nothing fits.
    command
        What runs it.
    """

    instance: Instance
    solution: Solution
    tokens_per_s: float
    prompt_tokens_per_s: float | None
    gap: float | None
    others: dict[str, float | None]
    without: dict[str, float | None]
    command: str

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "tokens_per_s": self.tokens_per_s,
            "prompt_tokens_per_s": self.prompt_tokens_per_s,
            "gap": self.gap,
            "attention": list(self.solution.attention),
            "experts": list(self.solution.experts),
            "devices": [device.model_dump() for device in self.instance.devices],
            "others": self.others,
            "without": self.without,
            "command": self.command,
        }


def plan_split(
    machine: Machine,
    model: ModelShape,
    options: Options,
    *,
    time_limit_s: float | None = None,
    work_limit: float | None = None,
    path: str | None = None,
) -> SplitPlan:
    """Return the best split of a model's layers over a machine's devices.

    Parameters
    ----------
    options
        Context, ubatch, runtime, and what a request is: `moeopt.problems.split.generate.Options`.
    time_limit_s, work_limit
        For all solves together; as in `moeopt.solve`.
    path
        The model's file, for the command.

    Raises
    ------
    NoRoomError
        If nothing fits: one line with MiB by device.
    """
    instance = _instance(machine, model, options)
    gpus = [n for n, device in enumerate(instance.devices) if device.buffer]
    limits = arguments.limits(time_limit_s, work_limit).part(1 / 2 if len(gpus) > 1 else 1)
    result = solve(instance, "labels", **limits.asked)
    chosen = result.solution
    if not isinstance(chosen, Solution):
        raise NoRoomError(_no_room(instance))
    best = _cost(instance, chosen)
    others: dict[str, float | None] = {}
    for name, rule in HEURISTICS.items():
        found = rule(instance)
        others[name] = None if found is None else _excess(_cost(instance, found), best)
    without: dict[str, float | None] = {}
    for gpu in gpus if len(gpus) > 1 else ():
        left = solve(_without(instance, gpu), "labels", **limits.part(1 / len(gpus)).asked)
        name = instance.devices[gpu].name
        other = left.solution
        without[name] = (
            _excess(_cost(instance, other), best) if isinstance(other, Solution) else None
        )
    token_ns, prompt_ns = times_ns(instance, chosen)
    sized = model if options.bits is None else at_bits(model, options.bits)
    sized = sized.model_copy(update={"kv_bits": options.kv_bits})
    room = max(options.room, options.context)
    how = running(machine, sized, room, options.ubatch, options.runtime, options.numa)
    prompt = None
    if instance.prompt_weight:
        prompt = options.prompt_tokens / (instance.prompt_weight * prompt_ns / S)
    return SplitPlan(
        instance=instance,
        solution=chosen,
        tokens_per_s=float(f"{S / token_ns:.4g}"),
        prompt_tokens_per_s=None if prompt is None else float(f"{prompt:.4g}"),
        gap=(best - result.bound) / best if isinstance(result.bound, int) else None,
        others=others,
        without=without,
        command=llama_command(sized, split_flags(instance, chosen), how, path),
    )


def wished(options: PlanOptions, several: SeveralOptions) -> Options:
    """Return what the generator of `split` is told by the options of a plan."""
    asked = {
        "bits": options.bits,
        "kv_bits": 16.0 if options.kv_bits is None else kv_bits_of(options.kv_bits),
        "room": options.context,
        "context": min(options.context, several.prompt_tokens + several.reply_tokens // 2),
        "runtime": options.runtime or "llama.cpp",
    }
    named = ("ubatch", "numa", "prompt_tokens", "reply_tokens")
    try:
        return Options.model_validate(asked | {name: getattr(several, name) for name in named})
    except ValidationError as error:
        raise InputError(describe(error)) from None


def split_page(plan: SplitPlan) -> str:
    """Return the plan as text."""
    return "\n".join(_lines(plan))


def _lines(plan: SplitPlan) -> Iterator[str]:
    instance, solution = plan.instance, plan.solution
    yield f"{instance.name}: {len(instance.layers)} layers, {len(instance.devices)} devices"
    yield ""
    speed = f"decoding: {plan.tokens_per_s:g} tokens/s"
    if plan.prompt_tokens_per_s is not None:
        speed += f"; prompt: {plan.prompt_tokens_per_s:g} tokens/s"
    yield f"{speed} (predicted)"
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
    for name, excess in plan.others.items():
        said = "finds no split that fits" if excess is None else f"takes {excess:+.1%}"
        yield f"{name} {said}"
    for name, excess in plan.without.items():
        if excess is None:
            yield f"without {name} it does not fit"
        elif excess <= 0:
            yield f"{name} brings nothing: leave it out"
        else:
            yield f"without {name} it takes {excess:+.1%}"
    yield ""
    yield plan.command


def _instance(machine: Machine, model: ModelShape, options: Options) -> Instance:
    made = generate("split", machine=machine, model=model, **options.model_dump())
    assert isinstance(made, Instance)  # noqa: S101
    return made


def _cost(instance: Instance, solution: Solution) -> int:
    token_ns, prompt_ns = times_ns(instance, solution)
    return instance.decode_weight * token_ns + instance.prompt_weight * prompt_ns


def _excess(cost: int, best: int) -> float:
    return cost / best - 1


def _without(instance: Instance, gpu: int) -> Instance:
    """Return the instance in which nothing fits onto a GPU."""
    devices = tuple(
        device.model_copy(update={"capacity": 0}) if number == gpu else device
        for number, device in enumerate(instance.devices)
    )
    return instance.model_copy(update={"devices": devices, "name": f"{instance.name}-without{gpu}"})


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
