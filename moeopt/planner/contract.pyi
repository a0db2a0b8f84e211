"""Types that `moeopt.planner` gets in version 2.0: one plan, whatever it decides."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from moeopt.core.envelope import InstanceEnvelope
from moeopt.sim.machines.runtimes.placement import Placement
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.machines.runtimes.speeds import Speed
from moeopt.sim.plan import Plan
from moeopt.solvers.evidence import Proof

Strategy = Literal["experts", "layers", "devices", "expert-parallel"]

@dataclass(frozen=True)
class Goal:
    """What a plan is for: tokens of prompt and reply, and the loss that is allowed."""

    prompt: int = 0
    reply: int = 1
    most_loss: float | None = None
    most_deferred: int = 0
    average_bits: float | None = None

@dataclass(frozen=True)
class Limits:
    """When a search ends: seconds, units of work, and threads."""

    time_limit_s: float | None = None
    work_limit: float | None = None
    workers: int | None = None

@dataclass(frozen=True)
class ExpertMap:
    """Physical experts of each layer, and the rank that each lies on."""

    physical_to_logical: tuple[tuple[int, ...], ...]
    ranks: int

class Bracket(NamedTuple):
    """Objective and bound of a decision in its own problem, and what the bound rests on."""

    objective: int
    bound: int | None
    unit: str
    proof: Proof | None

class HeldOut(NamedTuple):
    """Share of time that a decision saves on loads that it has not seen, with its interval."""

    saved: float
    low: float
    high: float

@dataclass(frozen=True)
class Row:
    """One candidate, scored by the goal."""

    strategy: str
    setting: Setting | None
    decision: Plan | Placement | ExpertMap
    score: float
    speeds: tuple[Speed, ...]
    memory_mib: Mapping[str, Mapping[str, float]]
    fits: bool
    note: str

@dataclass(frozen=True)
class PlanReport:
    """Candidates, the best by the goal first, and what stands behind the first one."""

    goal: Goal
    rows: tuple[Row, ...]
    proof: Bracket
    defaults: tuple[Row, ...]
    worth: Mapping[str, float]
    held_out: HeldOut | None
    notes: tuple[str, ...]
    command: str | None
    instance: InstanceEnvelope

def plan(
    setting: Setting,
    routing: Any = None,
    goal: Goal = ...,
    limits: Limits = ...,
    strategy: Strategy | None = None,
) -> PlanReport: ...
def plan_expert_parallel(
    counts: Any,
    ranks: int,
    redundant: int,
    nodes: int = 1,
    groups: int | None = None,
    limits: Limits = ...,
) -> PlanReport: ...
