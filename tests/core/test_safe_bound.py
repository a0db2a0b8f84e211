"""What may be claimed from a solver that computes in floats."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.rooms.core import Program, claim_tolerance, distance, safe_bound
from tests.rooms.solvers import TOLERANCE, answer, engines, milp
from tests.shares import shares


def min_max(cost_of: list[list[int]], cap: float = np.inf) -> Program:
    """Return the program of a makespan: job j takes cost_of[m][j] on one of the machines m."""
    machines, jobs = len(cost_of), len(cost_of[0])
    columns = machines * jobs + 1
    rows = np.zeros((jobs + machines, columns))
    for job in range(jobs):
        rows[job, job:-1:jobs] = 1
    for machine in range(machines):
        rows[jobs + machine, machine * jobs : (machine + 1) * jobs] = cost_of[machine]
        rows[jobs + machine, -1] = -1
    return Program(
        cost=np.eye(columns)[-1],
        lower=np.zeros(columns),
        upper=np.append(np.ones(columns - 1), cap),
        integer=np.append(np.ones(columns - 1, dtype=np.int64), 0),
        rows=csr_array(rows),
        row_lower=np.append(np.ones(jobs), np.full(machines, -np.inf)),
        row_upper=np.append(np.ones(jobs), np.zeros(machines)),
    )


def random_program(seed: int) -> Program:
    """Return a program of six columns on 0..2, two of them without a bound of their own."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-3, 4, (5, 6)).astype(float)
    rows[:2] = np.abs(rows[:2])
    rows[0] += 1  # bounds whatever has no bound
    lower, upper = np.full(5, -np.inf), rows @ rng.integers(0, 3, 6) + rng.integers(0, 3, 5)
    lower[2] = upper[2] - 3
    lower[3], upper[3] = upper[3] - 4, np.inf
    return Program(
        cost=rng.integers(-1, 4, 6).astype(float),
        lower=np.zeros(6),
        upper=np.where(np.arange(6) < 2, np.inf, 2.0),
        integer=np.ones(6, dtype=np.int64),
        rows=csr_array(rows),
        row_lower=lower,
        row_upper=upper,
        constant=float(rng.integers(0, 9)),
    )


def distance_at(program: Program, x: np.ndarray) -> float:
    """Return how far a point is from its bounds and sides, by the definition."""
    total = 0.0
    values = [*zip(program.lower, x, program.upper, strict=True)]
    values += zip(program.row_lower, program.rows @ x, program.row_upper, strict=True)
    for least, value, most in values:
        if np.isfinite(least) and np.isfinite(most):
            total += most - least
        else:
            total += value - least if np.isfinite(least) else most - value
    return total


@pytest.mark.parametrize("seeds", shares(8, 30))
def test_no_point_is_farther(seeds: range) -> None:
    """Of all points on a grid that cost at most the claim."""
    for seed in seeds:
        program = random_program(seed)
        points = np.array([*itertools.product((0, 1, 2), repeat=6)], dtype=float)
        activity = points @ program.rows.toarray().T
        inside = (activity <= program.row_upper).all(1) & (activity >= program.row_lower).all(1)
        points = points[inside]
        assert len(points)
        costs = points @ program.cost + program.constant
        for claim in (costs.min(), np.median(costs), costs.max()):
            most = distance(program, float(claim))
            assert np.isfinite(most)
            assert max(distance_at(program, x) for x in points[costs <= claim]) <= most + 1e-9


def test_the_distance_of_a_makespan() -> None:
    """By hand: 1 per binary, the makespan, and per machine the makespan that it is not busy."""
    assert distance(min_max([[3, 4, 5], [5, 6, 7]]), 10.0) == pytest.approx(6 + 10 + 2 * 10)


def test_less_is_claimed_where_the_solver_may_err() -> None:
    """Four binaries and three times 5000 units of distance, times the tolerance."""
    program = min_max([[3000, 4000], [5000, 6000]])
    assert safe_bound(program, 5000.0, 1e-9) == 5000
    assert safe_bound(program, 5000.00001, 1e-9) == 5000  # within the cutoff
    assert safe_bound(program, 5000.001, 1e-9) == 5001
    assert safe_bound(program, 5000.0, 1e-3) == 5000 - 15


def test_units() -> None:
    """In thousandths of a model's unit, rounded up."""
    program = min_max([[3, 4], [5, 6]])
    assert safe_bound(program, 5.0, 1e-9, unit=1000) == 5000
    assert safe_bound(program, 5.001, 1e-9, unit=1000) == 5001


def test_a_constant_is_part_of_the_claim() -> None:
    """And not of what the columns may cost."""
    with_constant = min_max([[3, 4], [5, 6]])
    object.__setattr__(with_constant, "constant", 1e6)
    assert distance(with_constant, 1e6 + 5) == distance(min_max([[3, 4], [5, 6]]), 5.0)


def test_no_claim_without_an_end() -> None:
    """A column that neither bounds, rows nor costs limit can err without limit."""
    program = min_max([[3, 4], [5, 6]])
    object.__setattr__(program, "cost", np.zeros(5))
    assert safe_bound(program, 5.0, 1e-9) is None


@pytest.mark.parametrize("seed", range(20))
def test_highs_is_never_above_the_optimum(seed: int) -> None:
    """Makespans of up to 10**7 units, as large as models may be, enumerated in integers."""
    rng = np.random.default_rng(seed)
    costs = rng.integers(10**6, 3 * 10**6, (2, 9))
    choices = np.array([*itertools.product((0, 1), repeat=9)])
    loads = np.stack([(choices == machine) @ costs[machine] for machine in (0, 1)])
    optimum = int(loads.max(axis=0).min())
    program = min_max(costs.tolist())
    found = answer("highs", program, 30)
    assert found["status"] == "optimal"
    bound = safe_bound(program, found["bound"], found["tolerance"])
    assert bound is not None
    assert optimum - 1 <= bound <= optimum


def test_highs_is_told_the_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    """The argument rests on it."""
    told: list[Any] = []
    honest = engines.mathopt.solve

    def spy(model: Any, kind: Any, *, params: Any) -> Any:
        told.append(params.highs.double_options)
        return honest(model, kind, params=params)

    monkeypatch.setattr(engines.mathopt, "solve", spy)
    asked: Any = {"seconds": 30.0, "nodes": None, "seed": 0, "attempts": milp.ATTEMPTS}
    assert engines.highs(min_max([[3, 4], [5, 6]]), asked)["status"] == "optimal"
    [options] = told
    assert options["mip_feasibility_tolerance"] == pytest.approx(10 * TOLERANCE)
    assert options["dual_feasibility_tolerance"] == TOLERANCE


def test_highs_is_asked_once_more_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a wider tolerance, which the claim is then lowered by."""
    told: list[float] = []
    honest = engines.mathopt.solve

    def fails(model: Any, kind: Any, *, params: Any) -> Any:
        told.append(params.highs.double_options["dual_feasibility_tolerance"])
        if len(told) == 1:
            raise RuntimeError("an error")
        return honest(model, kind, params=params)

    monkeypatch.setattr(engines.mathopt, "solve", fails)
    asked: Any = {"seconds": 30.0, "nodes": None, "seed": 0, "attempts": milp.ATTEMPTS}
    said = engines.highs(min_max([[3, 4], [5, 6]]), asked)
    assert (said["status"], said["tolerance"]) == ("optimal", milp.WIDER_TOLERANCE)
    assert told == [TOLERANCE, milp.WIDER_TOLERANCE]


def test_a_claimed_objective_may_be_off_a_little() -> None:
    """A hundred-thousandth, as integrality is met to a millionth."""
    assert claim_tolerance(10**7) == 100
