"""Solves that never ran, and small loads: what is computed from them is known by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.rooms.core import InstanceEnvelope, Objective, SolutionEnvelope
from tests.rooms.problems import get_problem
from tests.rooms.study import Entry, FrameBracket, SolveRecord, Store, frame_of, packed_solution


@dataclass(frozen=True)
class Made:
    """A solve of a family, its instance's tags, and the optimum that is known."""

    family: str
    record: SolveRecord
    optimum: Objective | None
    tags: Mapping[str, str] = field(default_factory=dict)


def made_row(
    method: str,
    instance: str,
    objective: Objective | None,
    optimum: Objective | None,
    *,
    problem: str = "tri_domain",
    family: str = "made",
    solution: SolutionEnvelope | None = None,
    proves: bool = False,
    tags: Mapping[str, str] | None = None,
    **more: Any,
) -> Made:
    """Return a solve; `instance` is its name and its content hash, `more` fields of its record."""
    asked: dict[str, Any] = {
        "instance_hash": instance,
        "method": method,
        "time_limit_s": 60.0,
        "version": "0",
    }
    found = {"solve_s": 0.5, "versions": {"moeopt": "0"}, "machine": {"cores": 2}}
    named = asked | {name: more[name] for name in ("seed", "time_limit_s") if name in more}
    record = SolveRecord(
        key=f"{problem} {sorted(named.items())}",
        problem=problem,
        instance=instance,
        status="optimal" if proves else "unknown" if objective is None else "feasible",
        objective=objective,
        bound=optimum if proves else None,
        solution=packed_solution(solution),
        **asked,
    )
    return Made(family, replace(record, **(found | more)), optimum, tags or {})


def made(rows: Sequence[Made]) -> Any:
    """Return solves as a campaign's frame."""
    brackets = {row.record.instance_hash: FrameBracket(row.optimum, row.optimum) for row in rows}
    return frame_of([(row.family, row.tags, row.record) for row in rows], brackets)


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


def stored(instances: Mapping[str, InstanceEnvelope]) -> Store:
    """Return a store in memory that has instances under these names instead of their hashes."""
    store = Store()
    store.enroll(Entry("made", name, instance, []) for name, instance in instances.items())
    return store
