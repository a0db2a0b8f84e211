"""Run methods on instances and hold each against the best that is known."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from moeopt.errors import InputError
from moeopt.problems.envelope import InstanceEnvelope
from moeopt.problems.files import load
from moeopt.problems.objective import Objective, entries, relative
from moeopt.problems.registry import get_problem
from moeopt.solve.methods import get_method, problem_methods
from moeopt.solve.result import Result
from moeopt.solve.run import solve


@dataclass(frozen=True)
class Row:
    """One method on one instance.

    Attributes
    ----------
    family
        The folder the instance came from, or "-".
    optimum
        The proven optimum of the instance, by whichever method; None if not proven.
    best_bound
        The best bound of all methods on the instance.
    facts
        What the problem's view says about the solution, e.g. the bottleneck.
    """

    family: str
    result: Result
    optimum: Objective | None
    best_bound: Objective | None
    facts: dict[str, str | int] = field(default_factory=dict)

    @property
    def optimal(self) -> bool:
        """Whether the objective is known to be the optimum, in every entry."""
        return self.optimum is not None and self.result.objective == self.optimum

    @property
    def excess(self) -> float | None:
        """(objective - optimum) / optimum by the first entries; None if either is unknown."""
        return _ratio(self.result.objective, self.optimum)

    @property
    def excess_at_most(self) -> float | None:
        """An upper limit of the excess, from the best bound; None without objective or bound."""
        return _ratio(self.result.objective, self.best_bound)

    @property
    def seconds(self) -> float:
        """Time for building and solving."""
        return self.result.build_s + self.result.solve_s


def gap(
    paths: Iterable[str | Path | InstanceEnvelope],
    methods: Sequence[str] | None = None,
    *,
    time_limit_s: float = 60.0,
    seed: int = 0,
    workers: int = 1,
    on_start: Callable[[int, int, str, str], None] | None = None,
) -> list[Row]:
    """Run methods on instances and say how far each is above the optimum.

    Parameters
    ----------
    paths
        Instance files, folders to search for them, or instances.
    methods
        Names of methods; by default every heuristic of the problem. Where no exact method is among
        them, the problem's first exact method is added: without an optimum there is no excess.
    time_limit_s, seed, workers
        Of each solve, as in `moeopt.solve`.
    on_start
        Called with (solves done, solves in all, instance, method) before each solve.

    Returns
    -------
    list of Row
        Instance by instance in the order given, methods in the order given. After Ctrl-C: what was
        solved so far.

    Raises
    ------
    InputError
        If a file or method cannot be used, or a folder holds no instance.
    """
    instances = [found for path in paths for found in _load_all(path)]
    plan = [(family, i, _methods(i, methods)) for family, i in instances]
    total, done = sum(len(names) for *_, names in plan), 0
    rows: list[Row] = []
    for family, instance, names in plan:
        results: list[Result] = []
        try:
            for name in names:
                if on_start:
                    on_start(done, total, instance.name, name)
                results.append(
                    solve(instance, name, time_limit_s=time_limit_s, seed=seed, workers=workers)
                )
                done += 1
                if results[-1].termination == "interrupted":
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            return rows + _compared(family, instance, results)
        rows += _compared(family, instance, results)
    return rows


def instance_files(folder: Path) -> list[Path]:
    """Return the instance files below a folder, in order: no indexes, no solutions."""
    return sorted(
        path
        for path in folder.rglob("*.json*")
        if path.name.endswith((".json", ".json.gz"))
        and path.name not in ("index.json", "best_known.json")
        and "solutions" not in path.relative_to(folder).parts
    )


def _load_all(source: str | Path | InstanceEnvelope) -> list[tuple[str, InstanceEnvelope]]:
    if isinstance(source, InstanceEnvelope):
        return [("-", source)]
    path = Path(source)
    if not path.is_dir():
        return [(path.resolve().parent.name or "-", load(path))]
    files = instance_files(path)
    if not files:
        raise InputError(f"{path}: holds no instance files (*.json, *.json.gz)")
    return [(file.resolve().parent.name, load(file)) for file in files]


def _methods(instance: InstanceEnvelope, asked: Sequence[str] | None) -> list[str]:
    problem = get_problem(instance.problem)
    available = problem_methods(problem)
    if asked is None:
        names = [name for name, method in available.items() if method.kind == "heuristic"]
    else:
        names = [get_method(problem, name).name for name in asked]
    if not any(available[name].kind == "exact" for name in names):
        names.append(next(name for name, method in available.items() if method.kind == "exact"))
    return names


def _compared(family: str, instance: InstanceEnvelope, results: list[Result]) -> list[Row]:
    bound = max((r.bound for r in results if r.bound is not None), key=entries, default=None)
    best = min((r.objective for r in results if r.objective is not None), key=entries, default=None)
    optimum = best if best is not None and best == bound else None
    problem = get_problem(instance.problem)
    describe = problem.part("view").facts if problem.has("view") else lambda *_: {}
    return [
        Row(family, r, optimum, bound, describe(instance, r.solution) if r.solution else {})
        for r in results
    ]


def _ratio(objective: Objective | None, reference: Objective | None) -> float | None:
    if objective is None or reference is None:
        return None
    return relative(objective, reference, reference)
