"""The checker, the best split and the numbers of an instance, by hand and against other solvers."""

import random
import re
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from moeopt import InputError, generate, solve
from tests.problems.replication.replication_random_instances import random_instance
from tests.refusals import refused
from tests.rooms.problems import compare
from tests.rooms.replication import (
    ASSUMPTIONS,
    KERNELS,
    Instance,
    Solution,
    assume,
    device_loads,
    differences,
    facts,
    free_flow,
    moves_units,
    objective,
    peaks_units,
    violations,
)
from tests.rooms.sim import get_model

TWO_NODES = Instance.from_arrays(
    loads=[6, 3, 2, 1],
    devices=4,
    slots=2,
    nodes=2,
    groups=2,
    max_copies=3,
    current=[[0], [0], [2], [3]],
    move_cost=5,
    name="two nodes",
)


def placed(*copies: tuple[int, ...], instance: Instance = TWO_NODES) -> Solution:
    """Return a solution of an instance."""
    return Solution(instance=instance.name, copies=copies)


VALID = placed((0, 1), (1,), (2,), (3,))

WRONG: dict[str, tuple[Solution, set[str]]] = {
    "no copy": (placed((0, 1), (), (2,), (3,)), {"RP-C1"}),
    "a row is missing": (placed((0, 1), (1,), (2,)), {"RP-C1"}),
    "too many": (placed((0, 1, 0, 1), (1,), (2,), (3,)), {"RP-C1", "RP-C2", "RP-C3"}),
    "full": (placed((0,), (0,), (2,), (2, 2)), {"RP-C2", "RP-C3"}),
    "no such device": (placed((0,), (4,), (2,), (3,)), {"RP-C2", "RP-C4"}),
    "twice on a device": (placed((0, 0), (1,), (2,), (3,)), {"RP-C3"}),
    "two nodes": (placed((0, 2), (1,), (2,), (3,)), {"RP-C4"}),
    "a group in two nodes": (placed((0,), (2,), (2,), (3,)), {"RP-C4"}),
}


def test_a_valid_solution_and_its_numbers() -> None:
    """In sixths of a token: 18 and 18 + 18 on the first node; two copies are new."""
    assert violations(TWO_NODES, VALID) == []
    assert device_loads(TWO_NODES, VALID) == [[18, 36, 12, 6]]
    assert (peaks_units(TWO_NODES, VALID), moves_units(TWO_NODES, VALID)) == (36, 10)
    assert objective(TWO_NODES, VALID) == 46
    said = facts(TWO_NODES, VALID)
    assert said == {
        "bottleneck": "device 1",
        "copies": 5,
        "most_copies": 2,
        "moved": 2,
        "balancedness_permille": 500,
    }
    best = placed((0,), (1,), (2,), (3,))
    assert list(differences(TWO_NODES, VALID, best)) == [
        (6, "expert 0 (6 tokens)", "2 copies", "1 copy")
    ]


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_named(what: str) -> None:
    """By its rule, and by no other."""
    solution, rules = WRONG[what]
    assert {rule for rule, _ in violations(TWO_NODES, solution)} == rules


@pytest.mark.parametrize(
    ("claim", "rules"),
    [(46, []), (45, ["RP-C6"]), (36, ["RP-C6"]), (35, ["RP-C5"]), (5, ["RP-C5", "RP-C6"])],
)
def test_a_claim_is_held_to_loads_and_moves(claim: int, rules: list[str]) -> None:
    """What explains it is named: the moves, the loads, or both."""
    assert [rule for rule, _ in violations(TWO_NODES, VALID, claim)] == rules


def test_the_best_split_is_the_linear_programs() -> None:
    """On random copies; rounded up to whole units."""
    rng = random.Random(0)
    for _ in range(60):
        experts, devices = rng.randint(1, 6), rng.randint(1, 5)
        supply = [rng.randint(0, 20) for _ in range(experts)]
        copies = [rng.sample(range(devices), rng.randint(1, devices)) for _ in range(experts)]
        pairs = [(e, g) for e, row in enumerate(copies) for g in row]
        cost = np.array([0.0] * len(pairs) + [1.0])
        whole = np.zeros((experts, len(cost)))
        room = np.zeros((devices, len(cost)))
        for column, (e, g) in enumerate(pairs):
            whole[e, column] = room[g, column] = 1
        room[:, -1] = -1
        found = linprog(cost, A_ub=room, b_ub=np.zeros(devices), A_eq=whole, b_eq=supply)
        loads = [sum(of.values()) for of in free_flow(supply, copies, devices)]
        assert sum(loads) == sum(supply)
        assert max(loads) == int(np.ceil(found.fun - 1e-7))


def test_the_event_engine_agrees() -> None:
    """With nodes, moves, weights, and either split."""
    for seed in range(24):
        instance = random_instance(seed, slots=4)
        found = solve(instance, "eplb-hierarchical" if seed % 2 else "longest-first")
        if found.solution is not None:
            assert compare(instance, found.solution).agree


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "nodes": ({"nodes": 2, "devices": 3}, "nodes: must divide the 3 devices, not 2"),
    "groups": ({"groups": 3}, "windows: groups must divide the 2 experts, not 3"),
    "an expert more": ({"current": [[0]]}, "current: has 1 experts, the windows have 2"),
    "twice": ({"current": [[0, 0], [1]]}, "current[0]: names a device twice"),
    "nowhere": ({"current": [[2], [1]]}, "current[0]: there is no device 2, only 2"),
    "many copies": ({"max_copies": 25}, "max_copies: must be at most 24, not 25"),
}


@pytest.mark.parametrize("what", BAD)
def test_wrong_data_is_one_clear_line(what: str) -> None:
    """With the field, the value and what would be right."""
    data: dict[str, Any] = {"loads": [1, 2], "devices": 2, "slots": 2}
    changes, message = BAD[what]
    assert refused(Instance.from_arrays, **data | changes) == message


def test_sums_that_leave_64_bits_are_refused() -> None:
    """Loads of 2**40 tokens in units of lcm(1..24)."""
    with pytest.raises(InputError, match=r"windows: all loads or times, .* is the most"):
        Instance.from_arrays(loads=[2**40], devices=1, slots=1, max_copies=24)


def test_the_gpus_assumption_says_what_its_times_come_to() -> None:
    """Tokens that take as long as reading an expert of DeepSeek-V3; the generator has the times."""
    [kernel] = [one for one in ASSUMPTIONS if one.name == "kernel"]
    assert set(kernel.values) == set(KERNELS)
    shape = get_model("deepseek-v2-lite")
    for gpu, times in KERNELS.items():
        v3 = times.of(7168, 2048)
        said = int(re.findall(r"(\d+) tokens", kernel.values[gpu])[0])
        assert said == round(v3["read_ns"] / (v3["token_ns"] + v3["pass_ns"]))
        made = generate(
            "replication", machine="trimoe", model="deepseek-v2-lite", workload="trimoe-skew",
            batch=64, devices=8, slots=9, first_window=0, work="kernel", kernel=gpu,
        )  # fmt: skip
        own = times.of(shape.hidden_size, shape.expert_intermediate_size)
        assert {name: getattr(made, name) for name in own} == own
        assert kernel.not_default(made.provenance["options"]) in {None, gpu}
        again = assume(made, "kernel", "h100-fp8")
        assert again.read_ns == KERNELS["h100-fp8"].of(2048, 1408)["read_ns"]
