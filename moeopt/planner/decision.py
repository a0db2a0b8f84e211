"""One decision of a plan: the instance, what a method made of it, and what that says."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InfeasibleError, LimitError
from moeopt.problems.generate import Option, generate_from
from moeopt.problems.registry import get_problem
from moeopt.sim.costs.quanta import DEFAULT_QUANTUM_NS
from moeopt.sim.source import Source
from moeopt.sim.traces.trace import Trace
from moeopt.solvers.result import Result
from moeopt.solvers.run import solve

from .request import Request

S = TypeVar("S", bound=SolutionEnvelope)
K = TypeVar("K", bound=InstanceEnvelope)


@dataclass(frozen=True)
class Decision:
    """A solved instance of one of the problems.

    Attributes
    ----------
    name
        What is decided: "residency", "bits", "ways" or "deferral".
    """

    name: str
    instance: InstanceEnvelope
    result: Result
    says: str

    @property
    def solution(self) -> SolutionEnvelope:
        """The solution, which is there: `decided` saw to it."""
        if self.result.solution is None:
            raise RuntimeError(f"{self.instance.name}: a decision without a solution")
        return self.result.solution

    def solved_as(self, kind: type[S]) -> S:
        """Return the solution as what its problem's solutions are."""
        if not isinstance(self.solution, kind):
            raise TypeError(f"{self.instance.name}: the solution is no {kind.__module__}")
        return self.solution

    def of(self, kind: type[K]) -> K:
        """Return the instance as what its problem's instances are."""
        if not isinstance(self.instance, kind):
            raise TypeError(f"{self.instance.name}: is no {kind.__module__}")
        return self.instance

    def proof(self) -> str:
        """Return what is proven about it: of its own problem, with the other decisions fixed."""
        solved = f"problem {self.result.problem}, method {self.result.method}"
        if self.result.status == "optimal":
            known = "optimal, proven"
        elif self.result.proof == "single" and self.result.gap is not None:
            known = f"within {self.result.gap:.2%} of the optimum by one engine's word"
        elif self.result.gap is None:
            known = "not proven to be optimal, no bound"
        else:
            known = f"within {self.result.gap:.2%} of the optimum, proven"
        return f"{known}: for this decision alone ({solved})"

    def to_dict(self) -> dict[str, object]:
        """Return what JSON reports say of it."""
        known = self.result
        return {
            "decision": self.name,
            "problem": self.instance.problem,
            "instance": self.instance.name,
            "says": self.says,
            "proof": self.proof(),
            "method": known.method,
            "status": known.status,
            "objective": known.objective,
            "bound": known.bound,
            "gap": known.gap,
        }


QUICK = {
    "placement": "frequency",
    "cache": "greedy-marginal",
    "deferral": "uniform-d",
    "bitwidth": "greedy-marginal",
}
"""Problem -> the rule that decides where the exact method finds nothing in time."""


def made(
    kind: type[K],
    request: Request,
    part: Trace,
    *,
    quantum_ns: int | None = None,
    **options: Option,
) -> K:
    """Return an instance of a problem from a part of the trace, with its generator's options."""
    problem = kind.model_fields["problem"].default
    own = get_problem(problem).quantum_ns() or DEFAULT_QUANTUM_NS
    source = Source(
        request.machine,
        request.model,
        trace=part,
        seed=request.seed,
        quantum_ns=own if quantum_ns is None else quantum_ns,
        overheads=request.overheads,
    )
    found = generate_from(problem, source, options)
    if not isinstance(found, kind):
        raise TypeError(f"{found!r} is no instance of {problem}")
    return found


def solved(
    instance: InstanceEnvelope, method: str, request: Request, share: float, enough_gap: float
) -> Result:
    """Solve an instance within a share of the request's limits."""
    asked = request.limits.part(share).asked
    seed, workers = request.seed, request.workers
    return solve(instance, method, **asked, enough_gap=enough_gap, seed=seed, workers=workers)


def decided(
    name: str,
    instance: InstanceEnvelope,
    kind: type[S],
    method: str,
    request: Request,
    share: float,
    says: Callable[[S], str],
    enough_gap: float = 0.0,
) -> Decision:
    """Solve an instance within a share of the request's limits, else by the problem's quick rule.

    Raises
    ------
    InfeasibleError
        If nothing is feasible.
    LimitError
        If nothing was found.
    """
    found = solved(instance, method, request, share, enough_gap)
    if found.solution is None and found.status != "infeasible":
        found = solve(instance, QUICK[instance.problem], seed=request.seed)
    if found.solution is None:
        said = f"{instance.name}: {found.status}: no solution"
        raise InfeasibleError(said) if found.status == "infeasible" else LimitError(said)
    made = Decision(name, instance, found, "")
    return replace(made, says=says(made.solved_as(kind)))
