"""``moeopt simulate``: execute a plan on a trace, or a problem's solution, through the engine."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, cast

from moeopt.cli.options import DONE, MISMATCH, Json, command, print_json, shown
from moeopt.core.errors import InputError, about
from moeopt.core.options import option
from moeopt.planner.options import ExecutionOptions

if TYPE_CHECKING:
    from moeopt.problems.split.instance import Solution
    from moeopt.sim.machines.machine import Machine
    from moeopt.sim.models.model_shape import ModelShape
    from moeopt.sim.plan import Plan
    from moeopt.sim.traces.trace import Batching
    from moeopt.systems.loads import Loads

DEFAULT_STEPS = 8
BATCHINGS = "streams", "window", "sequences"


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(ExecutionOptions):
    """Options of ``moeopt simulate``."""

    machine: str | None = option(None, "Preset, GPU+HOST or file.")
    model: str | None = option(None, "Preset, config.json, GGUF or JSON file.")
    bits: str | None = option(None, "Bits of all weights, or Q4_K_M etc.")
    trace: Path | None = option(None, "Routing trace.")
    workload: str | None = option(None, "Preset or JSON file.")
    plan: Path | None = option(None, "Plan file.")
    policy: str | None = option(None, "Without a plan: how to choose.")
    batching: str = option(
        "streams",
        "How a trace's tokens make up steps: one of each request, or consecutive ones.",
        metavar="streams|window|sequences",
    )
    seed: int = option(0, "Seed of everything random.", metavar="N")
    instance: Path | None = option(None, "Instead: an instance...")
    solution: Path | None = option(None, "...and its solution.")
    chrome: Path | None = option(None, "Save a trace for Perfetto.")

    def __post_init__(self) -> None:
        """Raise InputError unless it is known what is to be executed on which loads."""
        super().__post_init__()
        executed = self.instance is not None or self.solution is not None
        if executed:
            for name in ("plan", "policy"):
                if getattr(self, name) is not None:
                    raise InputError(f"--{name}: not with --instance and --solution")
            if self.instance is None or self.solution is None:
                raise InputError("--instance, --solution: must be given together")
        given = (self.machine, self.model, self.trace, self.workload)
        if executed and all(value is None for value in given):
            alone = ("instance", "solution", "chrome", "seed")
            for name in self.given:
                if name not in alone:
                    flag = name.replace("_", "-")
                    raise InputError(f"--{flag}: not with --instance and --solution alone")
            return
        if self.machine is None or self.model is None:
            raise InputError("--machine, --model: are missing")
        if self.trace is not None and self.workload is not None:
            from moeopt.sim.source import one_of_two

            one_of_two(self.trace, self.workload, flags=True)
        if self.batching not in BATCHINGS:
            raise InputError(
                f"must be {' or '.join(BATCHINGS)}, not {self.batching}", field="--batching"
            )
        if self.trace is None and self.batching != BATCHINGS[0]:
            raise InputError(
                "goes with --trace: a workload is drawn step by step", field="--batching"
            )
        if self.plan is not None and self.policy is not None:
            raise InputError("--plan, --policy: at most one of the two may be given")


@command
def simulate_command(*, options: SimulateOptions, as_json: Json = False) -> int:
    """Execute decode steps under a plan, or a solution; exit 5 if engine and checker disagree.

    A solution of bitwidth becomes a plan where a machine, a model and loads are given, too.
    """
    instance, solution, chrome = options.instance, options.solution, options.chrome
    if options.machine is None or options.model is None:
        assert instance is not None  # noqa: S101
        assert solution is not None  # noqa: S101
        return _execute(instance, solution, chrome, as_json)
    from moeopt.planner.simulate import simulate, timed_as_asked
    from moeopt.sim.engine.timeline import save_chrome
    from moeopt.sim.models.quantisations import at_bits
    from moeopt.sim.plan import Plan
    from moeopt.sim.presets import get_machine, get_model
    from moeopt.sim.source import one_of_two
    from moeopt.systems.plan_run import summary

    machine, model = get_machine(options.machine), get_model(options.model)
    model = model if options.bits is None else at_bits(model, options.bits)
    plan, layers = _plan(options), options.layers
    whole = not isinstance(plan, Plan)
    if not whole:
        one_of_two(options.trace, options.workload, flags=True)
    elif options.trace is not None or options.workload is not None:
        said = f"not with {options.plan}, whole layers: all tokens are alike"
        raise InputError(f"--trace, --workload: {said}")
    if instance is not None and solution is not None:
        plan = _widths(instance, solution, machine, model, layers)
        layers = len(plan.bits or ())
    loads = None if whole else _loads(model, options, layers)
    of_loads = () if whole else ("steps", "layers", "batch")  # which they have already
    asked = ExecutionOptions(
        **{
            one.name: getattr(options, one.name)
            for one in fields(ExecutionOptions)
            if one.name not in of_loads
        }
    )
    found = simulate(
        plan,
        machine,
        model,
        loads,
        timeline=chrome is not None,
        options=asked,
    )
    if chrome is not None and found.timeline is not None:
        save_chrome(found.timeline, chrome, f"{found.model} on {found.machine}: {found.plan}")
    expect = timed_as_asked(machine, model, asked)[0].expect
    if as_json:
        print_json(found.to_dict() | {"expect": expect})
    else:
        print(f"{summary(found)}\n{expect}")
    return DONE


def _widths(
    instance: Path, solution: Path, machine: "Machine", model: "ModelShape", layers: int | None
) -> "Plan":
    """Return the plan of a solution of bitwidth, the one problem whose solutions lack a machine."""
    import moeopt
    from moeopt.planner.simulate import plan_of_widths
    from moeopt.problems.bitwidth.instance import Instance, Solution
    from moeopt.problems.execute import compare

    problem, decision = moeopt.load(instance), moeopt.load_solution(solution)
    if not isinstance(problem, Instance) or not isinstance(decision, Solution):
        raise InputError("with --instance and --solution for bitwidth only", field="--machine")
    with about(solution):
        compare(problem, decision)
        return plan_of_widths(problem, decision, machine, model, layers)


def _plan(options: SimulateOptions) -> "Plan | Solution":
    from moeopt.planner.placed import load_decision
    from moeopt.sim.plan import Plan
    from moeopt.systems.planned import get_policy

    if options.plan is not None:
        return load_decision(options.plan)
    if options.policy is None:
        return Plan()
    get_policy(options.policy)  # a name from a user's keyboard: an error before all else
    return Plan(name=options.policy, policy=options.policy)


def _loads(model: "ModelShape", options: SimulateOptions, layers: int | None) -> "Loads":
    import moeopt
    from moeopt.sim.presets import find
    from moeopt.sim.traces.workload import Workload
    from moeopt.systems.loads import loads_of_trace, loads_of_workload

    batch, steps = options.batch, options.steps
    if options.trace is not None:
        trace = moeopt.load_trace(options.trace)
        batching = cast("Batching", options.batching)
        return loads_of_trace(trace, model, batch, steps, layers, batching)
    law = find("workloads", Workload, options.workload or "")
    steps = DEFAULT_STEPS if steps is None else steps
    return loads_of_workload(law, model, batch, steps, layers, options.seed)


def _execute(instance: Path, solution: Path, chrome: Path | None, as_json: bool) -> int:
    import moeopt
    from moeopt.problems.execute import compare
    from moeopt.sim.engine.timeline import save_chrome
    from moeopt.systems.plan_run import path_by_kind, usage_table

    problem, decision = moeopt.load(instance), moeopt.load_solution(solution)
    with about(solution):
        compared = compare(problem, decision)
    if chrome is not None:
        save_chrome(compared.timeline, chrome, problem.name)
    if as_json:
        report = {"problem": problem.problem, "instance": problem.name, "agree": compared.agree}
        print_json(report | {"measured": compared.measured, "judged": compared.judged})
    else:
        word = "equals" if compared.agree else "DIFFERS from"
        measured, judged = (
            shown(problem.problem, value) for value in (compared.measured, compared.judged)
        )
        print(f"{problem.name}: executed in {measured}, which {word} the checker's {judged}")
        print(f"\n{usage_table(compared.timeline.usage())}\n\ncritical path")
        for name, length in path_by_kind(compared.timeline).items():
            print(f"  {name:20} {length:,} ns")
    return DONE if compared.agree else MISMATCH
