"""Schema 2: channels, shares of a striped read, the GPU's base load, misses in two parts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt.errors import InputError
from moeopt.problems.json_files import save
from moeopt.problems.layout.check import loads, objective, violations
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.solution import Solution

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
        ({"schema_version": 1}, "channels: is a field of schema 2: schema_version must be 2"),
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
    with pytest.raises(InputError) as error:
        Instance(**(HAND | {"scenarios": [SCENARIO, SCENARIO | changes]}))
    assert str(error.value).startswith(f"scenarios[1].{message}")
    if "at most" in message:
        idle = SCENARIO | changes | {"tokens": [1, 0, 0, 1]}
        assert len(Instance(**(HAND | {"scenarios": [SCENARIO, idle]})).scenarios) == 2


@pytest.mark.parametrize("field", ["gpu_calc_ns", "forecast_tokens", "gpu_base_ns"])
def test_a_field_of_schema_2_needs_schema_2(field: str) -> None:
    """Wherever it stands."""
    old = {k: v for k, v in SCENARIO.items() if not k.startswith(("gpu_calc", "pcie"))}
    memory = ("schema_version", "channels", "dimm_share", "gpu_base_ns")
    data = {k: v for k, v in HAND.items() if k not in memory} | {"scenarios": [old]}
    assert Instance(**data).schema_version == 1
    if field == "gpu_calc_ns":
        data["scenarios"] = [SCENARIO]
    else:
        data[field] = {"forecast_tokens": [1, 2, 3, 4], "gpu_base_ns": 0}[field]
    with pytest.raises(InputError, match=f"{field}: is a field of schema 2"):
        Instance(**data)
    assert Instance(**(data | {"schema_version": 2})).schema_version == 2


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
    with pytest.raises(InputError, match=r"channels: must have shape \(4,\) \(dimms,\)"):
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
