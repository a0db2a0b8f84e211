"""What a result says: two-level status, None for unknown, bounds, traces, limits."""

import json
import math

import pytest

import moeopt
from moeopt import Result
from tests.problems import instances_to_break
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.tri_domain import Instance

METHODS = moeopt.methods("tri_domain")
EXACT = ["auto", "threshold", "cp-sat", "milp", "brute-force"]


@pytest.fixture
def instance() -> Instance:
    """Return an instance on which the heuristic is not optimal."""
    return random_instance(4, experts=7)


def partition(experts: int = 40) -> Instance:
    """Return an instance that no method proves: splitting large random numbers evenly."""
    import random

    rng = random.Random(1)
    costs = [rng.randint(10**11, 10**12) for _ in range(experts)]
    row = {"tokens": 1, "resident": False, "dimm": None, "ndp_ns": None}
    row |= {"gpu_dram_ns": 0, "cpu_dram_ns": 0}
    rows = [row | {"expert": n, "gpu_ns": c, "cpu_ns": c} for n, c in enumerate(costs)]
    return Instance(name="partition", dimms=1, experts=rows)


@pytest.mark.parametrize("method", METHODS)
def test_a_result_is_complete_and_consistent(method: str, instance: Instance) -> None:
    """Every method: the checker's objective, an honest status, JSON that survives a round trip."""
    result = moeopt.solve(instance, method)
    assert result.solution is not None
    verdict = moeopt.check(instance, result.solution)
    assert (verdict.valid, verdict.objective) == (True, result.objective)
    assert result.violations == []
    assert result.termination == "completed"
    if method in EXACT:
        assert (result.status, result.gap) == ("optimal", 0)
        assert result.bound == result.objective
    else:
        assert (result.status, result.bound, result.gap) == ("feasible", None, None)
    data = json.loads(json.dumps(result.to_dict()))
    assert data["solution"]["assignment"] == list(result.solution.assignment)
    assert {"moeopt", "python"} <= set(data["versions"])


@pytest.mark.parametrize("method", EXACT)
def test_nothing_known_is_none(method: str, instance: Instance) -> None:
    """A limit that has passed before the start: unknown, and no number in place of knowledge."""
    result = moeopt.solve(instance, method, time_limit_s=1e-9)
    assert (result.status, result.termination) == ("unknown", "time_limit")
    assert (result.objective, result.bound, result.gap, result.solution) == (None,) * 4


@pytest.mark.parametrize(
    ("method", "engine"), [("cp-sat", None), ("milp", "highs"), ("milp", "cbc")]
)
def test_a_limit_that_cuts_in_leaves_a_feasible_bracket(method: str, engine: str | None) -> None:
    """Stopped early: the best schedule so far and a bound below it; never called optimal."""
    result = moeopt.solve(partition(), method, engine=engine, time_limit_s=1.0)
    assert result.status == "feasible"
    assert result.objective is not None
    assert result.bound is not None
    assert result.bound < result.objective
    assert result.gap == (result.objective - result.bound) / result.objective


@pytest.mark.parametrize("engine", ["highs", "cbc", "scip"])
def test_an_instance_without_solution_is_infeasible(engine: str) -> None:
    """Also where only rounding shows it: CBC writes "Integer infeasible" then."""
    result = moeopt.solve(instances_to_break.placement(13), "milp", engine=engine)
    assert (result.status, result.objective) == ("infeasible", None)


def build_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a constraint's constructor take an hour by the clock."""
    from time import perf_counter

    from tests.rooms.core import clock
    from tests.rooms.tri_domain import cpsat

    late = [0.0]
    monkeypatch.setattr(clock, "perf_counter", lambda: perf_counter() + sum(late))
    slow = lambda self: late.append(3600.0)  # noqa: E731
    monkeypatch.setattr(cpsat.Model, "td_c2_ndp_where_localized", slow)


def test_the_limit_covers_building(monkeypatch: pytest.MonkeyPatch, instance: Instance) -> None:
    """Time spent in the model's constructor is taken from the solver's."""
    build_for_an_hour(monkeypatch)
    result = moeopt.solve(instance, "cp-sat", time_limit_s=600, warm_start=False)
    assert (result.status, result.termination) == ("unknown", "time_limit")
    assert result.raw_status == "TIME_LIMIT_BEFORE_SOLVING"


def test_a_starting_solution_survives_the_limit(
    monkeypatch: pytest.MonkeyPatch, instance: Instance
) -> None:
    """If building takes all the time, the heuristic's schedule and the bound remain."""
    start = moeopt.solve(instance, "trimoe")
    build_for_an_hour(monkeypatch)
    result = moeopt.solve(instance, "cp-sat", time_limit_s=600)
    assert (result.status, result.termination) == ("feasible", "time_limit")
    assert result.solution == start.solution
    assert result.bound is not None


def test_the_trace_improves_step_by_step() -> None:
    """Seconds rise, incumbents fall, bounds rise; the last point is the result."""
    seen = []
    result = moeopt.solve(
        partition(), "cp-sat", work_limit=0.3, on_progress=lambda *point: seen.append(point)
    )
    assert seen == result.trace
    assert len(result.trace) > 1
    for (t0, o0, b0), (t1, o1, b1) in zip(result.trace, result.trace[1:], strict=False):
        assert t0 <= t1
        assert (o1 or 0) <= (o0 or math.inf)
        assert (b1 or 0) >= (b0 or 0)
    assert result.trace[-1][1:] == (result.objective, result.bound)


def test_one_worker_and_one_seed_give_one_answer(instance: Instance) -> None:
    """The same call gives the same solution, incumbent by incumbent."""

    def answer(seed: int) -> tuple[object, ...]:
        result = moeopt.solve(instance, "cp-sat", seed=seed, workers=1, warm_start=False)
        return result.solution, [point[1:] for point in result.trace]

    assert answer(3) == answer(3)


def test_a_gap_of_zero_objective_is_zero() -> None:
    """No division by zero where there is nothing to do."""
    row = {"expert": 0, "tokens": 1, "resident": True, "dimm": None, "ndp_ns": None}
    row |= {"gpu_ns": 0, "cpu_ns": 9, "gpu_dram_ns": 0, "cpu_dram_ns": 9}
    result = moeopt.solve(Instance(name="nothing", dimms=1, experts=[row]))
    assert (result.objective, result.bound, result.gap) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "simplex"}, "method: 'simplex' is unknown for tri_domain; known: auto, greedy"),
        ({"method": "milp", "engine": "glop"}, "engine: 'glop' is unknown; known engines: highs"),
        (
            {"method": "greedy", "engine": "highs"},
            "engine: 'highs' can be used with method 'milp' only",
        ),
        ({"time_limit_s": 0}, "time limit: must be a positive number of seconds, not 0"),
        ({"without": {"TD-C9"}}, "without: 'TD-C9' is not a constraint; known: TD-C1"),
        ({"method": "greedy", "without": {"TD-C1"}}, "without: method 'greedy' has no constraints"),
    ],
)
def test_unusable_options_are_named(
    options: dict[str, object], message: str, instance: Instance
) -> None:
    """One line that says which option and what would be right."""
    with pytest.raises(moeopt.InputError) as caught:
        moeopt.solve(instance, **options)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("engine", ["gurobi", "cplex"])
def test_an_engine_that_is_not_installed_is_named(engine: str, instance: Instance) -> None:
    """Solvers that users may have are offered, and missed politely."""
    import pulp

    if {"gurobi": pulp.GUROBI, "cplex": pulp.CPLEX_PY}[engine](msg=False).available():
        assert moeopt.solve(instance, "milp", engine=engine).status == "optimal"
    else:
        with pytest.raises(
            moeopt.InputError, match=f"^engine: {engine} is not installed here.*pip"
        ):
            moeopt.solve(instance, "milp", engine=engine)


@pytest.mark.usefixtures("template_problem")
def test_infeasible_is_proven_not_guessed() -> None:
    """Exact methods prove it; the heuristic only finds nothing."""
    from formulations.TEMPLATE.problem.instance import Instance as Template

    rows = [{"size_bytes": 6, "miss_ns": 5}, {"size_bytes": 7, "miss_ns": 9}]
    tight = Template(name="tight", capacity_bytes=10, min_kept=2, experts=rows)
    for method in ("dp", "cp-sat", "milp", "brute-force"):
        result: Result = moeopt.solve(tight, method)
        assert (result.status, result.termination) == ("infeasible", "completed")
        assert (result.objective, result.bound, result.solution) == (None, result.bound, None)
    assert moeopt.solve(tight, "densest-first").status == "unknown"
    for engine in ("cbc", "scip"):
        assert moeopt.solve(tight, "milp", engine=engine).status == "infeasible"


def test_an_engine_that_gives_up_is_no_traceback(instance: Instance) -> None:
    """A child that ends, such as for want of memory, says so; nothing is known then."""
    from tests.rooms.solvers import Process, engines, kept

    with kept("engines", lambda: Process(engines.__name__)) as child:
        ask = child.ask
        child.ask = lambda *given, **_: (child.running.kill(), ask(*given))[1]
    result = moeopt.solve(instance, "milp", warm_start=False)
    assert (result.status, result.proof) == ("unknown", None)
    assert result.raw_status == "highs gave up: its process was ended by SIGKILL"
    assert moeopt.solve(instance, "milp", warm_start=False).status == "optimal"
