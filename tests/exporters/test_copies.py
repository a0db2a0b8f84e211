"""Maps of copies for runtimes: every slot filled, and read back as they would be."""

import json
from pathlib import Path

import pytest

from moeopt.errors import InputError
from moeopt.exporters.copies import full_slots, read_copies, sglang, tensorrt_llm, vllm_ascend
from moeopt.problems.replication.check import objective, violations
from moeopt.problems.replication.heuristics import eplb, longest_first
from moeopt.problems.replication.instance import Instance
from moeopt.problems.replication.solution import Solution

LAYER = Instance.from_arrays(loads=[9, 4, 4, 3, 2, 1], devices=2, slots=4, name="layer")


def test_slots_hold_the_copies() -> None:
    """EPLB fills all of them; what a plan leaves empty gets the copy that is best there."""
    plan = eplb(LAYER)
    held = full_slots(LAYER, plan)
    assert [sorted(experts) for experts in held] == [
        [e for e, row in enumerate(plan.copies) if device in row] for device in (0, 1)
    ]
    few = longest_first(LAYER)
    filled = full_slots(LAYER, few)
    assert all(len(set(experts)) == 4 for experts in filled)
    rows = tuple(tuple(d for d in (0, 1) if e in filled[d]) for e in range(6))
    more = Solution(instance="layer", copies=rows)
    assert violations(LAYER, more) == []
    # Each device has one slot left: no other pair of fillers is better than the best first one.
    first = [e for e in range(6) if 0 not in few.copies[e]]
    values = []
    for expert in first:
        copies = [[*row, 0] if e == expert else list(row) for e, row in enumerate(few.copies)]
        values.append(objective(LAYER, Solution(instance="layer", copies=copies)))
    chosen = next(e for e in first if 0 in rows[e])
    assert values[first.index(chosen)] == min(values)


def test_no_copy_fits() -> None:
    """Two experts cannot fill three slots of a device."""
    both = Instance.from_arrays(loads=[1, 1], devices=2, slots=3, name="both")
    with pytest.raises(InputError, match="no further copy may fill"):
        full_slots(both, longest_first(both))


def test_every_format_is_read_back(tmp_path: Path) -> None:
    """As the current placement of a layer."""
    plan = eplb(LAYER)
    held = full_slots(LAYER, plan)
    layers = {1: held, 3: held[::-1]}
    swapped = tuple(tuple(sorted(1 - device for device in row)) for row in plan.copies)
    for name, data, number in (
        ("map.json", sglang(layers, 5, 6), 1),
        ("ascend.json", vllm_ascend(layers), 0),
        ("balancer.yaml", tensorrt_llm(layers), 1),
    ):
        file = tmp_path / name
        file.write_bytes(data)
        assert read_copies(file, number, 2, 6) == plan.copies
        other = read_copies(file, {0: 1, 1: 3}[number], 2, 6)
        assert tuple(tuple(sorted(row)) for row in other) == swapped
        LAYER.model_validate(LAYER.model_dump() | {"current": other})
    rows = json.loads((tmp_path / "map.json").read_text())
    assert list(rows) == ["physical_to_logical_map"]  # any other key is an error there
    assert rows["physical_to_logical_map"][0] == [0, 1, 2, 3, 4, 5, 0, 1]
    lines = (tmp_path / "balancer.yaml").read_text().splitlines()
    assert lines[:3] == ["num_slots: 8", "layer_updates_per_iter: 0", "initial_global_assignments:"]


def test_wrong_maps_are_refused(tmp_path: Path) -> None:
    """With the file and the reason."""
    file = tmp_path / "map.json"
    for text, reason in (
        ('{"other": 1}', "must have physical_to_logical_map or layer_list"),
        ('{"physical_to_logical_map": []}', "has no layer 0"),
        ('{"physical_to_logical_map": [[0, 1, 2]]}', "3 slots for 2 devices"),
        ('{"physical_to_logical_map": [[0, 9]]}', "there is no expert 9 of 6"),
        ('{"layer_list": [{}]}', "must be a list of experts"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=reason):
            read_copies(file, 0, 2, 6)
    yaml = tmp_path / "balancer.yaml"
    yaml.write_text("num_slots: 8\n")
    with pytest.raises(InputError, match="has no layer 0"):
        read_copies(yaml, 0, 2, 6)
    with pytest.raises(InputError, match="equally many slots"):
        tensorrt_llm({0: [[0], [1, 2]]})
