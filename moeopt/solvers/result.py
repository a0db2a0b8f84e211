"""What solving an instance gives, and what the checker says of a solution from anywhere."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Literal

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope, check_pair
from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject
from moeopt.core.lazy import installed
from moeopt.core.objective import Objective, entries, relative
from moeopt.core.problem import Violation
from moeopt.core.wording import package
from moeopt.problems.files import InstanceLike, SolutionLike, as_instance, as_solution
from moeopt.problems.registry import get_problem
from moeopt.solvers.evidence import Evidence, Proof

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Status = Literal["optimal", "feasible", "infeasible", "unknown", "failed"]
Termination = Literal["completed", "time_limit", "work_limit", "interrupted"]

NOTABLE_S = 1.0
"""Shorter times are not shown: loading compiled kernels, or starting a child process."""


@dataclass(frozen=True, repr=False)
class Result:
    """Knowledge about an instance after one solve. An unknown value is None, not 0 or infinity.

    Attributes
    ----------
    problem, instance
        The problem's and the instance's name.
    method, engine, seed, workers
        How it was solved; `engine` is None where the method has none.
    status
        What is known about the problem. A heuristic's answer is "feasible" however good it is;
        "failed" stands in campaigns for a solve that raised, and `raw_status` says why. "optimal"
        and "infeasible" are said only where `proof` is more than one engine's word.
    termination
        Why the method stopped.
    objective
        The checker's objective of `solution` (with `without`: the relaxed model's own objective). A
        lexicographic one is a tuple.
    bound
        The best proven lower bound on the objective.
    proof
        What the bound, or the proof that there is no solution, rests on: "certificate", "own",
        "confirmed" or "single", one engine's word (`moeopt.solvers.evidence.Proof`). None without a
        bound. See `said`.
    solution
        The decision; it passed the checker.
    violations
        (constraint ID, sentence): empty, but for rules that were left out with `without`.
    build_s, solve_s
        Seconds spent before (bounds, starting solution, building the model) and in the solver,
        without `compile_s`.
    trace
        (seconds since the start, objective, bound) at each improvement.
    raw_status
        The solver's own status, and what became of its claims.
    evidence
        Further claims, and which of them were refuted.
    solved
        The instance itself, for `plot`; None in results that another process has made.
    versions
        Versions of the software that took part.
    compile_s
        Seconds spent on top on compiling kernels, once per installation, loading compiled ones,
        waiting for another process that compiles them, or starting a child process. None if
        unknown: in results stored before it was told apart from `solve_s`.
    work_limit, work
        The limit in units of work (`moeopt.core.clock`) and the units spent; None where time was
        limited alone.
    """

    problem: str
    instance: str
    method: str
    engine: str | None
    seed: int
    workers: int
    status: Status
    termination: Termination
    objective: Objective | None = None
    bound: Objective | None = None
    solution: SolutionEnvelope | None = None
    violations: list[Violation] = field(default_factory=list)
    build_s: float = 0.0
    solve_s: float = 0.0
    trace: list[tuple[float, Objective | None, Objective | None]] = field(default_factory=list)
    raw_status: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    compile_s: float | None = None
    work_limit: float | None = None
    work: float | None = None
    proof: Proof | None = None
    evidence: Evidence = field(default_factory=Evidence)
    solved: InstanceEnvelope | None = field(default=None, repr=False, compare=False)

    @property
    def said(self) -> str:
        """The status in words: of what one engine claims, that nothing confirmed it."""
        if self.proof == "single" and self.status == "unknown":
            return "unknown: called infeasible by one engine, not confirmed"
        if self.proof == "single" and self.objective is not None and self.objective == self.bound:
            return "feasible: closed by one engine, not confirmed"
        return self.status

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective, or None if either is unknown.

        Of a lexicographic objective it is the gap of the first entry: 0 does not mean optimal.
        """
        if self.objective is None or self.bound is None:
            return None
        return relative(self.objective, self.bound, self.objective)

    def __repr__(self) -> str:
        gap = "unknown" if self.gap is None else f"{100 * self.gap:.3g} %"
        known = f"objective {with_unit(self.problem, self.objective)}"
        known += f", bound {with_unit(self.problem, self.bound)}, gap {gap}"
        if self.status == "failed":
            known = self.raw_status
        seconds = f"{self.build_s + self.solve_s:.3g} s{compiling(self.compile_s)}"
        return (
            f"Result({self.problem}, {self.instance}, {self.method}: {self.said}, "
            f"{known}, {seconds})"
        )

    def plot(self) -> "Figure":
        """Return the solution's schedule as a Gantt chart, a matplotlib figure.

        Raises
        ------
        InputError
            If there is no solution, the problem's solutions are not schedules, or matplotlib is not
            installed.

        Examples
        --------
        >>> import moeopt
        >>> folder = "instances/tri_domain/esft-window"
        >>> result = moeopt.solve(f"{folder}/window-law-layer4-batch256.json")
        >>> result.plot().savefig("schedule.svg")  # doctest: +SKIP
        """
        if self.solution is None or self.solved is None:
            raise InputError("plot: the result has no solution, or no instance")
        if not installed("matplotlib"):
            raise InputError(f"plot: needs {package('matplotlib')}")
        from moeopt.problems.execute import critical_lanes
        from moeopt.problems.pictures import Panel, draw_gantt

        drawn = critical_lanes(self.solved, self.solution)
        if drawn is None:
            raise InputError(f"plot: solutions of {self.problem} are not schedules")
        title = f"{self.method} on {self.instance}: {with_unit(self.problem, self.objective)}"
        return draw_gantt([Panel(title, drawn.lanes, drawn.caption)])

    def to_dict(self) -> JsonObject:
        """Return the fields, and `gap`, as JSON types."""
        names = [field.name for field in fields(self) if field.name != "solved"]
        data = {name: getattr(self, name) for name in names}
        data["evidence"] = [asdict(claim) for claim in self.evidence.claims]
        data["gap"] = self.gap
        data["solution"] = None if self.solution is None else self.solution.model_dump(mode="json")
        return data


def failed_result(
    instance: tuple[str, str], method: str, seed: int, workers: int, reason: str
) -> Result:
    """Return what stands for a solve that raised: nothing but its status and the reason.

    `instance` is the names of the problem and of the instance.
    """
    return Result(
        *instance,
        method,
        None,
        seed,
        workers,
        status="failed",
        termination="completed",
        raw_status=reason,
    )


def compiling(compile_s: float | None) -> str:
    """Return what is said of the seconds of compiling: nothing where kernels were only loaded."""
    return f" + {compile_s:.3g} s compiling" if (compile_s or 0.0) >= NOTABLE_S else ""


def nanoseconds(value: int) -> str:
    """Return a time for people, all digits."""
    return f"{value:,} ns"


def with_unit(
    problem: str, objective: Objective | None, time: Callable[[int], str] = nanoseconds
) -> str:
    """Return an objective for people, each entry with its unit or name; a dash if unknown."""
    if objective is None:
        return "-"
    names = get_problem(problem).minimises()
    pairs = zip(entries(objective), names, strict=True)
    return ", ".join(
        time(value) if name.endswith("_ns") else f"{name.replace('_', ' ')} {value:,}"
        for value, name in pairs
    )


@dataclass(frozen=True)
class Verdict:
    """What the checker says: an objective or None, and (constraint ID, sentence) pairs."""

    objective: Objective | None
    violations: list[Violation]

    @property
    def valid(self) -> bool:
        """Whether nothing is violated."""
        return not self.violations


def check(instance: InstanceLike, solution: SolutionLike) -> Verdict:
    """Check a solution: which constraints it violates, or what it costs.

    Parameters
    ----------
    instance, solution
        Files, or from `moeopt.load` and `moeopt.load_solution`, from a result, or made in code.

    Returns
    -------
    Verdict
        `objective`, in the unit that the problem's spec names, or None if a rule is broken;
        `violations`, pairs of constraint ID and sentence.

    Raises
    ------
    InputError
        If the solution is not one of this instance, by problem or by name, or an argument is of
        another type.

    Examples
    --------
    >>> import moeopt
    >>> name = "esft-window/window-law-layer4-batch256.json"
    >>> instance = moeopt.load(f"instances/tri_domain/{name}")
    >>> best = moeopt.load_solution(f"instances/tri_domain/solutions/{name}")
    >>> moeopt.check(instance, best)
    Verdict(objective=3965000, violations=[])
    """
    instance, solution = as_instance(instance), as_solution(solution)
    check_pair(instance, solution)
    problem = get_problem(instance.problem)
    violations = problem.violations(instance, solution)
    return Verdict(None if violations else problem.objective(instance, solution), violations)
