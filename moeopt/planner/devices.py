"""Plans over several GPUs or memory nodes: the best split, proven, and what there is beside it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from moeopt.core.errors import InfeasibleError, InputError, LimitError
from moeopt.core.logs import logger_of
from moeopt.exporters.targets.llama_cpp import BACKENDS, CUDA
from moeopt.problems.split import PROBLEM
from moeopt.problems.split.check import objective
from moeopt.problems.split.generate import tensors_apart
from moeopt.problems.split.instance import Instance, Solution
from moeopt.sim.costs.threads import threaded
from moeopt.sim.machines.cores import NumaMode
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.kv_types import kv_pair
from moeopt.sim.machines.runtimes.setting import UBATCH, Setting
from moeopt.sim.models.by_layer import by_layer
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import at_bits
from moeopt.sim.traces.count_sample import counts_of_model
from moeopt.sim.traces.trace import Counts
from moeopt.solvers.arguments import Limits
from moeopt.solvers.run import solve

from .asked import what_fits
from .by_flags import CUTS_LAYERS, predict_split
from .options import PlanOptions, SeveralOptions, depth_of
from .placed import by_layers
from .report import Bracket, PlanReport, Row
from .split import Wish, gpus_of, instance_of, no_room, options_of, predicted_split, without

logger = logger_of(__name__)

WORK = Limits(work=15.0)
"""For all solves, unless it is said: units of work, for the same plan everywhere."""

CUT_SHORT = "interrupted: the plan is the best so far, and not all comparisons were made"
"""Note of a plan after Ctrl-C."""

Variant = tuple[list[str], Instance]
"""What else there could be: names, and the instance that they share."""


def wished(
    machine: Machine,
    model: ModelShape,
    options: PlanOptions,
    several: SeveralOptions,
    counts: Counts | None = None,
) -> tuple[Setting, Wish]:
    """Return the setting that the options of a plan ask for, and what it is for."""
    runtime = options.runtime or "llama.cpp"
    setting = Setting(
        machine,
        model if options.bits is None else at_bits(model, options.bits),
        runtime,
        Context(depth_of(options, several.goal), options.cache.allocated),
        kv=kv_pair(options.kv_bits or 16.0, runtime),
        ubatch=several.ubatch or UBATCH,
        numa=cast(NumaMode, several.numa),  # `options_of` refuses others
    )
    known = None if counts is None else counts_of_model(counts, model)
    wish = Wish(model, options.bits, several.goal, several.granularity, known)
    options_of(setting, wish)
    return setting, wish


def plan_devices(
    setting: Setting,
    wish: Wish,
    limits: Limits = WORK,
    *,
    path: str | None = None,
    backend: str = CUDA,
) -> PlanReport:
    """Return the best split of a model's layers over a machine's devices.

    Parameters
    ----------
    setting
        Without a number of threads those that are fastest.
    limits
        For all solves together.
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
    instance = instance_of(setting, wish)
    share = 1 / 2 if gpus_of(instance) else 1
    result = solve(instance, "labels", **limits.part(share).asked)
    chosen = result.solution
    logger.info("%s: split over %d devices: %s", instance.name, len(instance.devices), result.said)
    if not isinstance(chosen, Solution):
        if result.termination in ("time_limit", "work_limit"):
            raise LimitError(f"{instance.name}: no split was found within the limit")

        def check(other: Setting, name: str | None) -> None:
            predict_split(other, replace(wish, bits=name))

        hint = what_fits(setting, wish.model, wish.bits, check, contexts=False)
        raise InfeasibleError(f"{no_room(instance)}; {hint}")
    made = predicted_split(setting, wish, instance, chosen, path, backend)
    best, score = objective(instance, chosen), wish.goal.seconds(made.speeds[0])
    variants = list(_variants(setting, wish, instance))
    defaults, notes, worth = list[Row](), made.notes, dict[str, float | None]()
    interrupted = result.termination == "interrupted"
    try:
        for name, rule in PROBLEM.functions().items():
            of = tensors_apart(instance) if name == CUTS_LAYERS else instance
            found = rule(of)
            if found is None:
                notes += (f"{name} finds no split that fits",)
                continue
            defaults.append(Row(name, setting, found, score * (objective(of, found) / best)))
        for names, changed in () if interrupted else variants:
            part = limits.part(1 / 2 / len(variants))
            answer = solve(changed, "labels", **part.asked, verify=False)
            left = answer.solution
            longer = objective(changed, left) / best - 1 if isinstance(left, Solution) else None
            worth |= dict.fromkeys(names, longer)
            if answer.termination == "interrupted":
                raise KeyboardInterrupt
    except KeyboardInterrupt:  # the plan is there: comparisons are what is left out
        interrupted = True
    logger.info("%s: beside it %d rules, %d machines", instance.name, len(defaults), len(worth))
    report = PlanReport(
        "devices",
        wish.goal,
        (Row("plan", setting, chosen, score, made.speeds, made.memory_mib()),),
        Bracket.of(result, "ns"),
        tuple(defaults),
        worth,
        notes + ((CUT_SHORT,) if interrupted else ()),
        made.command,
        instance,
        made.facts(),
    )
    return replace(report, lines=tuple(made.page(_proven(report), tuple(_compared(report)))))


def _proven(report: PlanReport) -> list[str]:
    """Return what is proven of a plan, if anything is."""
    gap = None if report.proof is None else report.proof.gap
    if gap is None:
        return []
    return [f"proven: {'the best split for these times' if gap == 0 else f'at most {gap:.2%} off'}"]


def _compared(report: PlanReport) -> Iterator[str]:
    """Yield a plan's time beside those of the runtimes' rules and of other machines."""
    if not report.defaults:
        return
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


def _variants(setting: Setting, wish: Wish, instance: Instance) -> Iterator[Variant]:
    """Yield what else there could be: less a GPU, a larger one, twice the host's channels.

    GPUs that are alike, so that it does not matter which of them it is, share one instance.
    """
    machine, groups = setting.used, list[list[int]]()
    for gpu in gpus_of(instance):
        group = next((one for one in groups if _alike(instance, one[0], gpu)), None)
        groups.append([gpu]) if group is None else group.append(gpu)
    names = [[instance.devices[gpu].name for gpu in group] for group in groups]

    def with_other(changed: Machine) -> Instance:
        return instance_of(replace(setting, machine=changed, threads=None), wish)

    if len(gpus_of(instance)) > 1:
        for group, of in zip(groups, names, strict=True):
            yield [f"without {name}" for name in of], without(instance, group[0])
    for group, of in zip(groups, names, strict=True):
        card = machine.gpus[group[0]]
        more = machine.with_devices(card.with_capacity(2 * card.gpu_gib))
        yield [f"{name} with twice the memory" for name in of], with_other(more)
    twice = []
    for node in machine.nodes:
        memory = node.memory
        measured = None if memory.measured_gb_s is None else 2 * memory.measured_gb_s
        wider = node.with_memory(gb_s=2 * memory.gb_s, measured_gb_s=measured)
        most = node.only("cpu").most_gb_s
        twice.append(wider if most is None else wider.with_part("cpu", most_gb_s=2 * most))
    yield ["the host with twice the channels"], with_other(machine.with_devices(*twice))


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
