"""The checker of balance: each violation is named, and its flow shop is the best one."""

import random
from itertools import permutations

import pytest

from tests.problems.balance.balance_random_instances import KINDS, random_instance
from tests.rooms.balance import (
    CONSTRAINTS,
    Instance,
    Solution,
    johnson_ns,
    objective,
    sides,
    violations,
)

# Two units with two slices each of experts 4 (resident), 7 and 9; a prompt of 3 tokens.
INSTANCE = Instance(
    name="three",
    stage="prefill",
    ndp_units=2,
    slices_per_unit=2,
    seq_len=3,
    activation_ns=5,
    slice_transfer_ns=10,
    experts=[
        {"expert": 4, "tokens": 6, "resident": True, "slice_gpu_ns": 3, "slice_ndp_ns": 20},
        {"expert": 7, "tokens": 4, "resident": False, "slice_gpu_ns": 12, "slice_ndp_ns": 15},
        {"expert": 9, "tokens": 1, "resident": False, "slice_gpu_ns": 2, "slice_ndp_ns": 10},
    ],
)


def solution(*rows: tuple[int, ...]) -> Solution:
    """Return a solution for the instance above."""
    return Solution(instance="three", gpu_slices=rows)


def test_both_sides_by_hand() -> None:
    """Residents' slices end at 6. The three others arrive at 10, 20, 30: 10-22, 22-34, 34-36.

    Activations: 2 x 5 x 2 on the GPU's side, 3 x 5 on the units'. Unit 0 keeps 20 + 0 + 20, unit 1
    20 + 30 + 10 less nothing.
    """
    chosen = solution((1, 1), (2, 0), (0, 1))
    both = sides(INSTANCE, chosen)
    assert (both.flow_shop_ns, both.gpu_overhead_ns, both.ndp_overhead_ns) == (36, 20, 15)
    assert both.units_ns == (20 + 20, 20 + 30 + 10)
    assert (both.gpu_ns, both.ndp_ns) == (56, 75)
    assert objective(INSTANCE, chosen) == 75
    assert violations(INSTANCE, chosen, 75) == []


def test_activations_are_due_as_long_as_anything_is_kept() -> None:
    """One slice left, even one that takes no time, and both sides pay; none left, and neither."""
    free = INSTANCE.experts[2].model_copy(update={"slice_ndp_ns": 0})
    instance = INSTANCE.model_copy(update={"experts": (*INSTANCE.experts[:2], free)})
    all_but_one = sides(instance, solution((2, 2), (2, 2), (2, 1)))
    assert (all_but_one.gpu_overhead_ns, all_but_one.ndp_ns) == (20, 15)
    everything = sides(instance, solution((2, 2), (2, 2), (2, 2)))
    assert (everything.gpu_overhead_ns, everything.ndp_ns) == (0, 0)
    nothing = sides(instance, solution((0, 0), (0, 0), (0, 0)))
    assert (nothing.gpu_ns, nothing.ndp_ns) == (20, 15 + 40 + 30)


CASES: list[tuple[tuple[tuple[int, ...], ...], int | None, str, str]] = [
    (((0, 3), (0, 0), (0, 0)), None, "BA-C1", "gpu_slices[0][1]: 3 slices of the 2 that unit 1"),
    (((0, 0), (0, 0)), None, "BA-C1", "gpu_slices has 2 rows for 3 experts"),
    (((0, 0), (0,), (0, 0)), None, "BA-C1", "gpu_slices[1] has 1 entries for 2 units"),
    (((2, 2), (2, 2), (2, 2)), 79, "BA-C2", "the GPU ends at 82 ns, past the claimed makespan of"),
    (((1, 1), (2, 0), (0, 1)), 74, "BA-C3", "unit 1 ends at 75 ns, past the claimed makespan of"),
]


@pytest.mark.parametrize(("rows", "claim", "rule", "words"), CASES)
def test_each_violation_is_named(
    rows: tuple[tuple[int, ...], ...], claim: int | None, rule: str, words: str
) -> None:
    """The constraint and the culprit, and nothing else."""
    [(name, sentence)] = violations(INSTANCE, solution(*rows), claim)
    assert name == rule
    assert words in sentence


def test_every_constraint_can_be_violated() -> None:
    """The cases above cover the checker's whole table."""
    assert {rule for _, _, rule, _ in CASES} == set(CONSTRAINTS)


def test_a_solution_that_does_not_fit_is_still_judged() -> None:
    """Missing rows take nothing, surplus ones are left out, surplus counts spare the unit work."""
    short, long = solution((2, 2, 9)), solution((2, 2), (0, 0), (0, 0), (5, 5))
    assert objective(INSTANCE, short) == objective(INSTANCE, long) == 15 + 30 + 20
    assert {name for name, _ in violations(INSTANCE, long)} == {"BA-C1"}
    surplus = sides(INSTANCE, solution((4, 0), (0, 0), (0, 0)))
    assert surplus.units_ns == (-40 + 30 + 20, 40 + 30 + 20)
    assert surplus.flow_shop_ns == 12


def run(jobs: list[tuple[int, int]]) -> int:
    """Run jobs (transfer, computation) one by one, in order."""
    sent = computed = 0
    for transfer, compute in jobs:
        sent += transfer
        computed = max(sent, computed) + compute
    return computed


def jobs_of(instance: Instance, pulled: list[int], order: list[int]) -> list[tuple[int, int]]:
    """Return the pulled slices' jobs, expert after expert."""
    transfer, experts = instance.slice_transfer_ns, instance.experts
    return [
        (0 if experts[row].resident else transfer, experts[row].slice_gpu_ns)
        for row in order
        for _ in range(pulled[row])
    ]


def closed_form_ns(instance: Instance, pulled: list[int]) -> int:
    """Return the flow shop's makespan by the formula of the specification."""
    pairs = list(zip(instance.experts, pulled, strict=True))
    away = [(e.slice_gpu_ns, count) for e, count in pairs if count and not e.resident]
    total = sum(e.slice_gpu_ns * count for e, count in pairs)
    if not away:
        return total
    first = instance.slice_transfer_ns + sum(gpu * count for gpu, count in away)
    last = instance.slice_transfer_ns * sum(n for _, n in away) + min(gpu for gpu, _ in away)
    return max(total, first, last)


@pytest.mark.parametrize("kind", KINDS)
def test_the_flow_shop_is_the_best_of_all_orders(kind: str) -> None:
    """Up to six slices in all orders, run one by one: checker and formula give the least end."""
    for seed in range(12):
        instance, rng = random_instance(seed, kind), random.Random(seed)
        pulled = [rng.randint(0, min(instance.slices, 2)) for _ in instance.experts]
        rows = list(range(len(pulled)))
        jobs = jobs_of(instance, pulled, rows)[:6]
        if len(jobs) < sum(pulled):
            pulled = [min(n, 1) for n in pulled]
            jobs = jobs_of(instance, pulled, rows)
        best = min(run(list(order)) for order in permutations(jobs))
        assert johnson_ns(instance, pulled) == closed_form_ns(instance, pulled) == best
        assert run(jobs_of(instance, pulled, instance.flow_shop_order)) == best
