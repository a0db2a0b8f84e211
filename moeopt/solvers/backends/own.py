"""Run a problem's own exact algorithm, and what goes on where it ends before its proof."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from moeopt.core.clock import TimeLimitError
from moeopt.core.errors import InputError
from moeopt.core.objective import Objective
from moeopt.core.search import Search, recording
from moeopt.core.signals import interrupts_kept
from moeopt.solvers.methods import get_method
from moeopt.solvers.task import Outcome, Task


def run(task: Task) -> Outcome:
    """Run the algorithm until it ends or sees its limit; at Ctrl-C its best so far is kept."""
    method = task.method
    begin = task.deadline.elapsed_s
    if method.own is None:
        raise TypeError(f"{method.name} is no algorithm of the problem's own")
    algorithm = task.problem.algorithm(method.own)
    search = Search(
        task.deadline.remaining_s,
        task.seed,
        task.workers,
        enough_gap=task.enough_gap,
        on_improvement=_recorder(task),
    )

    interrupted = False
    try:
        with recording(search.refutations), task.deadline.told(), interrupts_kept():
            algorithm.solve(task.instance, search)
    except KeyboardInterrupt:
        interrupted = True
        search.stop()
    outcome = _outcome(task, search, interrupted)
    outcome.solve_s = task.deadline.elapsed_s - begin
    if task.prepares_late and not search.closed and (search.solution is None or not search.stopped):
        _prepare_late(task, outcome)
    if search.closed or method.then is None or search.stopped or search.enough:
        return outcome
    return _go_on(task, method.then, outcome)


def is_brief(task: Task) -> bool:
    """Tell whether a task's algorithm needs no starting solution, see `ExactMethod`."""
    own = task.method.own
    brief = None if own is None else getattr(task.problem.algorithm(own), "brief", None)
    return brief is not None and bool(brief(task.instance))


def _prepare_late(task: Task, outcome: Outcome) -> None:
    """Prepare what a brief algorithm mostly does without: for a successor, or as all there is."""
    begin = task.deadline.elapsed_s
    with suppress(TimeLimitError):
        task.prepare()
    outcome.build_s += task.deadline.elapsed_s - begin


def _recorder(task: Task) -> Callable[[Objective | None, Objective | None], None]:
    def record(objective: Objective | None, bound: Objective | None) -> None:
        task.trace.record(_packed(task, objective), _packed(task, bound))

    return record


def _packed(task: Task, value: Objective | None) -> int | None:
    return None if value is None else task.packing.pack(value)


def _outcome(task: Task, search: Search, interrupted: bool) -> Outcome:
    outcome = Outcome(search.solution, search.note or "ENDED")
    outcome.claim, outcome.bound = _packed(task, search.objective), _packed(task, search.bound)
    outcome.own_bound = _packed(task, search.own_bound)
    if search.refutations and (search.infeasible or outcome.bound != outcome.own_bound):
        from moeopt.core.cpsat import SAFE

        outcome.by, outcome.parameters = "cp-sat", f"in {task.method.name}, {SAFE.name}"
        outcome.refutations = search.refutations
    if search.closed:
        outcome.proven = "infeasible" if search.infeasible else "optimal"
    elif interrupted:
        outcome.termination = "interrupted"
    elif search.stopped:
        outcome.termination = "time_limit"
    return outcome


def _go_on(task: Task, then: str, first: Outcome) -> Outcome:
    """Hand incumbent and bound to another method; `solve` keeps the better of the two answers.

    An incumbent that the checker does not confirm is handed to nobody: it goes back as it is, to be
    rejected.
    """
    if first.solution is not None:
        actual = task.checked_objective(first.solution)
        if actual != first.claim or task.problem.violations(task.instance, first.solution):
            return first
        if task.upper is None or actual < task.upper:
            task.start, task.upper = first.solution, actual
    following = get_method(task.problem, then)
    try:
        outcome = task.again(replace(task, method=following))
    except InputError as error:  # too large for it, say: what is known already stays
        first.raw_status += f", then {error}"
        return first
    except TimeLimitError:  # before it had anything of its own
        first.raw_status += f", then {then}: TIME_LIMIT_BEFORE_SOLVING"
        first.termination = "time_limit"
        return first
    known = [bound for bound in (first.own_bound, outcome.own_bound) if bound is not None]
    outcome.own_bound = max(known, default=None)
    if first.bound is not None and (outcome.bound is None or first.bound > outcome.bound):
        outcome.bound, outcome.by, outcome.parameters = first.bound, first.by, first.parameters
        outcome.refutations = first.refutations
    outcome.raw_status = f"{first.raw_status}, then {then}: {outcome.raw_status}"
    outcome.went_on_with = then
    outcome.solve_s += first.solve_s
    return outcome
