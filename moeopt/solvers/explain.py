"""Which rules make an instance infeasible; else what binds, what would help, what rules cost."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from moeopt.core.clock import spend
from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.objective import Objective, below, difference, entries
from moeopt.problems.execute import checked, execute, on_path, tasks_of
from moeopt.problems.files import InstanceLike, SolutionLike, as_instance, as_solution
from moeopt.problems.registry import get_problem
from moeopt.solvers import arguments
from moeopt.solvers.limits import Deadline
from moeopt.solvers.result import Result, Status
from moeopt.solvers.rules import AUTO
from moeopt.solvers.run import solve

SHOWN = 3
"""How many changes are kept: the best one, and what comes next."""

SHARE_OF_CHANGES, MOST_S = 0.25, 10.0
"""How much of the limit is left for trying changes, and how long that may take."""

CHANGE_WORK = 4e-7
"""Units of work that checking a change takes for each byte of the solution's file."""


@dataclass(frozen=True)
class Change:
    """A solution with one decision changed: what is changed, and its objective.

    `alike` is how many other changes were found that have the same objective.
    """

    what: str
    objective: Objective
    alike: int = 0


@dataclass(frozen=True)
class Binding:
    """What one solution consists of, and what would become of it with one change.

    Attributes
    ----------
    objective
        The solution's.
    devices
        Device -> how much of the critical path lies on it, most first, in the objective's unit;
        times count as often as their window does. Empty where a problem's solutions do not run.
    parts
        The same by device and kind of task, as "DIMM 3: read".
    tied
        Other devices that have work without slack: they bind as well.
    changes
        The valid single changes with the best objectives, the best one first; one of each that
        have the same objective.
    tried, complete
        How many valid changes were evaluated, and whether these were all.
    """

    objective: Objective
    devices: dict[str, int]
    parts: dict[str, int]
    tied: tuple[str, ...]
    changes: tuple[Change, ...]
    tried: int
    complete: bool


@dataclass(frozen=True)
class Explanation:
    """Why an instance has the optimum it has, or none.

    Attributes
    ----------
    status
        Of the instance with all its rules.
    objective
        The best objective known with all rules.
    conflict
        If infeasible: constraint IDs that cannot hold together, none of them superfluous if
        `minimal` is True.
    minimal
        False if the time limit left some rule of `conflict` undecided.
    without
        If feasible: constraint ID -> the proven optimum without that rule, None if not proven.
    reasons
        If feasible: constraint ID -> why it has no price: it is not in `without` because it cannot
        be relaxed, or its optimum is None because something was not proven.
    binding
        Of the solution given, or else of the best one found; None without a solution.
    """

    status: Status
    objective: Objective | None
    conflict: tuple[str, ...]
    minimal: bool
    without: dict[str, Objective | None]
    reasons: dict[str, str] = field(default_factory=dict)
    binding: Binding | None = None

    def __repr__(self) -> str:
        if self.status == "infeasible":
            return f"<explanation: infeasible by {', '.join(self.conflict)}>"
        prices = sum(value is not None for value in self.without.values())
        return f"<explanation: {self.status}, objective {self.objective}, {prices} prices of rules>"


def explain(
    instance: InstanceLike,
    method: str = "cp-sat",
    solution: SolutionLike | None = None,
    *,
    time_limit_s: float | None = None,
    work_limit: float | None = None,
    seed: int = 0,
    workers: int = 1,
) -> Explanation:
    """Explain an instance, by solving it without each of its rules, and one of its solutions.

    In an infeasible instance rules are dropped one by one as long as it stays infeasible; the rest
    is a conflict, which disappears when any one of its rules is dropped. For a feasible one each
    rule is dropped alone: the fall of the optimum is what the rule costs. Of the solution, the
    critical path says which devices bind (`moeopt.event_graph`), and every single change of a
    decision is evaluated by the checker.

    Parameters
    ----------
    instance, seed, workers
        As in `moeopt.solve`.
    method
        An exact method that can leave constraints out: cp-sat or milp. With all rules, and without
        one that an instance may lack, the problem's own exact method runs first, then CP-SAT.
    solution
        What to look at; by default the best solution found with all rules.
    time_limit_s, work_limit
        For all together, as in `moeopt.solve`. The first solve has half of it; changes are
        tried for at most 10 s, or units. Where a solve proves no optimum, a rule's price lies
        between two values.

    Returns
    -------
    Explanation
        `conflict` if the instance is infeasible, else `without`, the optimum without each rule,
        and `binding`, what the solution consists of.

    Raises
    ------
    InputError
        As in `moeopt.solve`, and if `solution` is not valid for the instance.

    Examples
    --------
    >>> import moeopt
    >>> folder = "instances/tri_domain/esft-window"
    >>> instance = moeopt.load(f"{folder}/window-law-layer4-batch256.json")
    >>> explanation = moeopt.explain(instance)
    >>> explanation.objective, explanation.without["TD-C4"]
    (3965000, 2505000)
    >>> explanation.binding.objective, sum(explanation.binding.devices.values())
    (3965000, 3965000)
    """
    instance = as_instance(instance)
    if solution is not None:
        solution = as_solution(solution)
        checked(instance, solution)
    limits = arguments.limits(time_limit_s, work_limit, workers)
    with limits.clock():
        deadline = Deadline(limits.first)

        def relaxed(without: set[str], share: float) -> Result:
            asked = deadline.left(share).asked
            loose = instance.without_rule(*without) if len(without) == 1 else None
            if loose is not None:
                return solve(loose, AUTO, seed=seed, workers=workers, **asked)
            how = method if without else AUTO  # the problem's own method proves most
            return solve(instance, how, seed=seed, workers=workers, without=without, **asked)

        return _explained(instance, solution, deadline, relaxed)


Relaxed = Callable[[set[str], float], Result]
"""Solves the instance without some rules, within one of so many parts of what is left."""


def _explained(
    instance: InstanceEnvelope,
    solution: SolutionEnvelope | None,
    deadline: Deadline,
    relaxed: Relaxed,
) -> Explanation:
    """Return why the rules conflict, or what the instance's solution consists of and rules cost."""
    problem = get_problem(instance.problem)
    whole = relaxed(set(), 2)
    if whole.status == "infeasible":
        return _conflict(tuple(problem.constraints()), relaxed)
    shown = whole.solution if solution is None else solution
    binding = None
    if shown is not None:
        limit_s = min(SHARE_OF_CHANGES * deadline.limit, MOST_S, deadline.remaining_s)
        binding = bind(instance, shown, limit_s)
    optima: dict[str, Objective | None] = {}
    reasons = dict(problem.unpriced)
    rules = [rule for rule in problem.constraints() if rule not in reasons]
    for number, rule in enumerate(rules):
        found = relaxed({rule}, len(rules) - number)
        optima[rule] = found.objective if found.status == "optimal" else None
        if reason := _unknown(whole, found):
            reasons[rule] = reason
    return Explanation(whole.status, whole.objective, (), True, optima, reasons, binding)


def bind(instance: InstanceEnvelope, solution: SolutionEnvelope, limit_s: float) -> Binding:
    """Return what a valid solution consists of, and its best single changes found within a limit.

    Examples
    --------
    >>> import moeopt
    >>> from moeopt.solvers.explain import bind
    >>> instance = moeopt.tri_domain.Instance.from_arrays(
    ...     gpu_ns=[30, 40], cpu_ns=[50, 20], ndp_ns=[-1, 30], dimm=[-1, 0], dimms=1
    ... )
    >>> both_on_cpu = moeopt.tri_domain.Solution(instance=instance.name, assignment=("cpu", "cpu"))
    >>> bind(instance, both_on_cpu, 1.0).changes[0]
    Change(what='expert 0 (1 token) from cpu to gpu', objective=50)
    """
    problem = get_problem(instance.problem)
    deadline = Deadline(limit_s)
    devices: dict[str, int] = {}
    parts: dict[str, int] = {}
    tied: tuple[str, ...] = ()
    if problem.has("execute"):
        tasks, path, _ = tasks_of(execute(instance, solution))
        devices = on_path(tasks, path, "device")
        parts = on_path(tasks, path, "device", "kind")
        free = dict.fromkeys(t.device for t in tasks if t.duration_ns and not t.slack_ns)
        tied = tuple(name for name in free if name not in devices)
    best: dict[Objective, Change] = {}
    tried, complete = 0, True
    work = CHANGE_WORK * len(solution.model_dump_json())
    for what, other in problem.changes(instance, solution):
        if deadline.remaining_s == 0:
            complete = False
            break
        spend(work)
        if not problem.violations(instance, other):
            objective, tried = problem.objective(instance, other), tried + 1
            first = best.get(objective, Change(what, objective, -1))
            best[objective] = replace(first, alike=first.alike + 1)
    changes = tuple(best[objective] for objective in sorted(best, key=entries)[:SHOWN])
    objective = problem.objective(instance, solution)
    return Binding(objective, devices, parts, tied, changes, tried, complete)


def _conflict(rules: tuple[str, ...], relaxed: Relaxed) -> Explanation:
    """Return rules that cannot hold together."""
    dropped: set[str] = set()
    minimal = True
    for number, rule in enumerate(rules):
        found = relaxed(dropped | {rule}, len(rules) - number).status
        if found == "infeasible":
            dropped.add(rule)
        minimal = minimal and found != "unknown"
    conflict = tuple(rule for rule in rules if rule not in dropped)
    return Explanation("infeasible", None, conflict, minimal, {})


def _unknown(whole: Result, relaxed: Result) -> str | None:
    """Return why a rule's price is unknown, and between which values it is; None if it is known."""
    if whole.status == relaxed.status == "optimal":
        return None
    if whole.status != "optimal":
        reason = f"the optimum with every rule is not proven: {_why(whole)}"
    else:
        reason = f"the optimum without it is not proven: {_why(relaxed)}"
    low, high, best, bound = whole.bound, whole.objective, relaxed.objective, relaxed.bound
    if low is None or best is None or high is None or bound is None:
        return reason
    least, most = difference(low, best), difference(high, bound)
    # What was found without the rule may be worse than the optimum with it, which is valid too.
    nothing = difference(high, high)
    least = nothing if below(least, nothing) else least
    return f"{reason}; it is from {_number(least)} to {_number(most)}"


def _why(result: Result) -> str:
    if result.termination == "time_limit":
        return f"the time limit came after {result.build_s + result.solve_s:.1f} s"
    if result.termination == "work_limit":
        return f"the work limit came after {result.work:.3g} units"
    if result.termination == "interrupted":
        return "it was interrupted"
    return f"the solver ended with {result.raw_status!r}"


def _number(objective: Objective) -> str:
    return ", ".join(f"{entry:,}" for entry in entries(objective))
