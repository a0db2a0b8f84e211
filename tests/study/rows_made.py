"""Rows of a study that never ran, and small loads: what is computed from them is known by hand."""

from dataclasses import replace
from typing import Any

from moeopt import Result
from tests.rooms.core import Objective, SolutionEnvelope
from tests.rooms.problems import get_problem
from tests.rooms.study import Key, Row


def made_row(
    method: str,
    instance: str,
    objective: Objective | None,
    optimum: Objective | None,
    *,
    problem: str = "tri_domain",
    family: str = "made",
    solve_s: float = 0.5,
    solution: SolutionEnvelope | None = None,
    proves: bool = False,
    **key: Any,
) -> Row:
    """Return a row; `instance` is its name and its content hash."""
    result = Result(
        problem=problem,
        instance=instance,
        method=method,
        engine=None,
        seed=0,
        workers=1,
        status="optimal" if proves else "unknown" if objective is None else "feasible",
        termination="completed",
        objective=objective,
        bound=optimum if proves else None,
        solution=solution,
        violations=[],
        build_s=0.0,
        solve_s=solve_s,
        trace=[],
        raw_status="",
        versions={"moeopt": "0"},
    )
    asked = Key(instance, method, 0, 60.0, 1, "{}", "0")._replace(**key)
    return Row(family, asked, result, optimum, optimum, {}, {"cores": 2})


def renamed(row: Row, method: str) -> Row:
    """Return a row as if another method had made it."""
    result = replace(row.result, method=method)
    return replace(row, key=row.key._replace(method=method), result=result)


BASE: dict[str, Any] = {
    **{"problem": "placement", "layers": 1, "experts": 3, "gpu_slots": 1},
    **{"gpu_expert_ns": [0, 1], "offload_expert_ns": [0, 10], "layer_offload_fixed_ns": 0},
}


def placement(name: str, experts: list[int], first_step: Any, **provenance: Any) -> Any:
    """Return an instance of one layer whose steps use one expert each."""
    options = {"first_step": first_step, "steps": len(experts), "batch": 1}
    steps = [[[[expert, 1]]] for expert in experts]
    said = {"provenance": {"options": options, "machine": "m", **provenance}}
    model = get_problem("placement").Instance()
    return model.model_validate(BASE | {"name": name, "steps": steps} | said)
