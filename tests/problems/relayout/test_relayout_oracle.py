"""The oracle against hand computation, and every exact method against the oracle."""

from itertools import product
from typing import Any

import pytest

from tests.mathprog.solve import solve
from tests.problems.agreement import assert_agreement, assert_anchors, assert_starts_help, exact
from tests.problems.relayout.relayout_random_instances import (
    KINDS,
    NEWER_KINDS,
    random_instance,
)
from tests.rooms.relayout import (
    DOMAINS,
    Instance,
    Migration,
    candidates,
    count,
    lower_bound,
    violations,
)

PER_KIND = 26
SHARES = [range(1), pytest.param(range(1, PER_KIND), marks=pytest.mark.slow)]
NEWER = 30
NEWER_SHARES = [range(1), pytest.param(range(1, NEWER), marks=pytest.mark.slow)]


def expert(number: int, **given: object) -> dict[str, object]:
    """Return an expert whose paths all take 50, but for those that a test gives."""
    row: dict[str, object] = {"expert": number, "tokens": 1, "resident": False, "dimm": None}
    row |= {"gpu_hit_ns": 50, "gpu_miss_striped_ns": 50, "gpu_miss_localized_ns": 50}
    row |= {"cpu_striped_ns": 50, "cpu_localized_ns": 50, "ndp_ns": 50}
    return row | given


def instance_of(experts: list[dict[str, object]], **given: Any) -> Instance:
    """Return an instance on two DIMMs with room for one prefetch and one DIMM-Link migration."""
    common = {"name": "hand", "dimms": 2, "hbm_free_slots": 1}
    common |= {"dram_striped_ns": 0, "dram_localized_ns": 0, "prefetch_ns": 10, "relayout_ns": 10}
    common |= {"rebalance_ns": 10, "pcie_window_ns": 19, "dimm_link_window_ns": 19}
    return Instance(**(common | {"experts": experts} | given))


CROWDED = [expert(0, dimm=0, ndp_ns=4), expert(1, dimm=0, ndp_ns=4), expert(2, ndp_ns=4)]
"""Two experts on DIMM 0, one striped."""

ANCHORS = {
    # One of the two is prefetched: 2. The other runs on the CPU: 9. With no window both take a
    # host, one each: 9. With two prefetches both take the GPU: 4.
    "one prefetch": (
        instance_of([expert(n, gpu_hit_ns=2, cpu_striped_ns=9) for n in range(2)]),
        9,
    ),
    "two prefetches": (
        instance_of(
            [expert(n, gpu_hit_ns=2, cpu_striped_ns=9) for n in range(2)],
            hbm_free_slots=2,
            pcie_window_ns=20,
        ),
        4,
    ),
    # Both lie on DIMM 0 and take NDP 4 each: 8. One moves to DIMM 1: 4.
    "a move to the other DIMM": (
        instance_of([expert(n, dimm=0, ndp_ns=4) for n in range(2)]),
        4,
    ),
    # As above with a move that is one ns too long: 8.
    "a move that does not fit": (
        instance_of([expert(n, dimm=0, ndp_ns=4) for n in range(2)], rebalance_ns=20),
        8,
    ),
    # Striped it takes 50 anywhere, localized NDP does it in 3.
    "a striped expert is localized for NDP": (instance_of([expert(0, ndp_ns=3)]), 3),
    # Localized it takes 50 anywhere, striped the CPU does it in 5.
    "a localized expert is striped for the CPU": (
        instance_of([expert(0, dimm=0, cpu_striped_ns=5)]),
        5,
    ),
    # Expert 0 takes NDP 5 on DIMM 0, expert 1 the CPU, whose read loads DIMM 0 as well: 5 + 6.
    # Localized to DIMM 1 it is read there: CPU 7, DIMM 1 busy for 7, DIMM 0 for 5.
    "a localized expert is read by a host": (
        instance_of(
            [expert(0, dimm=0, ndp_ns=5), expert(1, cpu_striped_ns=6, cpu_localized_ns=7)],
            dram_striped_ns=6,
            dram_localized_ns=7,
        ),
        7,
    ),
    # A prefetched expert's read is gone: DIMM 0 is left with NDP 5, before it was 5 + 6.
    "a prefetch relieves the DIMMs": (
        instance_of(
            [expert(0, dimm=0, ndp_ns=5), expert(1, gpu_hit_ns=2, cpu_striped_ns=6)],
            dram_striped_ns=6,
            dimm_link_window_ns=0,
        ),
        5,
    ),
    # The expert without tokens costs nothing and stays; the resident one takes its hit of 1.
    "idle and resident": (
        instance_of([expert(0, tokens=0), expert(1, resident=True, gpu_hit_ns=1)]),
        1,
    ),
    # A move of 10 fits 19 once. All DIMMs share a link: the striped expert is localized, which
    # takes it from 50 to 4, and the others stay together, 8. A link for each DIMM: it goes to DIMM
    # 1, and one of the others to DIMM 2, 4; DIMM 0's link carries 10 of that and a share of 5.
    "two moves over one link": (instance_of(CROWDED, dimms=3), 8),
    "two moves over links of their own": (
        instance_of(CROWDED, dimms=3, schema_version=2, relayout_share_ns=5),
        4,
    ),
    # Three on DIMM 0, whose own link carries one move of 10 in 19, whatever the others could: 8.
    "a link of its own that is full": (
        instance_of(
            [expert(n, dimm=0, ndp_ns=4) for n in range(3)],
            dimms=3,
            schema_version=2,
            relayout_share_ns=5,
        ),
        8,
    ),
    # Two reads of 6, half of that on each of a channel's two DIMMs: the channel is busy for 12.
    "a channel is read twice": (
        instance_of(
            [expert(n, cpu_striped_ns=1) for n in range(2)],
            dram_striped_ns=6,
            schema_version=2,
            dimm_share=(1, 2),
            channels=(0, 0),
        ),
        12,
    ),
    # Two transfers of 9 and two computations of 3, which overlap: 18, where the paths sum to 20.
    "transfers overlap computation": (
        instance_of(
            [
                expert(
                    n,
                    gpu_miss_striped_ns=10,
                    gpu_calc_ns=3,
                    pcie_striped_ns=9,
                    pcie_localized_ns=50,
                )
                for n in range(2)
            ],
            hbm_free_slots=0,
            schema_version=2,
        ),
        18,
    ),
    # 7 before any expert, and 2.
    "a base load comes first": (
        instance_of([expert(0, gpu_hit_ns=2)], schema_version=2, gpu_base_ns=7),
        9,
    ),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors(ANCHORS)


@pytest.mark.slow
def test_the_oracle_leaves_nothing_out() -> None:
    """Of all migrations that can be written down, those the checker allows are candidates."""
    for kind in ("mixed", "idle and resident experts", "one dimm"):
        instance = random_instance(1, kind, experts=2)
        found = {(c.migrations, c.assignment) for c in candidates(instance)}
        assert len(found) == count(instance)
        kinds = ("prefetch", "localize", "stripe", "rebalance")
        writable = [
            [None]
            + [
                Migration(expert=e.expert, kind=k, dimm=d)
                for k, d in product(kinds, [None, *range(instance.dimms + 1)])
            ]
            for e in instance.experts
        ]
        for pair in product(*writable):
            moves = tuple(move for move in pair if move is not None)
            for domains in product((*DOMAINS, None), repeat=2):
                some = next(candidates(instance))
                tried = some.model_copy(update={"migrations": moves, "assignment": domains})
                if not violations(instance, tried):
                    assert (moves, domains) in found


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [
        (kind, *([share] if isinstance(share, range) else share.values))
        if isinstance(share, range)
        else pytest.param(kind, *share.values, marks=share.marks)
        for kinds, shares in ((KINDS, SHARES), (NEWER_KINDS, NEWER_SHARES))
        for kind in kinds
        for share in shares
    ],
)
def test_every_method_agrees_with_brute_force(kind: str, seeds: range) -> None:
    """On 26 or 30 instances of each kind; see `assert_agreement`."""
    for seed in seeds:
        assert_agreement(random_instance(seed, kind))


@pytest.mark.parametrize(
    "seeds", [range(100, 102), pytest.param(range(102, 108), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_on_many_more(kind: str, seeds: range) -> None:
    """The optimum by CP-SAT alone, on larger instances than the oracle can do."""
    for seed in seeds:
        instance = random_instance(seed, kind, experts=7)
        optimum = solve(instance, "cp-sat", warm_start=False).objective
        assert optimum is not None
        assert lower_bound(instance) <= optimum, instance.name


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["cbc", "scip"])
def test_other_engines_agree_with_brute_force(engine: str) -> None:
    """CBC and SCIP give the oracle's optimum, with and without a starting solution."""
    for kind in KINDS:
        instance = random_instance(3, kind)
        optimum = solve(instance, "brute-force").objective
        for warm_start in (False, True):
            result = solve(instance, "milp", engine=engine, warm_start=warm_start)
            assert (result.status, result.objective) == ("optimal", optimum), instance.name


@pytest.mark.parametrize("kinds", [KINDS[:1], pytest.param(KINDS[1:], marks=pytest.mark.slow)])
def test_starting_solutions_change_nothing_but_time(kinds: tuple[str, ...]) -> None:
    """With the heuristic's schedule and the bound as a start the optimum is the same."""
    assert_starts_help(random_instance(seed, kind) for kind in kinds for seed in range(3))


def test_windows_are_kept_to_the_nanosecond() -> None:
    """Large numbers, and a window that is 1 ns too short or just right, in every model."""
    long = 10**12 + 1
    experts = [expert(n, dimm=0, ndp_ns=4 * 10**6, gpu_hit_ns=10**6) for n in range(4)]
    for row in experts:
        for cost in ("gpu_miss_localized_ns", "cpu_localized_ns"):
            row[cost] = 10**9
        row |= {"gpu_miss_striped_ns": 10**9, "cpu_striped_ns": 10**9}
    for fits in (True, False):
        window = 2 * long - (not fits)
        lengths = {"relayout_ns": 2 * long, "rebalance_ns": long, "prefetch_ns": long}
        windows = {"pcie_window_ns": window, "dimm_link_window_ns": window}
        instance = instance_of(experts, hbm_free_slots=9, **lengths | windows)
        for method in exact("relayout"):
            result = solve(instance, method, warm_start=False)
            assert (result.status, result.objective) == ("optimal", (4 if fits else 8) * 10**6)
