"""What later loads cost at least: the two references of a hold-out, each a proven bracket.

One is the optimum of each of the loads by itself, which no single decision need reach; the other is
the best single decision for all of them, which no rule that decides once can beat.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InputError
from moeopt.core.objective import first_key
from moeopt.core.problem import EXACT, HINDSIGHT
from moeopt.problems.holdout import executed_on
from moeopt.problems.registry import get_problem
from moeopt.solvers.arguments import Limits
from moeopt.solvers.rules import AUTO
from moeopt.study.attempt import attempt
from moeopt.study.plan import Job, content_hash
from moeopt.study.record import SolveRecord, unpacked_solution

Ask = Callable[[Job], SolveRecord]
"""Tells how a solve ends: makes it, or looks it up where it is kept."""


@dataclass(frozen=True)
class Bracket:
    """What is known of the least that loads can cost.

    Attributes
    ----------
    cost
        What a decision that was found costs; None if none was found.
    bound
        Nothing costs less, proven.
    """

    cost: int | None
    bound: int

    @property
    def proven(self) -> bool:
        """Whether the decision is proven to be the best."""
        return self.cost == self.bound

    @property
    def gap(self) -> float | None:
        """(cost - bound) / cost; None if there is no decision, or it costs nothing."""
        return (self.cost - self.bound) / self.cost if self.cost else None

    def __add__(self, other: "Bracket") -> "Bracket":
        found = self.cost is not None and other.cost is not None
        return Bracket(
            (self.cost or 0) + (other.cost or 0) if found else None, self.bound + other.bound
        )


def optimum_of(instance: InstanceEnvelope, limits: Limits) -> Bracket:
    """Return the bracket of an instance's optimum, by its problem's exact method."""
    return _solved(_job(instance, content_hash(instance), AUTO, limits), attempt)[0]


def hindsight_static(
    whole: InstanceEnvelope,
    windows: Sequence[InstanceEnvelope],
    own: Bracket,
    known: Iterable[int],
    limits: Limits,
    ask: Ask = attempt,
) -> Bracket:
    """Return the bracket of what one decision for all later windows costs at least.

    No rule that decides once can cost less, whatever it knew. It is the optimum of the instance
    made of all windows. The bracket is also narrowed by what is known without it: the windows' own
    optima, each with a decision of its own, cost no more, and what any decision was seen to cost is
    no less.

    Parameters
    ----------
    whole, windows
        Later loads that one decision is for, joined to one instance and one by one.
    own
        The sum of their own optima.
    known
        What some decisions cost in all of them.
    limits
        For the exact method; and for each heuristic that decides by the loads it is measured on,
        which are tried if that leaves the bracket open.
    ask
        Who makes these solves.
    """
    if len(windows) == 1:
        costs = [*known] if own.cost is None else [*known, own.cost]
        return Bracket(min(costs, default=None), own.bound)
    exact, *rules = hindsight_jobs(whole, limits)
    found, solution = _solved(exact, ask)
    bound = max(found.bound, own.bound)
    costs = [*known, *_costs(windows, solution)]
    for rule in rules:
        if min(costs, default=None) != bound:
            costs += _costs(windows, unpacked_solution(whole.problem, ask(rule).solution))
    return Bracket(min(costs, default=None), bound)


def hindsight_jobs(whole: InstanceEnvelope, limits: Limits) -> list[Job]:
    """Return the solves of joined windows: by the exact method, and by rules that know the loads.

    Whoever makes them first decides nothing: the same words ask for the same solves.
    """
    digest = content_hash(whole)
    rules = [r.name for r in get_problem(whole.problem).heuristics if r.in_words == HINDSIGHT]
    return [_job(whole, digest, method, limits) for method in (AUTO, *rules)]


def _job(instance: InstanceEnvelope, digest: str, method: str, limits: Limits) -> Job:
    return Job(instance, digest, method, 0, limits.time_limit_s, limits.work)


def share_between(cost: int, sample: int, best: Bracket) -> tuple[float, float] | None:
    """Return which share of the possible gain over a sample rule was reached, at least and at most.

    Negative if it is worse than the rule; between the two ends of the bracket of what is possible.

    Parameters
    ----------
    cost, sample
        What a decision costs on later loads, and the sample rule's.
    best
        The best single decision in hindsight.

    Returns
    -------
    tuple
        Both ends; None if nothing is known to be gained over the sample rule.
    """
    if best.cost is None or best.cost >= sample:
        return None
    low, high = sorted((sample - cost) / (sample - end) for end in (best.bound, best.cost))
    return low, high


def _costs(windows: Sequence[InstanceEnvelope], decision: SolutionEnvelope | None) -> list[int]:
    """Return what a decision on joined windows costs in all of them, if there is one.

    It is scheduled exactly.
    """
    if decision is None:
        return []
    problem = get_problem(decision.problem)
    runs = [executed_on(one, problem.separated(one, decision), EXACT) for one in windows]
    return [sum(first_key(run.objective) for run in runs)]


def _solved(job: Job, ask: Ask) -> tuple[Bracket, SolutionEnvelope | None]:
    found, instance = ask(job), job.instance
    if found.failed:
        raise found.error()
    bound = found.bound
    if bound is None:
        bound = get_problem(instance.problem).bound(instance)
    if found.status == "infeasible" or bound is None:
        raise InputError(f"{instance.name}: has no solution, and so no optimum in hindsight")
    cost = None if found.objective is None else first_key(found.objective)
    return Bracket(cost, first_key(bound)), unpacked_solution(instance.problem, found.solution)
