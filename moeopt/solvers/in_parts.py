"""Running a method: a model runs on each independent part by itself, and bounds add up.

A problem that falls into parts has a `moeopt.core.problem.Decomposition`. Its objective is then a
sum over the parts, and no constraint names two of them.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from moeopt.core.clock import TimeLimitError
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.objective import Objective
from moeopt.solvers.evidence import STRONGEST_FIRST
from moeopt.solvers.limits import Deadline
from moeopt.solvers.task import MODELS, Outcome, Task, Trace
from moeopt.solvers.verification import verified

Run = Callable[[Task], Outcome]


def run(task: Task) -> Outcome:
    """Run a task's method, importing its solver now."""
    backend = _backend(task.method.backend)
    if task.method.backend in MODELS and len(parts := parts_of(task)) > 1:
        return run_in_parts(task, parts, lambda part: verified(part, backend(part)))
    return backend(task)


def _backend(name: str) -> Run:
    """Return what runs methods of a kind, importing its solver now."""
    if name == "cpsat":
        from moeopt.solvers.backends import cpsat

        return cpsat.run
    if name == "milp":
        from moeopt.solvers.backends import milp

        return milp.run
    if name == "own":
        from moeopt.solvers.backends import own

        return own.run
    from moeopt.solvers.backends import plain

    runs: dict[str, Run] = {
        "heuristic": plain.run_heuristic,
        "robust": plain.run_robust,
        "rule": plain.run_rule,
        "brute_force": plain.run_brute_force,
    }
    return runs[name]


def parts_of(task: Task) -> list[InstanceEnvelope]:
    """Return the independent parts of a task's instance; it alone if there are none."""
    home = task.problem.decomposition
    return [task.instance] if home is None else home.parts(task.instance)


@dataclass
class _Part:
    """One part, what is known of it, the package's own bound, and what its solver said last."""

    task: Task
    outcome: Outcome
    own: int | None = None

    @property
    def closed(self) -> bool:
        return self.outcome.proven is not None

    def take(self, outcome: Outcome) -> None:
        """Keep an outcome, and the better of its solution and the one known before."""
        task = self.task
        if outcome.own_bound is not None:
            self.own = max(outcome.own_bound, self.own or outcome.own_bound)
        if outcome.bound is not None:
            task.lower = max(outcome.bound, task.lower or outcome.bound)
        if outcome.solution is None or (
            task.upper is not None and outcome.claim is not None and task.upper < outcome.claim
        ):
            outcome.solution, outcome.claim, outcome.tolerance = task.start, task.upper, 0
        task.start, task.upper = outcome.solution, outcome.claim
        self.outcome = outcome


def run_in_parts(task: Task, parts: list[InstanceEnvelope], run: Run) -> Outcome:
    """Run a model on every part, again with the time that is left on those that are still open.

    Parameters
    ----------
    task
        The whole instance, with what is known of it.
    parts
        From `parts_of`.
    run
        The backend.
    """
    begin = task.deadline.elapsed_s
    found = _prepared(task, parts)
    pending = [part for part in found if not part.closed]
    interrupted = False
    while pending and task.deadline.remaining_s > 0 and not interrupted:
        for number, part in enumerate(pending):
            share_s = task.deadline.remaining_s / (len(pending) - number)
            part.task.deadline = part.task.trace.deadline = Deadline(share_s)
            part.task.end = part.task.deadline
            try:
                part.take(run(part.task))
            except TimeLimitError:
                part.outcome.raw_status = "TIME_LIMIT_BEFORE_SOLVING"
            if interrupted := part.outcome.termination == "interrupted":
                break
        pending = [part for part in pending if not part.closed]
        if any(part.outcome.proven == "infeasible" for part in found):
            break
    outcome = _together(task, found)
    if interrupted:
        outcome.termination = "interrupted"
    outcome.solve_s = task.deadline.elapsed_s - begin - outcome.build_s
    return outcome


def _prepared(task: Task, parts: list[InstanceEnvelope]) -> list[_Part]:
    """Return the parts with what the whole starts from; those that a bound closes are closed."""
    home, bounds = task.problem.decomposition, task.problem.bounds
    starts = home.split(task.start, parts) if home and task.start else [None] * len(parts)
    found: list[_Part] = []
    for row, (instance, start) in enumerate(zip(parts, starts, strict=True)):
        trace = Trace(task.deadline, partial(_note, task, found, row), task.packing)
        part = replace(task, instance=instance, start=start, upper=None, lower=None, trace=trace)
        if start is not None:
            part.upper = part.checked_objective(start)
        if task.lower is not None:
            grid = bounds.objective_grid(instance)
            part.lower = -(-task.packing.pack(bounds.lower_bound(instance)) // grid) * grid
        outcome = Outcome(start, "OPEN", "time_limit", claim=part.upper, bound=part.lower)
        outcome.own_bound, outcome.proof = part.lower, None if part.lower is None else "own"
        if start is not None and part.upper == part.lower:
            outcome.proven, outcome.raw_status = "optimal", "CLOSED_BY_BOUND"
            outcome.termination = "completed"
        found.append(_Part(part, outcome, part.lower))
    return found


def _note(
    task: Task,
    found: list[_Part],
    row: int,
    seconds: float,
    objective: Objective | None,
    bound: Objective | None,
) -> None:
    """Record what an improvement of one part means for the whole."""
    best = [part.task.upper for part in found]
    proven = [part.task.lower for part in found]
    if objective is not None:
        best[row] = task.packing.pack(objective)
    if bound is not None:
        proven[row] = max(task.packing.pack(bound), proven[row] or 0)
    task.trace.record(_sum(best), _sum(proven))


def _together(task: Task, found: list[_Part]) -> Outcome:
    """Return the outcome of the whole."""
    outcomes = [part.outcome for part in found]
    words = Counter(outcome.raw_status for outcome in outcomes)
    status = next(iter(words))
    if len(words) > 1:
        status = ", ".join(f"{count} x {word}" for word, count in words.most_common())
    whole = Outcome(None, status, engine=outcomes[-1].engine)
    for outcome in outcomes:
        whole.build_s += outcome.build_s
        whole.engine = outcome.engine or whole.engine
    whole.bound = _sum([part.task.lower for part in found])
    whole.own_bound = _sum([part.own for part in found])
    whole.claims = [claim for outcome in outcomes for claim in outcome.claims]
    if refuted := [outcome for outcome in outcomes if outcome.proven == "infeasible"]:
        whole.proven = "infeasible"
        whole.proof = min((of.proof or "single" for of in refuted), key=STRONGEST_FIRST.index)
        return whole
    if whole.bound is not None:
        proofs = [outcome.proof or "single" for outcome in outcomes]
        whole.proof = max(proofs, key=STRONGEST_FIRST.index)
    if all(outcome.proven == "optimal" for outcome in outcomes):
        whole.proven = "optimal"
    else:
        whole.termination = "time_limit"
    home = task.problem.decomposition
    if home and all(outcome.solution is not None for outcome in outcomes):
        solutions = [outcome.solution for outcome in outcomes]
        whole.solution = home.joined(task.instance, solutions)
        whole.claim = _sum([outcome.claim for outcome in outcomes])
        whole.tolerance = sum(outcome.tolerance for outcome in outcomes)
    return whole


def _sum(values: list[int | None]) -> int | None:
    """Return the sum of what is known of all parts; None if something is not."""
    return None if None in values else sum(value for value in values if value is not None)
