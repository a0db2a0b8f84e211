"""The one code path of every method: build, solve, decode, check, recompute, compare."""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from platform import python_version

from moeopt.core.clock import TimeLimitError
from moeopt.core.errors import ContradictionError, InputError
from moeopt.core.logs import logger_of, one_line
from moeopt.core.objective import Objective
from moeopt.core.problem import Violation
from moeopt.problems.files import InstanceLike, as_instance
from moeopt.problems.registry import get_problem
from moeopt.solvers import arguments
from moeopt.solvers.backends.own import is_brief
from moeopt.solvers.evidence import Evidence
from moeopt.solvers.limits import Deadline
from moeopt.solvers.methods import automatic, get_method
from moeopt.solvers.result import Result, Status, Termination
from moeopt.solvers.rules import AUTO, Function, Rule
from moeopt.solvers.task import MODELS, Method, Outcome, Progress, Task, Trace
from moeopt.solvers.verification import RESERVED, verified, wrong

logger = logger_of(__name__)

SOFTWARE = {
    "cpsat": ["ortools"],
    "milp": ["ortools", "pulp"],
    "own": ["numpy", "numba", "scipy", "ortools"],
}
"""Backend -> packages whose version is recorded with the result."""


def solve(
    instance: InstanceLike,
    method: str | Rule | Function = AUTO,
    *,
    time_limit_s: float | None = None,
    work_limit: float | None = None,
    seed: int = 0,
    workers: int = 1,
    engine: str | None = None,
    without: Collection[str] = (),
    warm_start: bool = True,
    verify: bool = True,
    enough_gap: float = 0.0,
    on_progress: Progress | None = None,
) -> Result:
    """Solve an instance and return a checked result.

    Parameters
    ----------
    instance
        The instance, from `moeopt.load` or made in code.
    method
        One of ``moeopt.methods(instance.problem)``, or a user's heuristic (`moeopt.solvers.rules`):
        any function of the instance that returns a `Solution`, or what the problem's `Solution` is
        made of, or a pair ``(solution, bound)`` with a lower bound on the objective. Such a bound
        is a claim: it stands in `Result.bound` with `Result.proof` "single", never makes a result
        optimal, and is named in `Result.evidence` as refuted where it is above the solution. A
        function runs in this thread and no limit ends it; Ctrl-C does. One that was named by file
        or module runs in a process of its own and is ended at the limit. ``auto`` is the problem's
        own exact method; what it leaves open goes to CP-SAT.
    time_limit_s
        Seconds for building and solving together; 60 where work is not limited either. Compiling
        kernels for the first time does not count; `Result.compile_s` tells it, and ``moeopt warm``
        does it beforehand.
    work_limit
        Units of work in place of seconds, or beside them: one is about a second of one core of
        2024. The same input, seed and work limit give the same answer, on a busy machine too. For
        one worker only.
    seed, workers
        The same seed and one worker give the same answer, unless a time limit cuts in.
    engine
        MILP engine: highs (default), cbc, scip, gurobi, cplex.
    without
        Constraint IDs to leave out of an exact model. The result then describes the relaxed
        problem: its objective is the model's own, and `violations` lists what the solution breaks.
    warm_start
        Whether models, and ``auto``, start from the problem's heuristic and its combinatorial
        bound; a problem's own exact algorithms always look for their own.
    verify
        Whether to confirm, by a second reason, a proof that rests on one engine's word. A tenth of
        the limit is kept for that, at least a second or a unit of work. An unconfirmed proof gives
        the status "feasible", or "unknown" without a solution, and `Result.proof` "single".
    enough_gap
        Relative gap at which an exact algorithm of this package may stop: 0.001 saves the time for
        the last thousandth. Algorithms without such a stop ignore it.
    on_progress
        Called with (seconds, objective, bound) at each improvement, possibly from another thread.

    Returns
    -------
    Result
        With a solution that passed the checker, or none.

    Raises
    ------
    InputError
        If an argument is of a wrong type or out of range; the message names it.
    HeuristicError
        If a heuristic raises (that is the error's cause), or a custom heuristic returns no solution
        or one that the checker refuses.
    ContradictionError
        If the checker refuses what a method returns, and neither another solution nor a proof
        stands. A contradicted claim is recorded in `raw_status` and `evidence`.

    Notes
    -----
    Ctrl-C ends the solver and gives the best so far; `termination` is "interrupted" then.

    Examples
    --------
    >>> import moeopt
    >>> folder = "instances/tri_domain/esft-window"
    >>> instance = moeopt.load(f"{folder}/window-law-layer4-batch256.json")
    >>> best = moeopt.solve(instance)
    >>> best.status, best.objective, best.bound
    ('optimal', 3965000, 3965000)
    >>> moeopt.solve(instance, method=lambda i: ["gpu"] * len(i.experts)).status
    'feasible'
    """
    workers = arguments.integer("workers", workers, 1, arguments.MAX_WORKERS)
    limits = arguments.limits(time_limit_s, work_limit, workers)
    with limits.clock():
        end = Deadline(limits.first)
        instance = as_instance(instance)
        left_out = arguments.constraint_ids(without)
        problem = get_problem(instance.problem)
        is_auto = isinstance(method, str) and method == AUTO
        chosen = automatic(problem, bool(left_out)) if is_auto else get_method(problem, method)
        arguments.a_function("on_progress", on_progress)
        verify = arguments.flag("verify", verify)
        reserved = RESERVED if verify and chosen.kind == "exact" else 0.0
        task = Task(
            problem=problem,
            instance=instance,
            method=chosen,
            deadline=Deadline((1 - reserved) * limits.first),
            end=end,
            trace=Trace(end, on_progress, problem.packing(instance)),
            seed=arguments.integer("seed", seed, 0, arguments.MAX_SEED),
            workers=workers,
            engine=_engine(engine, chosen),
            without=_left_out(left_out, tuple(problem.constraints()), chosen),
            again=run_method,
            verify=verify,
            enough_gap=arguments.share("enough_gap", enough_gap),
        )
        return _run(task, is_auto, arguments.flag("warm_start", warm_start))


def _run(task: Task, is_auto: bool, warm_start: bool) -> Result:
    """Prepare, run and check a task."""
    chosen, deadline = task.method, task.deadline
    prepared_s = 0.0
    try:
        if chosen.kind == "exact":
            deadline.checkpoint()
            if warm_start and is_auto and is_brief(task):
                task.prepares_late = True
            elif warm_start and (chosen.warm_starts or is_auto):
                task.prepare()
                prepared_s = deadline.elapsed_s
        outcome = _closed_by_bound(task) or run_method(task)
    except TimeLimitError:
        outcome = Outcome(None, "TIME_LIMIT_BEFORE_SOLVING", "time_limit", engine=task.engine)
    except KeyboardInterrupt:
        if task.start is None:
            raise
        outcome = Outcome(None, "INTERRUPTED_BEFORE_SOLVING", "interrupted", engine=task.engine)
    outcome.build_s += prepared_s
    result = _result(task, verified(task, outcome))
    known = result.said, result.objective, result.bound, result.proof
    logger.info("%s: verified: %s, objective %s, bound %s, proof %s", result.instance, *known)
    if is_auto and outcome.went_on_with is not None:
        return replace(result, method=f"{chosen.name}, then {outcome.went_on_with}")
    return result


def run_method(task: Task) -> Outcome:
    """Run a task's method, importing its solver now."""
    name, method = task.instance.name, task.method.name
    unit = "units" if task.deadline.counts_work else "s"
    logger.info("%s: %s starts, %.3g %s left", name, method, task.deadline.remaining_s, unit)
    outcome = _backend(task.method.backend)(task)
    known = _unpacked(task, outcome.claim), _unpacked(task, outcome.bound)
    took = outcome.build_s + outcome.solve_s
    said = one_line(outcome.raw_status)
    if task.method.kind == "heuristic":
        logger.info("%s: %s ends: %s, %.3f s", name, method, said, took)
    else:
        told = name, method, outcome.engine or outcome.by or "own", *known, said, took
        logger.info("%s: %s ends (%s): incumbent %s, bound %s, %s, %.3f s", *told)
    return outcome


def _backend(name: str) -> Callable[[Task], Outcome]:
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

    runs: dict[str, Callable[[Task], Outcome]] = {
        "heuristic": plain.run_heuristic,
        "rule": plain.run_rule,
        "brute_force": plain.run_brute_force,
    }
    return runs[name]


def _engine(engine: str | None, chosen: Method) -> str | None:
    name = arguments.engine_name(engine)
    if name is not None and chosen.backend != "milp":
        only = f"can be used with method 'milp' only, not with {chosen.name!r}"
        raise InputError(f"{name!r} {only}", field="engine")
    return name


def _left_out(without: frozenset[str], known: Collection[str], method: Method) -> frozenset[str]:
    for constraint in without:
        if constraint not in known:
            names = ", ".join(known)
            raise InputError(f"{constraint!r} is not a constraint; known: {names}", field="without")
    if without and method.backend not in MODELS:
        raise InputError(f"method {method.name!r} has no constraints to leave out", field="without")
    return without


def _closed_by_bound(task: Task) -> Outcome | None:
    """Return the starting solution as proven optimal if it meets the bound."""
    if task.start is None or task.upper != task.lower:
        return None
    closed = Outcome(task.start, "CLOSED_BY_BOUND", claim=task.upper, proven="optimal")
    closed.bound = closed.own_bound = task.lower
    closed.proof = "own"
    return closed


def _result(task: Task, outcome: Outcome) -> Result:
    """Turn a verified outcome into a result."""
    method = task.method
    objective, bound = outcome.claim, outcome.bound
    violations: list[Violation] = []
    if outcome.solution is not None and task.without and objective is not None:
        actual = task.checked_objective(outcome.solution)
        claimed = task.packing.unpack(objective) if objective < actual else None
        violations = task.problem.violations(task.instance, outcome.solution, claimed)
    if method.kind == "heuristic" and outcome.solution is not None:
        if (reason := wrong(task, outcome)) is not None:
            raise ContradictionError(f"{task.instance.name}, method {method.name}: {reason}")
        objective = task.checked_objective(outcome.solution)
    task.trace.close(objective, bound)
    return Result(
        problem=task.problem.name,
        instance=task.instance.name,
        method=method.name,
        engine=outcome.engine,
        seed=task.seed,
        workers=task.workers,
        status=_status(outcome, objective, bound),
        termination=_termination(outcome, task.end),
        objective=_unpacked(task, objective),
        bound=_unpacked(task, bound),
        solution=outcome.solution,
        violations=violations,
        build_s=outcome.build_s,
        solve_s=outcome.solve_s,
        trace=task.trace.unpacked(),
        raw_status=outcome.raw_status,
        versions=_versions(method.backend).copy(),
        compile_s=task.end.compile_s,
        work_limit=task.end.limit if task.end.counts_work else None,
        work=task.end.work,
        proof=outcome.proof,
        evidence=Evidence(tuple(outcome.claims)),
        solved=task.instance,
    )


def _termination(outcome: Outcome, deadline: Deadline) -> Termination:
    """Say which of two limits it was."""
    if outcome.termination == "time_limit" and deadline.counts_work:
        return "time_limit" if deadline.clock.out_of_seconds else "work_limit"
    return outcome.termination


def _unpacked(task: Task, value: int | None) -> Objective | None:
    return None if value is None else task.packing.unpack(value)


def _status(outcome: Outcome, objective: int | None, bound: int | None) -> Status:
    proven = outcome.proof in ("certificate", "own", "confirmed")
    if objective is not None:
        return "optimal" if proven and objective == bound else "feasible"
    return "infeasible" if outcome.proven == "infeasible" and proven else "unknown"


@cache
def _versions(backend: str) -> dict[str, str]:
    """Return the versions of what a backend uses; reading them takes longer than some solves."""
    packages = ["moeopt", *SOFTWARE.get(backend, ["numpy"])]
    return {"python": python_version()} | {name: version(name) for name in packages}
