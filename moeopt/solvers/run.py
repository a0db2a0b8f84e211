"""The one code path of every method: build, solve, decode, check, recompute, compare."""

from collections.abc import Collection
from functools import cache
from importlib.metadata import version
from platform import python_version

from moeopt.errors import InputError, ModelMismatchError
from moeopt.problems.envelope import InstanceEnvelope
from moeopt.problems.objective import Objective
from moeopt.problems.registry import get_problem
from moeopt.solvers.limits import Deadline, TimeLimitError
from moeopt.solvers.methods import MODELS, Method, get_method
from moeopt.solvers.result import Result, Status
from moeopt.solvers.task import Outcome, Progress, Task, Trace

SOFTWARE = {
    "cpsat": ["ortools"],
    "milp": ["pulp", "scipy", "ortools"],
    "mathprog": ["swiglpk"],
    "own": ["numpy", "numba", "scipy", "ortools"],
}
"""Backend -> packages whose version is recorded with the result."""

MAX_SEED = 2**31 - 1


def solve(
    instance: InstanceEnvelope,
    method: str = "cp-sat",
    *,
    time_limit_s: float = 60.0,
    seed: int = 0,
    workers: int = 1,
    engine: str | None = None,
    without: Collection[str] = (),
    warm_start: bool = True,
    on_progress: Progress | None = None,
) -> Result:
    """Solve an instance and return a checked result.

    Parameters
    ----------
    instance
        The instance, from `moeopt.load` or made in code.
    method
        One of ``moeopt.methods(instance.problem)``.
    time_limit_s
        Seconds for building and solving together.
    seed, workers
        The same seed and one worker give the same answer, unless the limit cuts in.
    engine
        MILP engine: highs (default), cbc, scip, gurobi, cplex.
    without
        Constraint IDs to leave out of an exact model. The result then describes the relaxed
        problem: its objective is the model's own, and `violations` lists what the solution breaks.
    warm_start
        Whether models start from the problem's heuristic and its combinatorial bound; a problem's
        own exact algorithms always look for their own.
    on_progress
        Called with (seconds, objective, bound) at each improvement, possibly from another thread.

    Returns
    -------
    Result
        With a solution that passed the judge, or none.

    Raises
    ------
    InputError
        If the method, engine, limit, seed or a constraint ID cannot be used.
    ModelMismatchError
        If the judge rejects the solution, recomputes another objective, or a proof is contradicted.

    Notes
    -----
    Ctrl-C ends the solver and gives the best so far; `termination` is "interrupted" then.

    Examples
    --------
    >>> import moeopt
    >>> folder = "instances/tri_domain/esft-window"
    >>> instance = moeopt.load(f"{folder}/window-law-layer4-batch256.json")
    >>> best = moeopt.solve(instance, method="threshold")
    >>> best.status, best.objective, best.bound
    ('optimal', 3965000, 3965000)
    """
    deadline = Deadline(time_limit_s)
    problem = get_problem(instance.problem)
    chosen = get_method(problem, method)
    _validate(time_limit_s, seed, workers)
    if engine is not None and chosen.backend != "milp":
        raise InputError(f"engine: {engine!r} goes with method 'milp' only, not with {method!r}")
    _validate_without(without, problem.constraint_ids, chosen)
    trace = Trace(deadline, on_progress, problem.packing(instance))
    task = Task(
        problem,
        instance,
        method,
        chosen.module,
        deadline,
        trace,
        seed,
        workers,
        engine,
        frozenset(without),
    )
    prepared_s = 0.0
    try:
        if chosen.kind == "exact":
            deadline.checkpoint()
            if warm_start and chosen.warm_starts:
                _prepare(task)
                prepared_s = deadline.elapsed_s
        outcome = _closed_by_bound(task) or chosen.run(task)
    except TimeLimitError:
        outcome = Outcome(None, "TIME_LIMIT_BEFORE_SOLVING", "time_limit", engine=engine)
    outcome.build_s += prepared_s
    return _judged(task, outcome, chosen)


def _validate(time_limit_s: float, seed: int, workers: int) -> None:
    if not 0 < time_limit_s < float("inf"):
        raise InputError(f"time limit: must be a positive number of seconds, not {time_limit_s}")
    if not 0 <= seed <= MAX_SEED:
        raise InputError(f"seed: must be from 0 to {MAX_SEED}, not {seed}")
    if not 1 <= workers <= 1024:
        raise InputError(f"workers: must be from 1 to 1024, not {workers}")


def _validate_without(without: Collection[str], known: Collection[str], method: Method) -> None:
    for constraint in without:
        if constraint not in known:
            names = ", ".join(known)
            raise InputError(f"without: {constraint!r} is not a constraint; known: {names}")
    if without and method.backend not in MODELS:
        raise InputError(f"without: method {method.name!r} has no constraints to leave out")


def _prepare(task: Task) -> None:
    """Give the task a starting solution and a combinatorial bound."""
    start = task.problem.part("heuristics").WARM_START(task.instance)
    check = task.problem.part("check")
    if start is not None and not check.violations(task.instance, start):
        task.start, task.upper = start, task.judged_objective(start)
    task.deadline.checkpoint()
    if not task.without:  # a rule left out can lower the optimum below the bound
        bounds = task.problem.part("bounds")
        lower = task.packing.pack(bounds.lower_bound(task.instance))
        task.lower = _up_to_grid(task, lower)
    task.trace.record(task.upper, task.lower)


def _closed_by_bound(task: Task) -> Outcome | None:
    """Return the starting solution as proven optimal if it meets the bound."""
    if task.start is None or task.upper != task.lower:
        return None
    return Outcome(task.start, "CLOSED_BY_BOUND", claim=task.upper, proven="optimal")


def _judged(task: Task, outcome: Outcome, method: Method) -> Result:
    """Check the outcome against the judge and turn it into a result."""
    if outcome.proven == "infeasible" and task.start is not None:
        raise ModelMismatchError(f"{_where(task)}: called infeasible, but a solution is known")
    objective, violations = _recomputed(task, outcome)
    if task.upper is not None and (objective is None or task.upper < objective):
        outcome.solution, objective, violations = task.start, task.upper, []
    bound = _best_bound(task, outcome)
    if objective is not None and bound is not None and bound > objective:
        raise ModelMismatchError(f"{_where(task)}: bound {bound} is above objective {objective}")
    if method.kind == "heuristic":
        bound = None
    task.trace.record(objective, bound)
    return Result(
        problem=task.problem.name,
        instance=task.instance.name,
        method=task.method,
        engine=outcome.engine,
        seed=task.seed,
        workers=task.workers,
        status=_status(outcome, objective, bound),
        termination=outcome.termination,
        objective=_unpacked(task, objective),
        bound=_unpacked(task, bound),
        solution=outcome.solution,
        violations=violations,
        build_s=outcome.build_s,
        solve_s=outcome.solve_s,
        trace=task.trace.unpacked(),
        raw_status=outcome.raw_status,
        versions=_versions(method.backend),
    )


def _recomputed(task: Task, outcome: Outcome) -> tuple[int | None, list[tuple[str, str]]]:
    """Return the judge's objective and the violations that `without` excuses.

    Raises
    ------
    ModelMismatchError
        If there is any other violation, or the claim and the judge's objective differ. A solver
        stopped early may claim more than its solution costs, never less.
    """
    if outcome.solution is None:
        return None, []
    check = task.problem.part("check")
    actual = task.judged_objective(outcome.solution)
    claim = actual if outcome.claim is None else outcome.claim
    if abs(claim - actual) <= outcome.tolerance:
        claim = actual
    found: list[tuple[str, str]] = check.violations(
        task.instance, outcome.solution, task.packing.unpack(claim)
    )
    for constraint, sentence in found:
        if constraint not in task.without:
            raise ModelMismatchError(f"{_where(task)}: {constraint}: {sentence}")
    if task.without:
        return claim, found
    if claim < actual or (claim > actual and outcome.proven == "optimal"):
        claimed, computed = task.packing.unpack(claim), task.packing.unpack(actual)
        raise ModelMismatchError(f"{_where(task)}: claims {claimed}, the judge computes {computed}")
    return actual, []


def _best_bound(task: Task, outcome: Outcome) -> int | None:
    """Return the better of the method's bound and the combinatorial one, rounded up to the grid."""
    known = [bound for bound in (outcome.bound, task.lower) if bound is not None]
    if not known:
        return None
    return max(known) if task.without else _up_to_grid(task, max(known))


def _up_to_grid(task: Task, bound: int) -> int:
    """Round a bound up to the next number that an objective can be."""
    grid: int = task.problem.part("bounds").objective_grid(task.instance)
    return -(-bound // grid) * grid


def _unpacked(task: Task, value: int | None) -> Objective | None:
    return None if value is None else task.packing.unpack(value)


def _status(outcome: Outcome, objective: int | None, bound: int | None) -> Status:
    if objective is not None:
        return "optimal" if objective == bound else "feasible"
    return "infeasible" if outcome.proven == "infeasible" else "unknown"


def _where(task: Task) -> str:
    return f"{task.instance.name}, method {task.method}"


def _versions(backend: str) -> dict[str, str]:
    packages = ["moeopt", *SOFTWARE.get(backend, ["numpy"])]
    return {"python": python_version()} | {name: _version(name) for name in packages}


@cache
def _version(package: str) -> str:
    """Return an installed package's version; reading it takes longer than some solves."""
    return version(package)
