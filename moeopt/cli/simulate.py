"""``moeopt simulate``: execute a plan on a trace, or a problem's solution, through the engine."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.options import Json, Seed, human, nanoseconds, shown
from moeopt.core.errors import InputError

if TYPE_CHECKING:
    from moeopt.planner.decode.loads import Loads
    from moeopt.sim.models.model_shape import ModelShape
    from moeopt.sim.plan.schema import Plan

DONE, MISMATCH = 0, 5
DEFAULT_STEPS = 8

Preset = Annotated[str | None, typer.Option(help="Preset or JSON file.", show_default=False)]
Model = Annotated[
    str | None, typer.Option(help="Preset, config.json, GGUF or JSON file.", show_default=False)
]
Number = Annotated[int | None, typer.Option(show_default=False)]


def simulate_command(
    machine: Preset = None,
    model: Model = None,
    bits: Annotated[str | None, typer.Option(help="Bits of all weights, or Q4_K_M etc.")] = None,
    trace: Annotated[Path | None, typer.Option(help="Routing trace.")] = None,
    workload: Preset = None,
    plan: Annotated[Path | None, typer.Option(help="Plan file.")] = None,
    policy: Annotated[str | None, typer.Option(help="Without a plan: how to choose.")] = None,
    batch: Annotated[int, typer.Option(help="Tokens in a step.")] = 1,
    steps: Annotated[int | None, typer.Option(help="Default: all of a trace, 8.")] = None,
    layers: Annotated[int | None, typer.Option(help="The first so many; default: all.")] = None,
    attention_ns: Annotated[int | None, typer.Option(help="In place of the plan's.")] = None,
    other_ns: Annotated[int | None, typer.Option(help="In place of the plan's.")] = None,
    context: Annotated[
        int | None,
        typer.Option(
            parser=human("context", int),
            help="Attention etc. by the cost model, with so many tokens in the KV cache.",
        ),
    ] = None,
    runtime: Annotated[
        str | None, typer.Option(help="Times of a runtime: moeopt list runtimes.")
    ] = None,
    seed: Seed = 0,
    instance: Annotated[Path | None, typer.Option(help="Instead: an instance...")] = None,
    solution: Annotated[Path | None, typer.Option(help="...and its solution.")] = None,
    chrome: Annotated[Path | None, typer.Option(help="Save a trace for Perfetto.")] = None,
    as_json: Json = False,
) -> int:
    """Execute decode steps under a plan, or a solution; exit 5 if engine and checker disagree.

    A solution of bitwidth becomes a plan where a machine, a model and loads are given, too.
    """
    if instance is not None or solution is not None:
        for name, value in {"--plan": plan, "--policy": policy}.items():
            if value is not None:
                raise InputError(f"{name}: not with --instance and --solution")
        if instance is None or solution is None:
            raise InputError("--instance, --solution: must be given together")
        given = {"--machine": machine, "--model": model, "--trace": trace, "--workload": workload}
        named = [name for name, value in given.items() if value is not None]
        if not named:
            return _execute(instance, solution, chrome, as_json)
    if machine is None or model is None:
        raise InputError("--machine, --model: are missing")
    if (trace is None) == (workload is None):
        raise InputError("--trace, --workload: exactly one of the two must be given")
    if plan is not None and policy is not None:
        raise InputError("--plan, --policy: at most one of the two may be given")
    from moeopt.sim.models.quantisations import at_bits
    from moeopt.sim.presets import get_model

    shape = get_model(model) if bits is None else at_bits(get_model(model), bits)
    chosen = _plan(plan, policy)
    if instance is not None and solution is not None:
        chosen = _widths(instance, solution, machine, shape, layers)
        layers = len(chosen.bits or ())
    loads = _loads(shape, trace, workload, batch, steps, layers, seed)
    times = {"attention_ns": attention_ns, "other_ns": other_ns}
    if context is not None:
        chosen = _with_model_times(chosen, machine, shape, batch, context, runtime)
    return _simulate(machine, shape, loads, chosen, times, chrome, as_json, runtime)


def _simulate(
    machine: str,
    model: "ModelShape",
    loads: "Loads",
    plan: "Plan",
    times: dict[str, int | None],
    chrome: Path | None,
    as_json: bool,
    runtime: str | None,
) -> int:
    from moeopt.planner.decode.result import summary
    from moeopt.planner.simulate import simulate
    from moeopt.sim.engine.chrome import save_chrome
    from moeopt.sim.machines.runtimes.applied import AS_FILE, priced
    from moeopt.sim.presets import get_machine

    wanted: dict[str, Any] = {"timeline": chrome is not None, "runtime": runtime, **times}
    found = simulate(plan, get_machine(machine), model, loads, **wanted)
    if chrome is not None and found.timeline is not None:
        save_chrome(found.timeline, chrome, f"{found.model} on {found.machine}: {found.plan}")
    expect = priced(get_machine(machine), model, runtime or AS_FILE).expect
    print(json.dumps(found.to_dict() | {"expect": expect}) if as_json else summary(found))
    if not as_json:
        print(expect)
    return DONE


def _widths(
    instance: Path, solution: Path, machine: str, model: "ModelShape", layers: int | None
) -> "Plan":
    """Return the plan of a solution of bitwidth, the one problem whose solutions lack a machine."""
    import moeopt
    from moeopt.planner.simulate import plan_of_widths
    from moeopt.problems.bitwidth.instance import Instance, Solution
    from moeopt.problems.execute import compare
    from moeopt.sim.presets import get_machine

    problem, decision = moeopt.load(instance), moeopt.load_solution(solution)
    if not isinstance(problem, Instance) or not isinstance(decision, Solution):
        raise InputError("--machine: with --instance and --solution for bitwidth only")
    try:
        compare(problem, decision)
        return plan_of_widths(problem, decision, get_machine(machine), model, layers)
    except InputError as error:
        raise InputError(f"{solution}: {error}") from None


def _with_model_times(
    plan: "Plan",
    machine: str,
    model: "ModelShape",
    batch: int,
    context: int,
    runtime: str | None,
) -> "Plan":
    from moeopt.sim.machines.runtimes.applied import FINEST_NS, priced
    from moeopt.sim.plan.model_times import times_of_model
    from moeopt.sim.presets import get_machine

    known = get_machine(machine)
    if runtime is None:
        times = times_of_model(known, model, batch, context)
    else:
        run = priced(known, model, runtime).machine
        times = times_of_model(run, model, batch, context, FINEST_NS)
    return plan.model_copy(update={"times": times})


def _plan(plan: Path | None, policy: str | None) -> "Plan":
    from moeopt.planner.decode.policies import get_policy
    from moeopt.sim.plan.schema import Plan, load_plan

    if plan is not None:
        return load_plan(plan)
    if policy is None:
        return Plan()
    get_policy(policy)  # a name from a user's keyboard: an error, if need be, before all else
    return Plan(name=policy, policy=policy)


def _loads(
    model: "ModelShape",
    trace: Path | None,
    workload: str | None,
    batch: int,
    steps: int | None,
    layers: int | None,
    seed: int,
) -> "Loads":
    import moeopt
    from moeopt.planner.decode.loads import loads_of_trace, loads_of_workload
    from moeopt.sim.presets import find
    from moeopt.sim.traces.workload import Workload

    if trace is not None:
        return loads_of_trace(moeopt.load_trace(trace), model, batch, steps, layers)
    law = find("workloads", Workload, workload or "")
    count = DEFAULT_STEPS if steps is None else steps
    return loads_of_workload(law, model, batch, count, layers, seed)


def _execute(instance: Path, solution: Path, chrome: Path | None, as_json: bool) -> int:
    import moeopt
    from moeopt.planner.decode.result import path_by_kind, usage_table
    from moeopt.problems.execute import compare
    from moeopt.sim.engine.chrome import save_chrome

    problem, decision = moeopt.load(instance), moeopt.load_solution(solution)
    try:
        compared = compare(problem, decision)
    except InputError as error:
        raise InputError(f"{solution}: {error}") from None
    if chrome is not None:
        save_chrome(compared.timeline, chrome, problem.name)
    if as_json:
        report = {"problem": problem.problem, "instance": problem.name, "agree": compared.agree}
        print(json.dumps(report | {"measured": compared.measured, "judged": compared.judged}))
    else:
        word = "equals" if compared.agree else "DIFFERS from"
        measured, judged = (
            shown(problem.problem, value) for value in (compared.measured, compared.judged)
        )
        print(f"{problem.name}: executed in {measured}, which {word} the checker's {judged}")
        print(f"\n{usage_table(compared.timeline.usage())}\n\ncritical path")
        for name, length in path_by_kind(compared.timeline).items():
            print(f"  {name:20} {nanoseconds(length)}")
    return DONE if compared.agree else MISMATCH
