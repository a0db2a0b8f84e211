"""Experts with several copies: the schedule chooses among them."""

import math
import random
from typing import Any

import pytest

import moeopt
from moeopt import InputError, save, solve
from tests.problems.agreement import assert_agreement, assert_anchors
from tests.problems.tri_domain.random_instances import (
    least_makespan,
    random_instance,
    random_schema_2,
    with_copies,
)
from tests.refusals import refused
from tests.rooms.core import Search
from tests.rooms.tri_domain import (
    Copy,
    Instance,
    Solution,
    busiest_channel_ns,
    busiest_dimm_ns,
    candidates,
    count,
    execute,
    lagrangian_bound_ns,
    lanes,
    loads,
    longest_expert_ns,
    lower_bound,
    objective,
    threshold,
    threshold_copies,
    violations,
)

BOUNDS = (
    lower_bound,
    longest_expert_ns,
    busiest_dimm_ns,
    busiest_channel_ns,
    lagrangian_bound_ns,
)

MOST = 3_000
"""Schedules of an instance that is enumerated."""


def made(seed: int) -> Instance | None:
    """Return a random instance with copies; None where there are none, or too many schedules."""
    base = random_schema_2(seed) if seed % 2 else random_instance(seed)
    instance = with_copies(base, seed, dual=seed % 4 > 1)
    return instance if instance.has_copies and count(instance) <= MOST else None


def some(seeds: range) -> list[Instance]:
    """Return the instances of some seeds."""
    return [instance for seed in seeds if (instance := made(seed)) is not None]


def copy(dimm: int, **given: int) -> dict[str, int]:
    """Return a copy with costs that a test overrides."""
    free = dict.fromkeys(("gpu_ns", "cpu_ns", "ndp_ns", "gpu_dram_ns", "cpu_dram_ns"), 90)
    return free | {"dimm": dimm} | given


def expert(number: int, **given: Any) -> dict[str, Any]:
    """Return an expert with costs that a test overrides."""
    row = {"expert": number, "tokens": 1, "resident": False, "dimm": None, "ndp_ns": None}
    return row | dict.fromkeys(("gpu_ns", "cpu_ns", "gpu_dram_ns", "cpu_dram_ns"), 90) | given


ANCHORS: dict[str, tuple[dict[str, Any], int]] = {
    # Two experts on DIMM 0, 5 each: 10. The first one's copy on DIMM 1 takes 6.
    "a second DIMM": (
        {
            "dimms": 2,
            "experts": [
                expert(0, dimm=0, ndp_ns=5, copies=[copy(1, ndp_ns=6)]),
                expert(1, dimm=0, ndp_ns=5),
            ],
        },
        6,
    ),
    # Striped it takes a host 90; its copy can be on NDP for 7.
    "striped and localized": ({"dimms": 1, "experts": [expert(0, copies=[copy(0, ndp_ns=7)])]}, 7),
    # The CPU reads the localized copy: 4, its DIMM 3; striped 8.
    "a host reads the localized copy": (
        {
            "dimms": 2,
            "experts": [
                expert(0, cpu_ns=8, cpu_dram_ns=8, copies=[copy(1, cpu_ns=4, cpu_dram_ns=3)])
            ],
        },
        4,
    ),
    # Both copies' reads go through one channel: the CPU reads both experts, 3 + 3 on it.
    "copies share a channel": (
        {
            "dimms": 2,
            "channels": [5, 5],
            "experts": [
                expert(n, dimm=0, ndp_ns=90, cpu_ns=1, cpu_dram_ns=3)
                | {"copies": [copy(1, cpu_ns=1, cpu_dram_ns=3)]}
                for n in range(2)
            ],
        },
        6,
    ),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors(
        {
            name: (Instance(name=name, schema_version=2, **fields), value)
            for name, (fields, value) in ANCHORS.items()
        }
    )


def test_the_enumeration_agrees_with_the_oracle() -> None:
    """The tests' own enumeration is what the checker says of every candidate."""
    for instance in some(range(8)):
        valid = [one for one in candidates(instance) if not violations(instance, one)]
        assert min(objective(instance, one) for one in valid) == least_makespan(instance)
        assert len({(one.assignment, one.source) for one in candidates(instance)}) == count(
            instance
        )


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 400), marks=pytest.mark.slow)])
def test_every_method_agrees_with_the_enumeration(seeds: range) -> None:
    """See `assert_agreement`; and what is drawn ends when the last device does."""
    for instance in some(seeds):
        best = least_makespan(instance)
        assert_agreement(instance, best, BOUNDS, run=True)
        result = solve(instance, "threshold")
        assert execute(instance, result.solution).objective == best, instance.name
        ends = [bar.end_ns for lane in lanes(instance, result.solution) for bar in lane.bars]
        assert max(ends, default=0) == best, instance.name


def test_copies_are_proven_in_the_method_itself() -> None:
    """Layouts and executed runs ask it directly, without another method to go on."""
    proven = 0
    for seed in range(24):
        base = random_schema_2(seed) if seed % 2 else random_instance(seed)
        instance = with_copies(base, seed, dual=seed % 4 > 1)
        if not instance.has_copies or count(instance) > MOST:
            continue
        search = Search(limit_s=30.0)
        threshold.solve(instance, search)
        best = least_makespan(instance)
        assert (search.objective, search.bound) == (best, best), instance.name
        proven += 1
    assert proven > 8


def by_labels_alone(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> Search:
    """Return a search in which CP-SAT does nothing."""
    monkeypatch.setattr(threshold_copies, "_by_cpsat", lambda *_: None)
    search = Search(limit_s=60.0)
    threshold.solve(instance, search)
    return search


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 800), marks=pytest.mark.slow)])
def test_one_localized_copy_is_decided_by_labels(
    seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without channels or a link; what is not decided is bracketed."""
    decided = 0
    for seed in seeds:
        base = random_schema_2(seed) if seed % 2 else random_instance(seed)
        instance = with_copies(base, seed, dual=seed % 4 > 1)
        if not instance.has_copies or count(instance) > MOST:
            continue
        search, best = by_labels_alone(instance, monkeypatch), least_makespan(instance)
        assert search.bound <= best <= search.objective, instance.name
        if instance.channels is None and not instance.two_parts:
            assert all(
                len({lie.dimm for lie in e.lies} - {None}) < 2 for e in instance.experts
            ) <= (search.bound == search.objective == best), instance.name
            decided += search.bound == search.objective
    assert decided > len(seeds) // 5


def striped_and_localized(seed: int, experts: int, dimms: int) -> Instance:
    """Return experts that are striped and on one DIMM, of many sizes."""
    rng = random.Random(seed)
    rows = []
    for number in range(experts):
        tokens, read = rng.randint(1, 40), 11 * rng.randint(4, 6)
        whole = {"gpu_ns": 330 + tokens, "cpu_ns": 55 + 7 * tokens, "ndp_ns": 400 + 9 * tokens}
        localized = whole | {"dimm": number % dimms, "gpu_dram_ns": 450, "cpu_dram_ns": 450}
        striped = whole | {"ndp_ns": None, "gpu_dram_ns": read, "cpu_dram_ns": read}
        rows.append(expert(number, **striped, copies=[localized]))
    return Instance(name=f"dual-{seed}", schema_version=2, dimms=dimms, experts=rows)


@pytest.mark.parametrize(
    ("seed", "experts"),
    [(0, 20), *(pytest.param(s, n, marks=pytest.mark.slow) for s in (1, 2, 3) for n in (20, 32))],
)
def test_labels_prove_what_is_too_many_for_an_enumeration(
    seed: int, experts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CP-SAT finds nothing better, and refutes what the bound says."""
    instance = striped_and_localized(seed, experts, 6)
    search = by_labels_alone(instance, monkeypatch)
    assert search.closed
    other = solve(instance, "cp-sat", work_limit=0.3)
    assert other.bound <= search.objective <= other.objective
    assert violations(instance, search.solution, search.objective) == []


def test_sums_of_reads_that_are_too_many_are_left_to_cp_sat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reads of ns that share no divisor: it ends by itself, with a bracket that holds."""
    rng, rows = random.Random(1), []
    for number in range(12):
        tokens, read = rng.randint(1, 40), rng.randint(60_000, 61_000)
        whole = {"gpu_ns": 330_001 + tokens, "cpu_ns": 55_000 + 7_001 * tokens}
        localized = {"dimm": number % 4, "gpu_dram_ns": 450_007, "cpu_dram_ns": 450_007}
        localized |= whole | {"ndp_ns": 400_000 + 9_003 * tokens}
        striped = whole | {"ndp_ns": None, "gpu_dram_ns": read, "cpu_dram_ns": read}
        rows.append(expert(number, **striped, copies=[localized]))
    instance = Instance(name="reads", schema_version=2, dimms=4, experts=rows)
    search = Search(limit_s=math.inf)
    monkeypatch.setattr(threshold_copies, "_by_cpsat", lambda *_: None)
    threshold.solve(instance, search)
    assert search.note == "OPEN"
    other = solve(instance, "cp-sat", work_limit=0.5)
    assert search.bound <= other.objective
    assert other.bound <= search.objective


def test_brackets_hold_where_nothing_is_left_for_the_solver() -> None:
    """Descent and combinatorial bounds on either side of the optimum."""
    for instance in some(range(24)):
        search = Search(limit_s=0.0)
        threshold.solve(instance, search)
        assert search.bound <= least_makespan(instance) <= search.objective, instance.name


PAIR = Instance(
    name="pair",
    schema_version=2,
    dimms=2,
    experts=[
        expert(4, cpu_ns=8, cpu_dram_ns=8, copies=[copy(1, ndp_ns=7, cpu_dram_ns=3)]),
        expert(7, dimm=0, ndp_ns=5, cpu_dram_ns=2),
    ],
)


@pytest.mark.parametrize(
    ("assignment", "source", "rule", "words"),
    [
        (("ndp", "ndp"), (None, None), "TD-C2", "expert 4 is striped"),
        (("ndp", "ndp"), None, "TD-C2", "expert 4 is striped"),
        (("ndp", "ndp"), (0, None), "TD-C2", "expert 4 has no further copy on DIMM 0"),
        (("cpu", "cpu"), (1, 0), "TD-C2", "expert 7 has no further copy on DIMM 0"),
        (("ndp", "ndp"), (1,), "TD-C2", "source has 1 entries for 2 experts"),
    ],
)
def test_each_violation_is_named(
    assignment: tuple[str, ...], source: tuple[int | None, ...] | None, rule: str, words: str
) -> None:
    """One violation, with its rule and the culprit."""
    solution = Solution(instance="pair", assignment=assignment, source=source)
    [(found, sentence)] = violations(PAIR, solution)
    assert found == rule
    assert words in sentence


def test_loads_by_hand() -> None:
    """NDP on DIMM 1 for 7 and on DIMM 0 for 5; the CPU's read of the copy keeps DIMM 1 busy."""
    on_ndp = Solution(instance="pair", assignment=("ndp", "ndp"), source=(1, None))
    assert loads(PAIR, on_ndp).dimm_ns == (5, 7)
    read = Solution(instance="pair", assignment=("cpu", "ndp"), source=(1, None))
    assert (loads(PAIR, read).cpu_ns, loads(PAIR, read).dimm_ns) == (90, (5, 3))
    striped = Solution(instance="pair", assignment=("cpu", "ndp"))
    assert (loads(PAIR, striped).cpu_ns, loads(PAIR, striped).dimm_ns) == (8, (13, 8))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dimm": 1, "ndp_ns": 1}, "experts[0].copies[0].dimm: 1 holds a copy of it already"),
        ({"copies": [copy(2)]}, "experts[0].copies[0].dimm: must be below dimms = 2, not 2"),
        (
            {"resident": True, "gpu_dram_ns": 0},
            "experts[0].copies[0].gpu_dram_ns: must be 0 because resident is true, not 90",
        ),
        (
            {"copies": [copy(1, gpu_calc_ns=91)]},
            "experts[0].copies[0].gpu_calc_ns: must be at most gpu_ns = 90, not 91",
        ),
        (
            {"copies": [copy(1, gpu_calc_ns=9, pcie_ns=9)]},
            "experts[0].gpu_calc_ns: is missing: gpu_calc_ns and pcie_ns are given for all "
            "experts or none",
        ),
    ],
)
def test_wrong_copies_get_one_line(fields: dict[str, Any], message: str) -> None:
    """What is wrong, and where."""
    row = expert(0, copies=[copy(1)]) | fields
    said = refused(Instance, name="wrong", schema_version=2, dimms=2, experts=[row])
    assert said.removesuffix(" (and 1 more)") == message


def test_files_and_arrays(tmp_path: Any) -> None:
    """What is saved is loaded; arrays make the same instance; schema 1 has no copies."""
    save(PAIR, tmp_path / "pair.json")
    assert moeopt.load(tmp_path / "pair.json") == PAIR
    arrays = {
        name: [getattr(e, name) for e in PAIR.experts]
        for name in ("expert", "tokens", "gpu_ns", "cpu_ns", "gpu_dram_ns", "cpu_dram_ns")
    }
    copies: list[list[Copy]] = [[Copy(**copy(1, ndp_ns=7, cpu_dram_ns=3))], []]
    made = Instance.from_arrays(
        **arrays, ndp_ns=[-1, 5], dimm=[-1, 0], dimms=2, name="pair", copies=copies
    )
    assert made == PAIR
    with pytest.raises(InputError, match="copies: must have 2 entries"):
        Instance.from_arrays(**arrays, ndp_ns=[-1, 5], dimm=[-1, 0], dimms=2, copies=[[]])
