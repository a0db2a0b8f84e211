"""A finished plan, by whichever strategy: the candidates, the best one first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Literal, NamedTuple

from moeopt.sim.machines.runtimes.speeds import Speed, speeds_as_dict

from .goal import Goal

if TYPE_CHECKING:
    from moeopt.core.envelope import InstanceEnvelope
    from moeopt.problems.split.instance import Solution as Split
    from moeopt.sim.machines.runtimes.setting import Setting
    from moeopt.sim.plan import Plan
    from moeopt.solvers.evidence import Proof
    from moeopt.solvers.result import Result

    from .planned import Planned

Strategy = Literal["experts", "layers", "devices", "expert-parallel"]
"""How a plan is made: of single experts, of whole layers, over several devices, over ranks."""


@dataclass(frozen=True)
class ExpertMap:
    """Experts in the slots of expert parallelism.

    Attributes
    ----------
    physical_to_logical
        The expert of each slot, for each layer with experts; slots are numbered over the ranks,
        each of which has equally many.
    ranks
        Over which the slots are spread.
    experts
        Of each layer.
    """

    physical_to_logical: tuple[tuple[int, ...], ...]
    ranks: int
    experts: int

    @property
    def redundant(self) -> int:
        """Slots of a layer beyond one for each expert."""
        return len(self.physical_to_logical[0]) - self.experts


class Bracket(NamedTuple):
    """Objective and bound of a decision in its own problem, and what the bound rests on."""

    objective: int
    bound: int | None
    unit: str
    proof: "Proof | None"

    @classmethod
    def of(cls, result: "Result", unit: str) -> "Bracket | None":
        """Return those of a result; None where it has no objective."""
        objective, bound = result.objective, result.bound
        if not isinstance(objective, int):
            return None
        return cls(objective, bound if isinstance(bound, int) else None, unit, result.proof)

    @property
    def gap(self) -> float | None:
        """How far the objective is from the optimum at most, as a share of itself."""
        if self.bound is None:
            return None
        return (self.objective - self.bound) / self.objective if self.objective else 0.0

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values: objectives and bounds are lists in every command."""
        bound = None if self.bound is None else [self.bound]
        known = {"objective": [self.objective], "bound": bound, "unit": self.unit}
        return known | {"proof": self.proof, "gap": self.gap}


@dataclass(frozen=True)
class Row:
    """One candidate.

    Attributes
    ----------
    name
        What tells it from the others.
    setting
        How the runtime is started; None where no runtime is.
    decision
        What lies where.
    score
        By the goal, the smaller the better: seconds of a request, or tokens on the fullest rank.
    speeds
        At several depths, the one asked for first; none without a machine.
    memory_mib
        What each memory goes to: device -> part -> MiB.
    fits
        Whether it fits into all memories.
    note
        What must be known of it.
    """

    name: str
    setting: "Setting | None"
    decision: "Plan | Split | ExpertMap"
    score: float
    speeds: tuple[Speed, ...] = ()
    memory_mib: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    fits: bool = True
    note: str = ""


@dataclass(frozen=True)
class PlanReport:
    """A plan, and what stands behind it.

    Attributes
    ----------
    strategy, goal
        How it was made, and for what.
    rows
        Candidates, the best by the goal first: that is the plan.
    proof
        Of the first row, in the strategy's own problem; None where nothing was searched for.
    defaults
        What runtimes do by themselves.
    worth
        What is changed -> by how much longer a request then takes, as a share of the plan's time;
        None if nothing fits. ``without gpu1``, or of what is not there yet.
    notes
        What must be known.
    command
        What runs it.
    instance
        Of the strategy's problem.
    more
        What else the strategy tells, for JSON.
    lines
        The page for people.
    experts
        All that the strategy ``experts`` decided and executed; None of others.
    """

    strategy: Strategy
    goal: Goal
    rows: tuple[Row, ...]
    proof: Bracket | None = None
    defaults: tuple[Row, ...] = ()
    worth: Mapping[str, float | None] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    command: str | None = None
    instance: "InstanceEnvelope | None" = None
    more: Mapping[str, object] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    experts: "Planned | None" = None

    @property
    def best(self) -> Row:
        """The plan."""
        return self.rows[0]

    @property
    def tokens_per_s(self) -> float | None:
        """Decoded tokens per second at the depth asked for; None without a machine."""
        return self.best.speeds[0].decode if self.best.speeds else None

    def __str__(self) -> str:
        """Return the page."""
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        """Return it in a line."""
        return f"<plan by {self.strategy}: {self.best.name}, {len(self.rows)} candidates>"

    def to_dict(self) -> dict[str, object]:
        """Return everything as JSON values."""
        best = self.best
        found: dict[str, object] = {"strategy": self.strategy, "speeds": []}
        if best.setting is not None:
            found |= speeds_as_dict(best.setting.context, best.speeds)
        found["goal"] = vars(self.goal)
        found["memory_mib"] = {
            at: ceil(round(sum(parts.values()), 3)) for at, parts in best.memory_mib.items()
        }
        found["rows"] = [_row(row) for row in self.rows]
        found["defaults"] = [_row(row) for row in self.defaults]
        found["proof"] = None if self.proof is None else self.proof.to_dict()
        found["worth"] = dict(self.worth)
        found["notes"] = list(self.notes)
        found["command"] = self.command
        return found | dict(self.more)


def _row(row: Row) -> dict[str, object]:
    """Return a candidate as JSON values."""
    setting = row.setting
    started = {}
    if setting is not None:
        started = {"kv_bits": setting.shape.kv_widths[0], "ubatch": setting.ubatch}
    return {
        "name": row.name,
        "score": row.score,
        **started,
        "speeds": [speed.to_dict() for speed in row.speeds],
        "memory_mib": {
            at: {part: round(mib, 3) for part, mib in parts.items()}
            for at, parts in row.memory_mib.items()
        },
        "fits": row.fits,
        "note": row.note,
    }
