"""Optimal placements and schedules for Mixture-of-Experts inference, with proof.

>>> import moeopt
>>> from moeopt import tri_domain
>>> instance = tri_domain.Instance.from_arrays(
...     gpu_ns=[30, 40, 20], cpu_ns=[50, 20, 60], ndp_ns=[-1, 30, 25], dimm=[-1, 0, 1], dimms=2
... )
>>> result = moeopt.solve(instance, time_limit_s=600)
>>> result.status, result.objective, result.solution.assignment
('optimal', 50, ('gpu', 'cpu', 'gpu'))

Problems, each with ``Instance`` (and ``Instance.from_arrays``), ``Solution``, ``CONSTRAINTS`` and
``PROBLEM``:

tri_domain  where each expert of a layer runs: GPU, CPU or DIMM-NDP (TriMoE 4.2)
relayout    which experts migrate before a layer (TriMoE 4.3)
layout      where the experts lie, for several windows of a trace (TriMoE 4.3)
deferral    how many experts each layer defers (KTransformers 4.2)
balance     what the GPU takes from the NDP units (edge GPU-NDP, Eq. 1-3)
cache       how many experts of each layer the GPU caches (CPU-GPU collaborative, III-B)
bitwidth    how many bits each expert gets (context-aware CXL-NDP 4.2)
placement   which experts live on the GPU (KTransformers and others)
joint       residents, widths, caches, deferral and KV cache together (KTransformers 4.1, 4.2)
replication copies of experts over devices of expert parallelism (EPLB)
split       where layers lie on several GPUs and memory nodes (llama.cpp's --fit)
threads     which CPU thread runs which part of an expert (KTransformers 3.2)

Functions:

load, save, load_solution          instances and solutions in files
solve, methods, check, explain     exact methods and heuristics; the independent checker
event_graph                        what a solution runs when, what waits for what; its slack
heuristic                          a decorator that makes a rule of yours one of the methods
gap                                how far heuristics are from the optimum, over many instances
load_trace, load_counts, save_trace, generate    instances from routing traces
generate_twins, run_on, holdout    observed and later loads; what decisions cost on the later ones
find_repeats, dedupe_trace         text that a trace reads twice, found and removed
compare                            the published systems side by side, beside their optimum
plan, plan_expert_parallel, load_plan, simulate, export  plans, executed and handed over
predict, calibrate, read_measurements    what a token takes in a real runtime, with an interval
get_machine, detect_machine, set_machine    machines: others' and your own

Errors are `InputError` (what you gave cannot be used), `HeuristicError` (a heuristic raised),
`InfeasibleError` and `LimitError` (no plan exists, or none was found), `StoreError` (a campaign's
store cannot be used), `ContradictionError` (a bug) and their base `MoeoptError`; a `MoeoptWarning`
is of input that may mislead. Every name is imported when first used: ``import moeopt`` costs
nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moeopt.core.errors import ContradictionError as ContradictionError
    from moeopt.core.errors import HeuristicError as HeuristicError
    from moeopt.core.errors import InfeasibleError as InfeasibleError
    from moeopt.core.errors import InputError as InputError
    from moeopt.core.errors import LimitError as LimitError
    from moeopt.core.errors import MoeoptError as MoeoptError
    from moeopt.core.errors import MoeoptWarning as MoeoptWarning
    from moeopt.core.errors import StoreError as StoreError
    from moeopt.core.json_files import save as save
    from moeopt.exporters.run import export as export
    from moeopt.planner.any_machine import plan as plan
    from moeopt.planner.any_machine import predict as predict
    from moeopt.planner.expert_parallel import plan_expert_parallel as plan_expert_parallel
    from moeopt.planner.simulate import simulate as simulate
    from moeopt.problems import balance as balance
    from moeopt.problems import bitwidth as bitwidth
    from moeopt.problems import cache as cache
    from moeopt.problems import deferral as deferral
    from moeopt.problems import joint as joint
    from moeopt.problems import layout as layout
    from moeopt.problems import placement as placement
    from moeopt.problems import relayout as relayout
    from moeopt.problems import replication as replication
    from moeopt.problems import split as split
    from moeopt.problems import threads as threads
    from moeopt.problems import tri_domain as tri_domain
    from moeopt.problems.execute import event_graph as event_graph
    from moeopt.problems.files import load as load
    from moeopt.problems.files import load_solution as load_solution
    from moeopt.problems.generate import generate as generate
    from moeopt.problems.generate import generate_twins as generate_twins
    from moeopt.problems.holdout import run_on as run_on
    from moeopt.sim.machines.detect import detect_machine as detect_machine
    from moeopt.sim.machines.edit import set_machine as set_machine
    from moeopt.sim.machines.runtimes.calibration import calibrate as calibrate
    from moeopt.sim.machines.runtimes.measurements import read_measurements as read_measurements
    from moeopt.sim.plan import Plan as Plan
    from moeopt.sim.plan import load_plan as load_plan
    from moeopt.sim.presets import get_machine as get_machine
    from moeopt.sim.traces.files import load_counts as load_counts
    from moeopt.sim.traces.files import load_trace as load_trace
    from moeopt.sim.traces.readers.topk_npz import save_trace as save_trace
    from moeopt.sim.traces.repeats import dedupe_trace as dedupe_trace
    from moeopt.sim.traces.repeats import find_repeats as find_repeats
    from moeopt.solvers.explain import explain as explain
    from moeopt.solvers.methods import methods as methods
    from moeopt.solvers.result import Result as Result
    from moeopt.solvers.result import check as check
    from moeopt.solvers.rules import heuristic as heuristic
    from moeopt.solvers.run import solve as solve
    from moeopt.study.holdout import holdout as holdout
    from moeopt.study.study import gap as gap
    from moeopt.systems.compare import compare as compare

_PUBLIC = {
    "moeopt.problems.files": ("load", "load_solution"),
    "moeopt.sim.traces.files": ("load_trace", "load_counts"),
    "moeopt.sim.traces.readers.topk_npz": ("save_trace",),
    "moeopt.sim.traces.repeats": ("find_repeats", "dedupe_trace"),
    "moeopt.core.json_files": ("save",),
    "moeopt.solvers.run": ("solve",),
    "moeopt.solvers.result": ("Result", "check"),
    "moeopt.solvers.explain": ("explain",),
    "moeopt.solvers.methods": ("methods",),
    "moeopt.solvers.rules": ("heuristic",),
    "moeopt.study.study": ("gap",),
    "moeopt.problems.generate": ("generate", "generate_twins"),
    "moeopt.study.holdout": ("holdout",),
    "moeopt.problems.holdout": ("run_on",),
    "moeopt.problems.execute": ("event_graph",),
    "moeopt.systems.compare": ("compare",),
    "moeopt.planner.simulate": ("simulate",),
    "moeopt.exporters.run": ("export",),
    "moeopt.planner.any_machine": ("plan", "predict"),
    "moeopt.planner.expert_parallel": ("plan_expert_parallel",),
    "moeopt.sim.presets": ("get_machine",),
    "moeopt.sim.machines.detect": ("detect_machine",),
    "moeopt.sim.machines.edit": ("set_machine",),
    "moeopt.sim.machines.runtimes.calibration": ("calibrate",),
    "moeopt.sim.machines.runtimes.measurements": ("read_measurements",),
    "moeopt.sim.plan": ("Plan", "load_plan"),
    "moeopt.core.errors": (
        "MoeoptError",
        "InputError",
        "HeuristicError",
        "InfeasibleError",
        "LimitError",
        "ContradictionError",
        "StoreError",
        "MoeoptWarning",
    ),
}
"""Module -> its public names; problems are listed in `moeopt.problems.registry`."""

_HOME = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name == "__version__":
        from importlib.metadata import version

        value = version("moeopt")
    elif name in _problems():
        value = import_module(f"moeopt.problems.{name}")
    else:
        raise AttributeError(f"module 'moeopt' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    dunder = {name for name in globals() if name.startswith("__")}
    return sorted({*dunder, *_HOME, *_problems(), "__version__"})


def _problems() -> list[str]:
    """Return the names of all problems."""
    from moeopt.problems.registry import PROBLEMS

    return list(PROBLEMS)
