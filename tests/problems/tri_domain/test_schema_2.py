"""Schema 2: channels, shares, base load and two-part runs on the GPU; schema 1 as it was."""

import random
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError, save, solve
from tests.problems.agreement import assert_agreement, assert_anchors, changed
from tests.problems.tri_domain.random_instances import (
    KINDS,
    SCHEMA_2_KINDS,
    least_makespan,
    random_instance,
    random_schema_2,
)
from tests.rooms.problems import device_loads, loads_of, makespan_of, refine
from tests.rooms.tri_domain import (
    DOMAINS,
    HEURISTICS,
    NO_CUTOFF,
    STRIPED,
    Bracket,
    Instance,
    Loads,
    Solution,
    busiest_channel_ns,
    busiest_dimm_ns,
    facts,
    fiddler,
    hybrimoe,
    klotski,
    ktransformers,
    lagrangian_bound_ns,
    lanes,
    loads,
    longest_expert_ns,
    monde,
    objective,
    trimoe,
)

PER_KIND = 300
SHARES = [range(4), pytest.param(range(4, PER_KIND), marks=pytest.mark.slow)]


def expert(number: int, **given: object) -> dict[str, object]:
    """Return an expert with two-part runs on the GPU and costs that a test overrides."""
    row: dict[str, object] = {"expert": number, "tokens": 1, "resident": False, "dimm": None}
    row |= {"gpu_ns": 0, "cpu_ns": 0, "ndp_ns": None, "gpu_dram_ns": 0, "cpu_dram_ns": 0}
    return row | {"gpu_calc_ns": 0, "pcie_ns": 0} | given


# Two DIMMs on each of two channels. A striped read of 5 keeps each DIMM busy for 3.
MISS = {"gpu_calc_ns": 4, "gpu_dram_ns": 7, "cpu_dram_ns": 7, "cpu_ns": 7}
HAND: dict[str, Any] = {
    "name": "hand",
    "schema_version": 2,
    "channels": [8, 3, 3, 8],
    "dimm_share": [1, 2],
    "gpu_base_ns": 3,
    "dimms": 4,
    "experts": [
        expert(0, gpu_ns=10, gpu_calc_ns=4, pcie_ns=10, cpu_ns=6, gpu_dram_ns=5, cpu_dram_ns=5),
        expert(1, dimm=0, gpu_ns=12, pcie_ns=12, ndp_ns=9, **MISS),
        expert(2, dimm=3, gpu_ns=12, pcie_ns=12, ndp_ns=20, **MISS),
        expert(3, resident=True, gpu_ns=2, gpu_calc_ns=2, cpu_ns=6, cpu_dram_ns=5),
    ],
}
INSTANCE = Instance(**HAND)


def decided(instance: Instance, domain: list[int] | tuple[str, ...]) -> Solution:
    """Return the solution of a schedule."""
    named = tuple(d if isinstance(d, str) else DOMAINS[d] for d in domain)
    return Solution(instance=instance.name, assignment=named)


@pytest.mark.parametrize(
    ("domains", "expected"),
    [
        # GPU 3 + 4 + 2, PCIe 10; the striped read 3 on each DIMM; channel 8 has 5 + 7 + 7.
        (("gpu", "cpu", "cpu", "gpu"), Loads(9, 14, (10, 3, 3, 10), (5, 19), 10)),
        # GPU 3 + 4; two striped reads, 3 + 3 on each DIMM and 5 + 5 on each channel.
        (("cpu", "ndp", "gpu", "cpu"), Loads(7, 12, (15, 6, 6, 13), (10, 17), 12)),
        # NDP work is on no channel: 5 on each; DIMMs 3 + 9 and 3 + 20.
        (("gpu", "ndp", "ndp", "gpu"), Loads(9, 0, (12, 3, 3, 23), (5, 5), 10)),
        # What is nowhere loads nothing, but the base load stays.
        ((None, None, None, None), Loads(3, 0, (0, 0, 0, 0), (0, 0), 0)),
    ],
)
def test_loads_by_hand(domains: tuple[str, ...], expected: Loads) -> None:
    """The checker's sums, from the comments."""
    found = loads(INSTANCE, Solution(instance="hand", assignment=domains))
    assert found == expected
    largest = max(found.gpu_ns, found.cpu_ns, *found.dimm_ns, *found.channel_ns, found.pcie_ns)
    assert found.makespan_ns == largest


ANCHORS: dict[str, tuple[dict[str, Any], int]] = {
    # Each read takes the channel 4, so both on hosts 8; one on NDP takes 5: max(5, 4) = 5.
    "two DIMMs share a channel": (
        {
            "channels": [0, 0],
            "dimms": 2,
            "experts": [
                expert(n, dimm=n, gpu_ns=4, cpu_ns=4, ndp_ns=5, gpu_dram_ns=4, cpu_dram_ns=4)
                for n in range(2)
            ],
        },
        5,
    ),
    # On channels of their own both are read at the same time.
    "two DIMMs with a channel each": (
        {
            "channels": [0, 1],
            "dimms": 2,
            "experts": [
                expert(n, dimm=n, gpu_ns=4, gpu_calc_ns=4, cpu_ns=4, ndp_ns=5)
                | {"gpu_dram_ns": 4, "cpu_dram_ns": 4}
                for n in range(2)
            ],
        },
        4,
    ),
    # Reads of 5 + 5 keep each DIMM busy for 3 + 3 with shares of a half, on either host.
    "a share is rounded up for each read": (
        {
            "dimm_share": [1, 2],
            "dimms": 2,
            "experts": [expert(n, gpu_dram_ns=5, cpu_dram_ns=5) for n in range(2)],
        },
        6,
    ),
    # The GPU is done with its base load at 6 and would take the expert until 8; the CPU takes 7.
    "the base load comes first": (
        {
            "gpu_base_ns": 6,
            "dimms": 1,
            "experts": [expert(0, gpu_ns=2, gpu_calc_ns=2, cpu_ns=7)],
        },
        7,
    ),
    # Both on the GPU: computation 3 + 3, transfers 5 + 5. One each: transfer 5, the CPU 8.
    "transfers add up": (
        {
            "dimms": 1,
            "experts": [expert(n, gpu_ns=5, gpu_calc_ns=3, pcie_ns=5, cpu_ns=8) for n in range(2)],
        },
        8,
    ),
    # A resident's computation 4 hides the other's transfer 5 and computation 1: not 9, but 5.
    "a transfer overlaps another's computation": (
        {
            "dimms": 1,
            "experts": [
                expert(0, resident=True, gpu_ns=4, gpu_calc_ns=4, cpu_ns=9),
                expert(1, gpu_ns=5, gpu_calc_ns=1, pcie_ns=5, cpu_ns=9),
            ],
        },
        5,
    ),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors(
        {
            name: (Instance(name=name, schema_version=2, **fields), optimum)
            for name, (fields, optimum) in ANCHORS.items()
        }
    )


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", SCHEMA_2_KINDS)
def test_every_method_agrees_with_the_enumeration(kind: str, seeds: range) -> None:
    """On 300 instances of each kind; see `assert_agreement`."""
    bounds = (longest_expert_ns, busiest_dimm_ns, busiest_channel_ns, lagrangian_bound_ns)
    for instance in (random_schema_2(seed, kind) for seed in seeds):
        assert_agreement(instance, least_makespan(instance), bounds, run=True)


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 60), marks=pytest.mark.slow)])
def test_the_enumeration_agrees_with_the_oracle(seeds: range) -> None:
    """The tests' own enumeration, which is fast, is what the checker says of every candidate."""
    for kind, seed in product(SCHEMA_2_KINDS, seeds):
        instance = random_schema_2(seed, kind)
        assert solve(instance, "brute-force").objective == least_makespan(instance)


def test_every_bound_is_met_somewhere() -> None:
    """None of the combinatorial bounds is vacuous in schema 2."""
    met = dict.fromkeys((longest_expert_ns, busiest_dimm_ns, busiest_channel_ns), 0)
    for seed in range(60):
        instance = random_schema_2(seed)
        for bound in met:
            met[bound] += bound(instance) == least_makespan(instance)
    assert all(met.values()), met


def test_the_kernels_are_the_checker() -> None:
    """Loads and makespans of random schedules, and what the refinement says it reaches."""
    for kind, seed in product(SCHEMA_2_KINDS, range(12)):
        instance, rng = random_schema_2(seed, kind), random.Random(seed)
        table, dimms = instance.device_table, instance.dimms
        able = [(0, 1) if d == STRIPED else (0, 1, 2) for d in instance.columns.dimm]
        domain = np.array([rng.choice(choices) for choices in able])
        checked = loads(instance, decided(instance, domain.tolist()))
        expected = [checked.gpu_ns, checked.cpu_ns, *checked.dimm_ns, checked.pcie_ns]
        found = device_loads(table, domain, dimms).tolist()
        assert found[: len(expected)] == expected
        channels = found[len(expected) :]
        assert tuple(channels)[: len(checked.channel_ns)] == checked.channel_ns[: len(channels)]
        assert makespan_of(loads_of(table, domain, dimms), dimms) == checked.makespan_ns
        for every in (False, True):
            refined = domain.copy()
            makespan = refine(table, refined, dimms, every, True)
            assert makespan == objective(instance, decided(instance, refined.tolist()))
            assert makespan <= checked.makespan_ns


def test_the_relaxed_searches_bound_and_often_decide() -> None:
    """With channels and a link the bracket holds the optimum; base load and shares it decides."""
    closed = 0
    for kind, seed in product(SCHEMA_2_KINDS, range(60)):
        instance = random_schema_2(seed, kind)
        bracket = Bracket(instance.device_table, len(instance.experts), instance.dimms)
        bracket.narrow(NO_CUTOFF, 2**19)
        optimum = least_makespan(instance)
        assert bracket.lower <= optimum <= bracket.upper, instance.name
        assert objective(instance, decided(instance, bracket.domain.tolist())) == bracket.upper
        closed += bracket.lower == bracket.upper
        if kind in ("shares", "base load"):
            assert bracket.lower == bracket.upper == optimum
    assert 200 <= closed < 300, closed


def test_the_refinement_relieves_a_channel() -> None:
    """Channel 0 has two localized reads; the costlier path moves to its NDP unit."""
    reads = {"gpu_ns": 20, "gpu_dram_ns": 9, "cpu_dram_ns": 9}
    fields = {"schema_version": 2, "channels": [0, 0], "dimms": 2, "name": "channel"}
    rows = [
        expert(0, dimm=0, cpu_ns=5, gpu_calc_ns=20, ndp_ns=11, **reads),
        expert(1, dimm=1, cpu_ns=6, gpu_calc_ns=20, ndp_ns=12, **reads),
    ]
    instance = Instance(experts=rows, **fields)
    assert trimoe(instance).assignment == ("cpu", "ndp")
    assert facts(instance, decided(instance, ("cpu", "cpu"))) == {
        "bottleneck": "channel",
        "devices_at_makespan": 1,
    }


def test_the_refinement_relieves_the_link() -> None:
    """Transfers 8 + 8 bind while the GPU computes for 2: the costlier path goes to the CPU."""
    rows = [
        expert(0, gpu_ns=8, gpu_calc_ns=1, pcie_ns=8, cpu_ns=9),
        expert(1, gpu_ns=9, gpu_calc_ns=1, pcie_ns=8, cpu_ns=10),
    ]
    instance = Instance(name="link", schema_version=2, dimms=1, experts=rows)
    assert trimoe(instance).assignment == ("gpu", "cpu")
    assert facts(instance, decided(instance, ("gpu", "gpu")))["bottleneck"] == "pcie"


def test_klotski_hides_transfers_behind_computation() -> None:
    """Everything on the GPU takes the longer of all computation and all transfers, not the sum."""
    for seed in range(20):
        instance = random_schema_2(seed, "two parts")
        load, e = loads(instance, klotski(instance)), instance.experts
        assert load.gpu_ns == sum(x.gpu_calc_ns or 0 for x in e)
        assert load.pcie_ns == sum(x.pcie_ns or 0 for x in e)


def test_hybrimoe_sees_the_overlap() -> None:
    """By hand: the transfer 6 overlaps the resident's computation 5, so the GPU ends at 8."""
    rows = [
        expert(0, resident=True, tokens=9, gpu_ns=5, gpu_calc_ns=5, cpu_ns=50),
        expert(1, tokens=8, gpu_ns=7, gpu_calc_ns=2, pcie_ns=6, cpu_ns=9),
    ]
    instance = Instance(name="overlap", schema_version=2, dimms=1, experts=rows)
    # GPU: max(5, 0 + 6) + 2 = 8, before the CPU's 9; as one piece it would end at 5 + 7 = 12.
    assert hybrimoe(instance).assignment == ("gpu", "gpu")
    assert ktransformers(instance).assignment == ("gpu", "cpu")
    assert objective(instance, hybrimoe(instance)) == 7


def test_hybrimoe_waits_for_the_link() -> None:
    """GPU 6 + 1 = 7 before the CPU's 8; the next transfer ends at 12, after the CPU's 8."""
    rows = [expert(n, tokens=9 - n, gpu_ns=6, gpu_calc_ns=1, pcie_ns=6, cpu_ns=8) for n in range(2)]
    instance = Instance(name="link", schema_version=2, dimms=1, experts=rows)
    assert hybrimoe(instance).assignment == ("gpu", "cpu")


def test_the_rules_know_of_the_base_load() -> None:
    """A GPU that is busy for 100 already gets nothing from those who look at its total."""
    rows = [expert(n, dimm=0, gpu_ns=2, gpu_calc_ns=2, cpu_ns=9, ndp_ns=9) for n in range(3)]
    fields = {"schema_version": 2, "dimms": 1, "gpu_base_ns": 100, "experts": rows}
    instance = Instance(name="busy", **fields)
    for rule in (ktransformers, hybrimoe, fiddler, monde):
        assert "gpu" not in rule(instance).assignment, rule.__name__


def test_hybrimoe_is_ktransformers_in_schema_1() -> None:
    """The later host is free at the same time wherever all residents fit the GPU's share.

    The specification proves it; where the schedules differ, two splits are equally late.
    """
    same = 0
    for kind, seed in product(KINDS, range(60)):
        if kind == "all resident":
            continue
        drawn = random_instance(seed, kind)
        rows = [e.model_dump() | {"resident": False} for e in drawn.experts]
        instance = Instance.model_validate(drawn.model_dump() | {"experts": rows})
        hybrid, plain = hybrimoe(instance), ktransformers(instance)
        ends = [loads(instance, solution) for solution in (hybrid, plain)]
        first, second = (max(load.gpu_ns, load.cpu_ns) for load in ends)
        assert first == second, instance.name
        same += hybrid == plain
    assert same > 300


def test_dimms_of_one_channel_are_exchangeable() -> None:
    """Their contents exchanged, and channels called by other numbers: the same optimum."""
    for seed in range(25):
        instance = random_schema_2(seed, "channels")
        channels, rng = list(instance.channels or ()), random.Random(seed)
        new = list(range(instance.dimms))
        for channel in set(channels):
            on_it = [d for d in new if channels[d] == channel]
            for old, to in zip(on_it, rng.sample(on_it, len(on_it)), strict=True):
                new[old] = to
        rows = [
            e.model_dump() | {"dimm": None if e.dimm is None else new[e.dimm]}
            for e in instance.experts
        ]
        renamed = [50 - channel for channel in channels]
        other = changed(instance, experts=rows, channels=renamed)
        assert solve(other, "threshold").objective == least_makespan(instance)


@pytest.mark.parametrize("factor", [2, 1000])
def test_the_optimum_scales_with_the_times(factor: int) -> None:
    """All times multiplied, optimum multiplied; shares are whole, so that nothing is rounded."""
    for seed in range(25):
        instance = changed(random_schema_2(seed), dimm_share=None)
        rows = [
            {k: v * factor if k.endswith("_ns") and v else v for k, v in e.model_dump().items()}
            for e in instance.experts
        ]
        base = None if instance.gpu_base_ns is None else instance.gpu_base_ns * factor
        scaled = changed(instance, experts=rows, gpu_base_ns=base)
        assert solve(scaled, "threshold").objective == factor * least_makespan(instance)


def test_a_limit_that_never_binds_changes_nothing() -> None:
    """Whole shares, a channel for each DIMM, no base load and no transfers: schema 1 again."""
    for seed in range(25):
        instance = random_instance(seed)
        rows = [e.model_dump() | {"gpu_calc_ns": e.gpu_ns, "pcie_ns": 0} for e in instance.experts]
        channels = list(range(instance.dimms))
        fields = {"channels": channels, "dimm_share": (1, 1), "gpu_base_ns": 0, "experts": rows}
        same = changed(instance, schema_version=2, **fields)
        assert solve(same, "threshold").objective == least_makespan(instance)
        for heuristic in HEURISTICS.values():
            assert heuristic(same) == heuristic(instance)


def test_from_arrays_makes_schema_2_when_told() -> None:
    """Any of its five arguments; without them the file is one of schema 1."""
    costs = {"gpu_ns": [10, 12], "cpu_ns": [6, 7], "ndp_ns": [-1, 9], "dimm": [-1, 0], "dimms": 2}
    assert moeopt.tri_domain.Instance.from_arrays(**costs).schema_version == 1
    parts = {"gpu_calc_ns": [4, 4], "pcie_ns": [10, 12]}
    memory = {"channels": np.array([5, 5]), "dimm_share": (1, 2), "gpu_base_ns": 3}
    for more in ({"channels": [0, 0]}, {"dimm_share": (1, 2)}, {"gpu_base_ns": 3}, parts):
        assert moeopt.tri_domain.Instance.from_arrays(**costs, **more).schema_version == 2
    made = moeopt.tri_domain.Instance.from_arrays(**costs, **parts, **memory, name="all")
    assert (made.channels, made.dimm_share, made.gpu_base_ns) == ((5, 5), (1, 2), 3)
    assert [(e.gpu_calc_ns, e.pcie_ns) for e in made.experts] == [(4, 10), (4, 12)]
    with pytest.raises(InputError, match=r"^gpu_calc_ns\[1\]: must be at most gpu_ns = 12, not 13"):
        moeopt.tri_domain.Instance.from_arrays(**costs, gpu_calc_ns=[4, 13], pcie_ns=[0, 0])


def test_files_round_trip(tmp_path: Path) -> None:
    """Schema 2 with whatever fields there are, byte for byte; absent ones are not written."""
    for kind, seed in product(SCHEMA_2_KINDS, range(5)):
        instance, path = random_schema_2(seed, kind), tmp_path / "instance.json"
        save(instance, path)
        again = moeopt.load(path)
        assert again == instance
        save(again, tmp_path / "again.json")
        assert path.read_bytes() == (tmp_path / "again.json").read_bytes()
        text = path.read_text()
        assert ("channels" in text) == (instance.channels is not None)
        assert ("pcie_ns" in text) == (instance.experts[0].pcie_ns is not None)
        assert "null" not in text.split("experts")[0].replace('"provenance": null', "").replace(
            '"quantum_ns": null', ""
        )


def test_files_of_schema_1_are_saved_as_they_were(root: Path, tmp_path: Path) -> None:
    """Every family of the library, byte for byte."""
    folders = [f for f in (root / "instances" / "tri_domain").iterdir() if f.is_dir()]
    families = [f for f in folders if f.name not in ("solutions", "certificates")]
    for path in (min(f.glob("*.json")) for f in families):
        if moeopt.load(path).schema_version == 2:
            continue
        save(moeopt.load(path), tmp_path / path.name)
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    assert families


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"schema_version": 3}, "schema_version: must be at most 2, not 3"),
        ({"channels": [0, 1]}, "channels: must have 4 entries, one per DIMM, not 2"),
        ({"dimm_share": [3, 2]}, "dimm_share: must be at most 1, not 3/2"),
        ({"gpu_base_ns": -1}, "gpu_base_ns: must be at least 0, not -1"),
    ],
)
def test_what_is_wrong_is_one_line(update: dict[str, Any], message: str) -> None:
    """The field, what is wrong and what would be right."""
    with pytest.raises(InputError, match=f"^{message}$"):
        Instance(**(HAND | update))


@pytest.mark.parametrize(
    ("row", "update", "message"),
    [
        (1, {"gpu_calc_ns": 13}, "gpu_calc_ns: must be at most gpu_ns = 12, not 13"),
        (1, {"pcie_ns": 13}, "pcie_ns: must be at most gpu_ns = 12, not 13"),
        (3, {"pcie_ns": 1}, "pcie_ns: must be 0 because resident is true, not 1"),
        (
            2,
            {"pcie_ns": None},
            "pcie_ns: is missing: gpu_calc_ns and pcie_ns are given for all experts or none",
        ),
    ],
)
def test_what_is_wrong_with_an_expert(row: int, update: dict[str, Any], message: str) -> None:
    """The same for the parts of a run on the GPU."""
    rows = [dict(e) for e in HAND["experts"]]
    rows[row] |= update
    with pytest.raises(InputError, match=rf"^experts\[{row}\].{message}$"):
        Instance(**(HAND | {"experts": rows}))


def test_lanes_show_link_and_channels() -> None:
    """Each lane ends when the checker says that the device is free."""
    for seed in range(10):
        instance = random_schema_2(seed)
        solution = trimoe(instance)
        load, found = loads(instance, solution), lanes(instance, solution)
        ends = {lane.device: max((bar.end_ns for bar in lane.bars), default=0) for lane in found}
        numbers = sorted(set(instance.channels or ()))
        expected = {"GPU": load.gpu_ns, "CPU": load.cpu_ns}
        expected |= {f"DIMM {d}": busy for d, busy in enumerate(load.dimm_ns)}
        expected |= {"PCIe": load.pcie_ns} if instance.two_parts else {}
        channels = zip(numbers, load.channel_ns, strict=True)
        assert ends == expected | {f"channel {number}": busy for number, busy in channels}
