"""The MILP engines on plain arrays, through their child process."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.rooms.core import Program, by_work
from tests.rooms.solvers import answer


def knapsack(capacity: float, least: float = -np.inf) -> Program:
    """Keep what is worth most: sizes 3, 4, 5, worth 4, 5, 6."""
    return Program(
        cost=np.array([-4.0, -5.0, -6.0]),
        lower=np.zeros(3),
        upper=np.ones(3),
        integer=np.ones(3, dtype=np.int64),
        rows=csr_array(np.array([[3.0, 4.0, 5.0]])),
        row_lower=np.array([least]),
        row_upper=np.array([capacity]),
    )


ENGINES = ("highs", "scip", "cbc")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("capacity", "worth"), [(12, 15), (9, 11), (8, 10), (7, 9), (2, 0)])
def test_optima_by_hand(capacity: int, worth: int, engine: str) -> None:
    """The bound comes with the value, and meets it."""
    found = answer(engine, knapsack(capacity), 10)
    assert found["status"] == "optimal"
    assert found["objective"] == pytest.approx(-worth)
    assert found["bound"] == pytest.approx(-worth)
    assert knapsack(capacity).cost @ found["values"] == pytest.approx(-worth)


@pytest.mark.parametrize("engine", ENGINES)
def test_unknown_is_absent(engine: str) -> None:
    """Without a solution there are no numbers."""
    found = answer(engine, knapsack(2, least=1), 10)
    assert found["status"] == "infeasible"
    assert not {"objective", "values", "bound"} & found.keys()


@pytest.mark.parametrize("engine", ["highs", "scip"])
def test_a_constant_counts(engine: str) -> None:
    """It is part of objective and bound."""
    program = knapsack(9)
    object.__setattr__(program, "constant", 100.0)
    found = answer(engine, program, 10)
    assert (found["objective"], found["bound"]) == (pytest.approx(89), pytest.approx(89))


def makespan(jobs: int, machines: int) -> Program:
    """Assign jobs to machines, each with a random time on each: the latest end counts."""
    times = np.random.default_rng(3).integers(10**5, 10**6, (machines, jobs))
    columns = jobs * machines + 1
    rows = np.zeros((jobs + machines, columns))
    for machine in range(machines):
        here = slice(machine * jobs, (machine + 1) * jobs)
        rows[:jobs, here] = np.eye(jobs)
        rows[jobs + machine, here] = times[machine]
        rows[jobs + machine, -1] = -1
    return Program(
        cost=np.eye(columns)[-1],
        lower=np.zeros(columns),
        upper=np.append(np.ones(columns - 1), 1e7),
        integer=np.append(np.ones(columns - 1, dtype=np.int64), 0),
        rows=csr_array(rows),
        row_lower=np.append(np.ones(jobs), np.full(machines, -np.inf)),
        row_upper=np.append(np.ones(jobs), np.zeros(machines)),
    )


HARD = makespan(60, 6)
"""Branch and bound does not close it for long."""


@pytest.mark.parametrize("engine", ["highs", "scip"])
def test_a_work_limit_is_one_of_nodes(engine: str) -> None:
    """The same comes out twice; more work takes more nodes, and is reported."""
    found = []
    for work in (0.074, 0.074, 0.078):
        with by_work() as clock:
            said = answer(engine, HARD, work)
        assert said["status"] == "limit"
        found.append((said["nodes"], said["bound"], said["objective"], clock.units))
    assert found[0] == found[1]
    assert found[2][0] > found[0][0]
    assert found[2][3] > found[0][3] > 0


def test_a_root_that_does_not_fit_is_not_begun() -> None:
    """A limit of nodes would not end it."""
    with by_work():
        said = answer("highs", HARD, 1e-6)
    assert said == {
        "raw_status": "its root may take longer than the work limit",
        "status": "limit",
    }
