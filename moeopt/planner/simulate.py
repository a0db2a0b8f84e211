"""Executing a plan on the loads that really come."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType

from numpy.typing import ArrayLike

from moeopt.core.envelope import validated
from moeopt.core.errors import InputError, expect
from moeopt.core.options import takes, with_given
from moeopt.planner.options import ExecutionOptions
from moeopt.planner.placed import executed, load_decision
from moeopt.problems.bitwidth.instance import Instance, Solution
from moeopt.problems.split.instance import Solution as Split
from moeopt.sim.costs.quanta import DEFAULT_QUANTUM_NS, NS_PER_S, to_quanta
from moeopt.sim.costs.runtime import AS_FILE, RUNTIME_QUANTUM_NS, Priced, priced
from moeopt.sim.costs.step import StepCosts
from moeopt.sim.costs.threads import threaded
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.context import DEPTH, Context
from moeopt.sim.machines.runtimes.kv_types import kv_bits_of, kv_pair
from moeopt.sim.machines.runtimes.profile import get_runtime
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.plan import Assignment, Plan, Times, times_of_step
from moeopt.sim.presets import get_machine, get_model
from moeopt.sim.traces.trace import Batching, Counts, Trace
from moeopt.systems.cost_table import cost_table
from moeopt.systems.loads import Loads, loads_of_counts, loads_of_trace
from moeopt.systems.plan_run import Simulation, simulate_loads
from moeopt.systems.planned import check_policy, widths_of
from moeopt.systems.work import layer_times

SPLIT_STEPS = 8
"""Steps of whole layers unless it is said how many; one is like another."""


@takes(ExecutionOptions)
def simulate(
    plan: Plan | Split | str | Path | None,
    machine: Machine | str | Path,
    model: ModelShape | str | Path,
    loads: Trace | Loads | Counts | ArrayLike | None = None,
    steps: int | None = None,
    *,
    batching: Batching = "streams",
    timeline: bool = False,
    options: ExecutionOptions | None = None,
    **given: object,
) -> Simulation:
    """Execute decode steps under a plan.

    Each layer: attention and everything else on the GPU, then the routed experts on the domains
    chosen for the loads that come, beside the shared experts on the GPU. Host reads occupy every
    DIMM they touch and do not delay the host's own task (TriMoE Eq. 6). The next layer waits for
    all of it, but for deferred experts, for which the layer after waits (KTransformers 4.1), and
    for what the caches fetch, for which nothing waits (CPU-GPU collaborative III-B): copies go over
    PCIe one after the other, and an expert is a hit from the end of its copy on.

    Parameters
    ----------
    plan
        What is decided: a `Plan`, a plan file, or None for the default plan. Or a solution of
        problem `split`, or its file: whole layers over several devices.
    machine, model
        Objects, names of presets (``moeopt list machines``) or JSON files.
    loads
        A routing trace, or token counts of shape (steps, layers, experts); None for whole layers,
        for which every token is alike.
    steps
        As in the options.
    batching
        How steps are made of a trace.
    timeline
        Run every task through the event core and keep it, instead of timing layers by sums. The
        latencies are the same.
    options
        What else may be said; `moeopt.planner.options.ExecutionOptions` explains every field.
    **given
        Fields of these options by keyword, in place of `options` or changing some of them.

    Returns
    -------
    Simulation
        Latencies of the steps in ns, of shape (steps,), and how busy each device was.

    Raises
    ------
    InputError
        If the plan does not fit, or the machine lacks something that the plan uses.

    Examples
    --------
    >>> import moeopt, numpy as np
    >>> tokens = np.full((1, 26, 64), 6)  # steps, layers, experts
    >>> run = moeopt.simulate(None, "trimoe", "deepseek-v2-lite", tokens)
    >>> len(run.step_ns)
    1
    """
    given |= {} if steps is None else {"steps": steps}
    how = with_given(ExecutionOptions, options, given)
    expect("plan", plan, Plan, Split, str, Path, NoneType, what="a plan, a split or a path")
    if isinstance(plan, str | Path):
        plan = load_decision(plan)
    if isinstance(plan, Split):
        return _of_split(
            plan, get_machine(machine), get_model(model), loads, how, timeline=timeline
        )
    if loads is None:
        raise InputError("are missing: a trace, or counts of tokens", field="loads")
    plan, machine = Plan() if plan is None else plan, get_machine(machine)
    if len(machine.gpus) > 1:
        count = f"{machine.name} has {len(machine.gpus)} GPUs"
        reason = f"{count}; a plan of single experts runs on one, and whole layers on several"
        raise InputError(reason, field="machine")
    timed, model = timed_as_asked(machine, get_model(model), how)
    check_policy(plan, timed.machine)
    costs, quantum_ns = timed.costs(model), how.quantum_ns
    if quantum_ns is None:
        quantum_ns = DEFAULT_QUANTUM_NS if timed.runtime is None else RUNTIME_QUANTUM_NS
    came = _loads(loads, model, how, batching)
    if how.depth is not None or (timed.runtime is not None and plan.times == Times()):
        batch = max(int(came.tokens.max(initial=0)), 1)
        times = times_of_step(costs, batch, _depth(how), quantum_ns)
        plan = plan.model_copy(update={"times": times})
    plan = _with_times(plan, attention_ns=how.attention_ns, other_ns=how.other_ns)
    return simulated(plan, costs, came, quantum_ns, timeline=timeline)


def _of_split(
    split: Split,
    machine: Machine,
    model: ModelShape,
    loads: object,
    how: ExecutionOptions,
    *,
    timeline: bool,
) -> Simulation:
    """Return what single tokens take of whole layers over several devices."""
    unfelt = {name: getattr(how, name) for name in ("layers", "attention_ns", "other_ns")}
    unfelt |= {"loads": loads, "quantum_ns": how.quantum_ns}
    for name, value in unfelt.items():
        if value is not None:
            raise InputError("has no effect on whole layers: all tokens are alike", field=name)
    name = how.runtime or "llama.cpp"
    kv, numa = kv_pair(how.kv_bits, name), get_runtime(name).numa
    context = Context.at(_depth(how))
    setting = threaded(Setting(machine, model, name, context, kv=kv, numa=numa))
    steps = SPLIT_STEPS if how.steps is None else how.steps
    return executed(setting, split, steps, timeline=timeline)


def timed_as_asked(
    machine: Machine, model: ModelShape, how: ExecutionOptions
) -> tuple[Priced, ModelShape]:
    """Return a machine with the times that options ask for, and the model with its cache."""
    runtime = how.runtime
    if runtime is None and (machine.having("ndp") or not (machine.gpus and machine.nodes)):
        runtime = AS_FILE  # a runtime's times are of a GPU beside a CPU, and of nothing else
    if how.kv_bits is not None:
        model = model.with_kv_bits(kv_bits_of(how.kv_bits))
    return priced(machine, model, runtime, _depth(how)), model


def _depth(how: ExecutionOptions) -> int:
    return DEPTH if how.depth is None else how.depth


def simulated(
    plan: Plan, costs: StepCosts, loads: Loads, quantum_ns: int, *, timeline: bool = False
) -> Simulation:
    """Return what a plan takes on loads, with the costs of a model's parts; see `simulate`."""
    machine, model = costs.machine, costs.model
    most = max(int(loads.counts.max()), 1)
    table = cost_table(costs, most, widths_of(plan), quantum_ns)
    shared = 0
    if plan.times.shared_ns is None:
        seconds = costs.shared_s(max(int(loads.tokens.max()), 1))
        shared = int(to_quanta(seconds * NS_PER_S, quantum_ns))
    found = simulate_loads(
        plan,
        table,
        loads,
        machine.dimm_count,
        layer_times(plan, loads.counts.shape[1], shared),
        timeline=timeline,
    )
    return replace(
        found, machine=machine.name, model=model.name, model_layers=len(model.moe_layers)
    )


def _loads(
    loads: Trace | Loads | Counts | ArrayLike,
    model: ModelShape,
    how: ExecutionOptions,
    batching: Batching,
) -> Loads:
    if isinstance(loads, Trace):
        return loads_of_trace(loads, model, how.batch, how.steps, how.layers, batching)
    if isinstance(loads, Counts):
        loads = loads.counts
    given = loads if isinstance(loads, Loads) else loads_of_counts(loads, model)
    return given.first(how.steps, how.layers)


def _with_times(plan: Plan, **given: int | Sequence[int] | None) -> Plan:
    named = {name: value for name, value in given.items() if value is not None}
    if not named:
        return plan
    with validated(model=Times):
        times = Times.model_validate(plan.times.model_dump() | named)
    return plan.model_copy(update={"times": times})


def plan_of_widths(
    instance: Instance,
    solution: Solution,
    machine: Machine,
    model: ModelShape,
    layers: int | None = None,
) -> Plan:
    """Return the plan that runs each expert at its width where it lies (CXL-NDP, Algorithm 1).

    Experts that get a width are off the GPU. On a machine with NDP units they run there, each
    localized on one DIMM, the experts of a layer in turn; else they run on the CPU and are striped.
    All others of the model are the GPU's, at the model's own width. Fewer bits are fewer bytes to
    read; whether they compute faster is the machine's to say (``ndp.gflops_bits``).

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.
    machine, model
        The experts' numbers are the model's.
    layers
        The first so many alone; by default all that the instance has.

    Raises
    ------
    InputError
        If the instance has an expert or layer that the model has not, or has too few layers.
    """
    there = len(model.moe_layers)
    if len(instance.layers) > there:
        raise InputError(f"{len(instance.layers)} where {model.name} has {there}", field="layers")
    if layers is not None and not 1 <= layers <= len(instance.layers):
        raise InputError(
            f"{instance.name} has {len(instance.layers)}, not {layers}", field="layers"
        )
    resident, layout, bits, assigned = [], [], [], []
    for number, layer in enumerate(instance.layers[:layers]):
        width = {
            expert.expert: float(of or 0)
            for expert, of in zip(layer.experts, solution.bits[number], strict=True)
        }
        if max(width) >= model.routed_experts:
            where = f"layers[{number}]: expert {max(width)}"
            raise InputError(f"{where} is not one of {model.name}'s {model.routed_experts}")
        every = range(model.routed_experts)
        away = [expert for expert in every if expert in width]
        place = {expert: turn % machine.dimm_count for turn, expert in enumerate(away)}
        resident.append(tuple(expert for expert in every if expert not in width))
        bits.append(tuple(width.get(expert, model.bits) for expert in every))
        if machine.ndp_units:
            layout.append(tuple(place.get(expert) for expert in every))
            assigned.append(Assignment(layer=number, ndp=tuple(away)))
    return Plan(
        name="bitwidth",
        resident=tuple(resident),
        layout=tuple(layout) or None,
        assignments=tuple(assigned),
        bits=tuple(bits),
    )
