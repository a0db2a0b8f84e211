"""Optimal placements and schedules for Mixture-of-Experts inference, with proof.

>>> import moeopt
>>> instance = moeopt.load("instances/tri_domain/esft-window/window-law-layer4-batch256.json")
>>> result = moeopt.solve(instance, method="cp-sat", time_limit_s=10)
>>> result.status
'optimal'

The names below are imported when first used, so that ``import moeopt`` costs nothing.
"""

from importlib import import_module
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moeopt.errors import InputError as InputError
    from moeopt.errors import ModelMismatchError as ModelMismatchError
    from moeopt.errors import MoeoptError as MoeoptError
    from moeopt.exporters.run import export as export
    from moeopt.interop.topk_npz import save_trace as save_trace
    from moeopt.interop.traces import load_counts as load_counts
    from moeopt.interop.traces import load_trace as load_trace
    from moeopt.planner.planned import plan as plan
    from moeopt.problems.files import load as load
    from moeopt.problems.files import load_solution as load_solution
    from moeopt.problems.json_files import save as save
    from moeopt.sim.engine.simulate import simulate as simulate
    from moeopt.sim.generate import generate as generate
    from moeopt.sim.plan.schema import Plan as Plan
    from moeopt.sim.plan.schema import load_plan as load_plan
    from moeopt.solvers.explain import explain as explain
    from moeopt.solvers.methods import methods as methods
    from moeopt.solvers.result import Result as Result
    from moeopt.solvers.rules import heuristic as heuristic
    from moeopt.solvers.run import solve as solve
    from moeopt.solvers.verdict import check as check
    from moeopt.study.study import gap as gap

_HOME = {
    "load": "moeopt.problems.files",
    "load_solution": "moeopt.problems.files",
    "load_trace": "moeopt.interop.traces",
    "load_counts": "moeopt.interop.traces",
    "save_trace": "moeopt.interop.topk_npz",
    "save": "moeopt.problems.json_files",
    "solve": "moeopt.solvers.run",
    "Result": "moeopt.solvers.result",
    "check": "moeopt.solvers.verdict",
    "explain": "moeopt.solvers.explain",
    "methods": "moeopt.solvers.methods",
    "heuristic": "moeopt.solvers.rules",
    "gap": "moeopt.study.study",
    "generate": "moeopt.sim.generate",
    "simulate": "moeopt.sim.engine.simulate",
    "export": "moeopt.exporters.run",
    "plan": "moeopt.planner.planned",
    "Plan": "moeopt.sim.plan.schema",
    "load_plan": "moeopt.sim.plan.schema",
    "MoeoptError": "moeopt.errors",
    "InputError": "moeopt.errors",
    "ModelMismatchError": "moeopt.errors",
}
"""Public name -> the module it lives in."""

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name == "__version__":
        value = _version("moeopt")
    else:
        raise AttributeError(f"module 'moeopt' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, "__version__"])
