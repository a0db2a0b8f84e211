"""Schema 2: channels, shares of a striped read, the GPU's base load, misses in two parts."""

from functools import cache
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError, save
from tests.mathprog.solve import solve
from tests.problems.agreement import assert_agreement, changed
from tests.problems.layout.by_arrays import optimum
from tests.problems.layout.layout_random_instances import (
    KINDS,
    links_bind,
    random_instance,
    with_schema_2,
)
from tests.problems.layout.test_layout_oracle import BOUNDS, weighted
from tests.refusals import refused
from tests.rooms.core import Search
from tests.rooms.layout import (
    COSTS,
    TWO_PARTS,
    Branch,
    Instance,
    SingleScenario,
    Solution,
    loads,
    lower_bound,
    objective,
    single_scenario,
    violations,
)
from tests.shares import first, shares

# Two DIMMs on each of two channels. A striped read of 5 keeps each DIMM busy for 3.
SCENARIO = {
    "weight": 1,
    "tokens": [1, 1, 1, 1],
    "gpu_hit_ns": [2] * 4,
    "gpu_miss_striped_ns": [10] * 4,
    "gpu_miss_localized_ns": [12] * 4,
    "cpu_striped_ns": [3] * 4,
    "cpu_localized_ns": [4] * 4,
    "ndp_ns": [1, 1, 1, 33],
    "gpu_calc_ns": [4] * 4,
    "pcie_striped_ns": [10] * 4,
    "pcie_localized_ns": [11] * 4,
}
HAND: dict[str, Any] = {
    "name": "hand",
    "schema_version": 2,
    "channels": [8, 3, 3, 8],
    "dimm_share": [1, 2],
    "gpu_base_ns": 9,
    "dimms": 4,
    "hbm_slots": 1,
    "dimm_slots": None,
    "experts": 4,
    "dram_striped_ns": 5,
    "dram_localized_ns": 7,
    "scenarios": [SCENARIO],
}
INSTANCE = Instance(**HAND)


def decided(resident: int | None, dimm: list[int | None], domains: list[str]) -> Solution:
    """Return a solution; `resident` is the one expert that is."""
    held = [row == resident for row in range(4)]
    return Solution(instance="hand", resident=held, dimm=dimm, assignment=[domains])


@pytest.mark.parametrize(
    ("resident", "dimm", "domains", "expected"),
    [
        # Two striped reads: channels 5 + 5, DIMMs 3 + 3. GPU 9 + 4 + 4, PCIe 10 + 11. Expert 2 is
        # read on DIMM 1, where expert 3 runs: 6 + 7 + 33, and channel 3 has 10 + 7.
        (
            None,
            [None, None, 1, 1],
            ["gpu", "cpu", "gpu", "ndp"],
            (17, 3, (6, 46, 6, 6), (17, 10), 21),
        ),
        # A hit is the GPU's alone: 9 + 2.
        (0, [None, None, 1, 1], ["gpu", "cpu", "cpu", "ndp"], (11, 7, (3, 43, 3, 3), (12, 5), 0)),
        # A resident expert that the CPU runs is read from its host copy.
        (0, [3, 0, 1, 1], ["cpu", "cpu", "ndp", "ndp"], (9, 8, (7, 34, 0, 7), (0, 14), 0)),
        # Nothing but NDP: the base load stays, no channel is used.
        (None, [3, 0, 1, 2], ["ndp"] * 4, (9, 0, (1, 1, 33, 1), (0, 0), 0)),
    ],
)
def test_loads_by_hand(
    resident: int | None,
    dimm: list[int | None],
    domains: list[str],
    expected: tuple[int, int, tuple[int, ...], tuple[int, ...], int],
) -> None:
    """GPU, CPU, DIMMs, channels by rising number, and PCIe; the makespan is the largest."""
    solution = decided(resident, dimm, domains)
    [load] = loads(INSTANCE, solution)
    found = (load.gpu_ns, load.cpu_ns, load.dimm_ns, load.channel_ns, load.pcie_ns)
    assert found == expected
    gpu, cpu, dimms, channels, pcie = expected
    assert objective(INSTANCE, solution) == max(gpu, cpu, *dimms, *channels, pcie)
    assert violations(INSTANCE, solution, load.makespan_ns) == []


@pytest.mark.parametrize(
    ("claim", "dimm", "domains", "rule", "words"),
    [
        # GPU 9 + 4, PCIe 10, DIMM 0: 1, channel 8: 5.
        (12, [None, 0, 1, 2], ["gpu", "ndp", "ndp", "cpu"], "LA-C5", "the GPU is busy for 13 ns"),
        # Channel 3: 5 + 7 + 7, the DIMMs 10 each, the CPU 15.
        (18, [None, 0, 1, 2], ["cpu"] * 4, "LA-C8", "channel 3 is busy for 19 ns"),
        (18, [None, 1, 1, 2], ["cpu"] * 4, "LA-C8", "channel 3 is busy for 26 ns"),
        # PCIe 20, channels 10, DIMM 2: 6 + 7, channel 3: 17.
        (19, [None, None, 0, 2], ["gpu", "gpu", "ndp", "cpu"], "LA-C9", "PCIe is busy for 20 ns"),
    ],
)
def test_each_violation_is_named(
    claim: int, dimm: list[int | None], domains: list[str], rule: str, words: str
) -> None:
    """The device that is busy past the claim."""
    solution = decided(None, dimm, domains)
    [(name, sentence)] = violations(INSTANCE, solution, claim)
    assert name == rule
    assert words in sentence


def test_only_rules_that_say_something_are_named() -> None:
    """A claim below zero breaks every rule that the instance has: channels and PCIe if stated."""
    solution = decided(None, [None] * 4, ["gpu", "gpu", "cpu", "cpu"])
    every = {"LA-C5", "LA-C6", "LA-C7", "LA-C8", "LA-C9"}
    assert {rule for rule, _ in violations(INSTANCE, solution, -1)} == every
    for without in ("channels", "parts"):
        data = {k: v for k, v in HAND.items() if k != without}
        if without == "parts":
            old = {k: v for k, v in SCENARIO.items() if not k.startswith(("gpu_calc", "pcie"))}
            data["scenarios"] = [old]
        silent = {"channels": "LA-C8", "parts": "LA-C9"}[without]
        found = {rule for rule, _ in violations(Instance(**data), solution, -1)}
        assert found == every - {silent}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 3}, "schema_version: must be at most 2, not 3"),
        ({"channels": [0, 0, 1]}, "channels: must have 4 entries, one per DIMM, not 3"),
        ({"dimm_share": [3, 2]}, "dimm_share: must be at most 1, not 3/2"),
        ({"forecast_tokens": [1]}, "forecast_tokens: must have 4 entries, one per expert, not 1"),
    ],
)
def test_wrong_fields_get_one_line(changes: dict[str, Any], message: str) -> None:
    """What is wrong, and where."""
    with pytest.raises(InputError) as error:
        Instance(**(HAND | changes))
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gpu_calc_ns": [4] * 3}, "gpu_calc_ns: must have 4 entries, one per expert, not 3"),
        ({"pcie_striped_ns": None}, "pcie_striped_ns: is missing; gpu_calc_ns, pcie_striped_ns, "),
        (
            {"gpu_calc_ns": [4, 4, 11, 4]},
            "gpu_calc_ns[2]: must be at most gpu_miss_striped_ns = 10, not 11",
        ),
        (
            {"pcie_localized_ns": [4, 13, 4, 4]},
            "pcie_localized_ns[1]: must be at most gpu_miss_localized_ns = 12, not 13",
        ),
    ],
)
def test_wrong_parts_of_a_miss_get_one_line(changes: dict[str, Any], message: str) -> None:
    """The second scenario is wrong; costs without tokens mean nothing."""
    said = refused(Instance, **HAND | {"scenarios": [SCENARIO, SCENARIO | changes]})
    assert said.startswith(f"scenarios[1].{message}")
    if "at most" in message:
        idle = SCENARIO | changes | {"tokens": [1, 0, 0, 1]}
        assert len(Instance(**(HAND | {"scenarios": [SCENARIO, idle]})).scenarios) == 2


def test_arrays_make_the_same_instance() -> None:
    """With a field of schema 2 it is of schema 2, without any of schema 1."""
    names = [name for name in SCENARIO if name not in ("weight", "tokens")]
    given: dict[str, Any] = {name: np.array([SCENARIO[name]]) for name in names}
    plain = {"dimms": 4, "hbm_slots": 1, "dram_striped_ns": 5, "dram_localized_ns": 7}
    memory = {"channels": np.array([8, 3, 3, 8]), "dimm_share": (1, 2), "gpu_base_ns": 9}
    tokens = [SCENARIO["tokens"]]
    found = Instance.from_arrays(tokens=tokens, name="hand", **given, **plain, **memory)
    assert found == INSTANCE
    old = {k: v for k, v in given.items() if not k.startswith(("gpu_calc", "pcie"))}
    assert Instance.from_arrays(tokens=tokens, **old, **plain).schema_version == 1
    forecast = Instance.from_arrays(tokens=tokens, **old, **plain, forecast_tokens=[3, 2, 1, 0])
    assert (forecast.schema_version, forecast.forecast_tokens) == (2, (3, 2, 1, 0))
    with pytest.raises(InputError, match="channels: must have 4 entries, one per DIMM, not 2"):
        Instance.from_arrays(tokens=tokens, **old, **plain, channels=[1, 2])


def test_files_keep_their_bytes(tmp_path: Path, root: Path) -> None:
    """What is absent is not written: schema 1 as ever, schema 2 with its own fields only."""
    files = sorted(root.glob("instances/layout/*/*.json"))
    assert len(files) > 10
    for file in files[::8]:
        copied = tmp_path / file.name
        save(moeopt.load(file), copied)
        assert copied.read_bytes() == file.read_bytes()
    saved = tmp_path / "hand.json"
    save(INSTANCE, saved)
    assert moeopt.load(saved) == INSTANCE
    assert "forecast_tokens" not in saved.read_text()


def test_reads_of_a_channel_are_counted_exactly() -> None:
    """As many localized reads as end within the makespan; none is said where all do."""
    for seed in range(0, 20, 2):
        scenario = SingleScenario.of(links_bind(seed), 0)
        for striped, local, makespan in product(range(4), range(1, 4), range(40)):
            ends = [striped * scenario.channel_read + k * scenario.local_read for k in range(5)]
            most = sum(end <= makespan for end in ends[1 : local + 1])
            found = scenario.reads_per_channel(Branch(striped, local), makespan)
            assert found == (None if most == local else most)


MOST = 9
"""Experts times DIMMs of an instance that brute force gets here."""


@cache
def tiny() -> tuple[Instance, ...]:
    """Return 300 random instances; kinds and fields take turns."""
    made = (
        with_schema_2(random_instance(seed, kind), seed) for seed in range(60) for kind in KINDS
    )
    return tuple(
        islice((instance for instance in made if instance.experts * instance.dimms <= MOST), 300)
    )


def test_links_that_bind_are_proven() -> None:
    """Where channels or PCIe decide, bound and pack closes by itself, and cp-sat agrees."""
    bind = {"LA-C8": 0, "LA-C9": 0}
    for seed in range(12):
        instance = links_bind(seed)
        best = optimum(instance)
        search = Search(limit_s=30.0)
        single_scenario.solve(instance, search)
        assert (search.objective, search.bound) == (best, best), instance.name
        if seed % 10 < 2:
            assert solve(instance, "cp-sat").objective == best, instance.name
        [load] = loads(instance, search.solution)
        for rule in bind:
            bind[rule] += load.makespan_of(rule) == best > load.makespan_without([rule])
    assert min(bind.values()) > 1


@pytest.mark.parametrize(
    "share", [slice(0, 300, 150), pytest.param(slice(0, 300), marks=pytest.mark.slow)]
)
def test_every_method_agrees_with_brute_force(share: slice) -> None:
    """See `assert_agreement`."""
    for instance in tiny()[share]:
        assert_agreement(instance, optimum(instance), map(weighted, BOUNDS))


@pytest.mark.parametrize("method", ["brute-force", "cp-sat", "milp", "mathprog", "bound-and-pack"])
def test_dimms_are_numbered_within_their_channels(method: str) -> None:
    """The CPU reads experts 0 and 1 through different channels, while expert 2 is on NDP: 10 each.

    DIMMs 0 and 1 share a channel: the second expert lies on DIMM 2, before any lies on DIMM 1.
    """
    dear = [1000] * 3
    row = dict.fromkeys(COSTS, dear) | {"weight": 1, "tokens": [1] * 3}
    row |= {"cpu_localized_ns": [5, 5, 1000], "ndp_ns": [1000, 1000, 10]}
    fields = {"dimms": 3, "hbm_slots": 0, "dimm_slots": None, "experts": 3, "channels": [0, 0, 1]}
    reads = {"dram_striped_ns": 1000, "dram_localized_ns": 10}
    instance = Instance(name="three", schema_version=2, scenarios=[row], **fields, **reads)
    given = {} if method in ("bound-and-pack", "brute-force") else {"warm_start": False}
    result = solve(instance, method, **given)
    assert (result.status, result.objective) == ("optimal", 10)


@pytest.mark.parametrize("count", [10, pytest.param(30, marks=pytest.mark.slow)])
def test_bounds_are_not_trivial(count: int) -> None:
    """Each new field is seen: the bounds meet the optimum on a good share of the instances."""
    met = sum(lower_bound(instance) == optimum(instance) for instance in tiny()[:count])
    assert met >= 0.26 * count


def test_channels_and_dimms_are_only_names() -> None:
    """Renumbered channels and reordered DIMMs: the same optimum."""
    with_channels = [instance for instance in tiny() if instance.channels and instance.dimms > 1]
    for instance in with_channels[:4]:
        assert instance.channels is not None
        best = optimum(instance)
        reverse = [9 - channel for channel in instance.channels[::-1]]
        other = changed(instance, channels=reverse)
        for method in ("cp-sat", "bound-and-pack"):
            assert solve(other, method).objective == best, instance.name


def test_the_optimum_scales_with_the_times() -> None:
    """All times multiplied: the optimum multiplied; rounded shares of a read as well, if whole."""
    for instance in [of for of in tiny() if "huge" not in of.name][:5]:
        _, whole = instance.dimm_share or (1, 1)
        for factor in (whole, 5 * whole):
            exact = changed(instance, dram_striped_ns=whole * instance.dram_striped_ns)
            rows = [
                row | {name: [factor * ns for ns in row[name]] for name in times(row)}
                for row in exact.model_dump()["scenarios"]
            ]
            reads = {
                name: None if getattr(exact, name) is None else factor * getattr(exact, name)
                for name in ("dram_striped_ns", "dram_localized_ns", "gpu_base_ns")
            }
            scaled = changed(exact, scenarios=rows, **reads)
            assert solve(scaled, "cp-sat").objective == factor * optimum(exact)


def times(row: dict[str, Any]) -> list[str]:
    """Return the fields of a scenario that are times."""
    return [name for name in (*COSTS, *TWO_PARTS) if row.get(name) is not None]


@pytest.mark.parametrize("seeds", shares(2, 4))
def test_fields_that_say_nothing_are_schema_1(seeds: range) -> None:
    """Share 1, no base load, a channel for each DIMM: every channel's reads load its DIMM, too."""
    for seed in seeds:
        old = random_instance(seed, KINDS[seed % len(KINDS)])
        best = solve(old, "cp-sat").objective
        silent = {"schema_version": 2, "dimm_share": [1, 1], "gpu_base_ns": 0}
        for channels in (None, list(range(old.dimms))):
            for method in ("cp-sat", "bound-and-pack"):
                new = changed(old, **silent, channels=channels)
                assert solve(new, method).objective == best, old.name


def test_each_field_has_its_direction() -> None:
    """Channels and base load never help, a share and two parts never hurt; each matters somewhere.

    More channels share the localized reads: fewer never help either.
    """
    fell = dict.fromkeys(("channels", "merged", "base", "share", "parts"), 0)
    for seed in range(30):
        kind = ("cheap localized reads", "dimms bind", "mixed")[seed % 3]
        parts = ("channels", "share", "base", "two parts")
        full = with_schema_2(random_instance(seed, kind), seed, parts)
        if full.experts * full.dimms > 6:
            continue
        assert full.gpu_base_ns is not None
        full = changed(full, gpu_base_ns=full.gpu_base_ns // 8)
        best = optimum(full)
        old_rows = [
            {name: of for name, of in row.items() if name not in TWO_PARTS}
            for row in full.model_dump()["scenarios"]
        ]
        lower = {
            "channels": optimum(changed(full, channels=None)),
            "base": optimum(changed(full, gpu_base_ns=0)),
        }
        higher = {
            "merged": optimum(changed(full, channels=[0] * full.dimms)),
            "share": optimum(changed(full, dimm_share=[1, 1])),
            "parts": optimum(changed(full, scenarios=old_rows)),
        }
        for name, value in lower.items():
            assert value <= best, (full.name, name)
            fell[name] += value < best
        for name, value in higher.items():
            assert value >= best, (full.name, name)
            fell[name] += value > best
    assert all(fell.values()), fell


@pytest.mark.parametrize("name", first(1, ["intent", "law", "summary"]))
def test_real_windows_are_proven(name: str, root: Path) -> None:
    """Eight localized reads on eight channels: each DIMM may hold one, so that packings spread."""
    file = root / f"instances/layout/own-two-parts/own-two-parts-{name}-layer4-batch256.json"
    result = moeopt.solve(moeopt.load(file), "bound-and-pack", time_limit_s=60)
    assert (result.status, result.proof) == ("optimal", "confirmed")
    assert result.raw_status.startswith("PROVEN; ")
