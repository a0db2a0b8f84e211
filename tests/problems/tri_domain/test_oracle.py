"""The oracle against hand computation, and every exact method against the oracle."""

import random

import pytest

from moeopt import solve
from tests.problems.agreement import assert_agreement, assert_anchors, assert_starts_help
from tests.problems.tri_domain.random_instances import KINDS, least_makespan, random_instance
from tests.rooms.tri_domain import (
    Instance,
    busiest_dimm_ns,
    candidates,
    count,
    lagrangian_bound_ns,
    longest_expert_ns,
    lower_bound,
)

PER_KIND = 100
SHARES = [range(3), pytest.param(range(3, PER_KIND), marks=pytest.mark.slow)]


def expert(number: int, **given: object) -> dict[str, object]:
    """Return an expert with costs that a test overrides."""
    row: dict[str, object] = {"expert": number, "tokens": 1, "resident": False, "dimm": None}
    row |= {"gpu_ns": 0, "cpu_ns": 0, "ndp_ns": None, "gpu_dram_ns": 0, "cpu_dram_ns": 0}
    return row | given


ANCHORS = {
    # Both on the GPU 3 + 4 = 7, both on the CPU 5 + 5 = 10, split max(3, 5) = 5 or max(5, 4) = 5.
    "two striped experts are split": (
        [expert(0, gpu_ns=3, cpu_ns=5), expert(1, gpu_ns=4, cpu_ns=5)],
        1,
        5,
    ),
    # NDP alone takes 6, each host 2; but a host's read keeps the DIMM busy for 4, and 4 < 6.
    "a host's read is shorter than NDP work": (
        [expert(0, dimm=0, gpu_ns=2, cpu_ns=2, ndp_ns=6, gpu_dram_ns=4, cpu_dram_ns=4)],
        1,
        4,
    ),
    # Reads of the two striped experts add up on every DIMM, whichever hosts do them: 5 + 5 = 10.
    "striped reads add up on every DIMM": (
        [expert(n, gpu_ns=5, cpu_ns=5, gpu_dram_ns=5, cpu_dram_ns=5) for n in range(2)],
        3,
        10,
    ),
    # Two experts of DIMM 0 on NDP take 8 in a row; DIMM 1 is free but holds nothing. One moves to
    # the CPU: DIMM 0 is busy for 4 + read 1 = 5, the CPU for 6; the GPU's 9 is worse.
    "an expert is bound to its own DIMM": (
        [
            expert(n, dimm=0, gpu_ns=9, cpu_ns=6, ndp_ns=4, gpu_dram_ns=1, cpu_dram_ns=1)
            for n in range(2)
        ],
        2,
        6,
    ),
    # Resident: the GPU needs 2 and reads nothing. Not resident it would keep the DIMM busy for 7.
    "a resident expert reads nothing": (
        [expert(0, resident=True, gpu_ns=2, cpu_ns=9, cpu_dram_ns=7)],
        1,
        2,
    ),
    # NDP 3 with the striped expert's read 2 on the same DIMM: 5. The striped one costs 2 on a host.
    "contention and NDP work share a DIMM": (
        [
            expert(0, dimm=0, gpu_ns=50, cpu_ns=50, ndp_ns=3, gpu_dram_ns=50, cpu_dram_ns=50),
            expert(1, gpu_ns=2, cpu_ns=2, gpu_dram_ns=2, cpu_dram_ns=2),
        ],
        1,
        5,
    ),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors(
        {
            name: (Instance(name=name, dimms=dimms, experts=experts), optimum)
            for name, (experts, dimms, optimum) in ANCHORS.items()
        }
    )


def test_the_oracle_leaves_nothing_out() -> None:
    """Every assignment is a candidate, once."""
    instance = random_instance(0, experts=4)
    assert len({c.assignment for c in candidates(instance)}) == count(instance) == 3**4


@pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, PER_KIND), marks=pytest.mark.slow)]
)
def test_the_enumeration_agrees_with_the_oracle(seeds: range) -> None:
    """The tests' own enumeration, which is fast, is what the checker says of every candidate."""
    for kind in KINDS:
        for seed in seeds:
            instance = random_instance(seed, kind)
            assert solve(instance, "brute-force").objective == least_makespan(instance)


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_method_agrees_with_the_enumeration(kind: str, seeds: range) -> None:
    """On 100 instances of each kind; see `assert_agreement`."""
    for seed in seeds:
        instance = random_instance(seed, kind)
        bounds = (longest_expert_ns, busiest_dimm_ns, lagrangian_bound_ns)
        assert_agreement(instance, least_makespan(instance), bounds)


@pytest.mark.parametrize("engine", ["cbc", "scip"])
def test_other_engines_agree_with_the_enumeration(engine: str) -> None:
    """CBC and SCIP give the optimum, with and without a starting solution."""
    for kind in KINDS:
        instance = random_instance(0, kind)
        optimum = least_makespan(instance)
        for warm_start in (False, True):
            result = solve(instance, "milp", engine=engine, warm_start=warm_start)
            assert (result.status, result.objective) == ("optimal", optimum), instance.name


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 20), marks=pytest.mark.slow)])
def test_starting_solutions_change_nothing_but_time(seeds: range) -> None:
    """With the heuristic's schedule and the bound as a start the optimum is the same."""
    assert_starts_help(random_instance(seed, kind) for kind in KINDS for seed in seeds)


def test_bounds_are_not_trivial() -> None:
    """The combinatorial bound meets the optimum on a good share of the instances."""
    met = 0
    for seed in range(60):
        instance = random_instance(seed)
        met += lower_bound(instance) == least_makespan(instance)
    assert met >= 15


def test_an_oversized_instance_is_refused() -> None:
    """Brute force says what it is for instead of running for years."""
    from moeopt import InputError

    with pytest.raises(InputError, match="candidates are more than the limit"):
        solve(random_instance(1, experts=20), "brute-force")


def test_floats_never_prove_what_is_not_so() -> None:
    """At 10**12 ns HiGHS called wrong schedules optimal; scaled and not believed, none is."""
    for seed in range(12):
        rng = random.Random(seed)
        rows = [
            expert(n, gpu_ns=rng.randint(10**11, 10**12), cpu_ns=rng.randint(10**11, 10**12))
            for n in range(9)
        ]
        instance = Instance(name=f"partition {seed}", dimms=1, experts=rows)
        optimum = least_makespan(instance)
        result = solve(instance, "milp", warm_start=False)
        assert result.objective is not None
        assert result.bound is None or result.bound <= optimum, instance.name
        assert optimum <= result.objective <= optimum * (1 + 1e-5), instance.name
        assert (result.status == "optimal") == (result.bound == optimum == result.objective)
