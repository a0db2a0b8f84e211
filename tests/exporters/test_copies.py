"""Maps of copies for runtimes: every slot filled, and read back as they would be."""

import json
from pathlib import Path

import pytest

import moeopt
from moeopt import InputError
from tests.exporters import placements
from tests.exporters.placements import shape
from tests.rooms.exporters import full_slots, read_copies
from tests.rooms.replication import Instance, Solution, eplb, longest_first, objective, violations

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


SHAPE = shape(dense=(0, 2), experts=6, moe_layers=2)
"""Layers 1 and 3 of four have experts."""


def test_a_map_is_read_back(tmp_path: Path) -> None:
    """As the current placement of a layer; another layer is written into the same map."""
    plan, swapped = eplb(LAYER), eplb(LAYER).model_copy(update={"instance": "second"})
    swapped = swapped.model_copy(
        update={"copies": tuple(tuple(sorted(1 - d for d in row)) for row in plan.copies)}
    )
    second = LAYER.model_copy(update={"name": "second", "provenance": {"options": {"layer": 1}}})
    first = moeopt.export(plan, LAYER, to="sglang", model=SHAPE)
    assert first.notes["decided_layer"] == 1
    assert first.notes["balance"]["fullest"] == [objective(LAYER, plan) / LAYER.units_per_token]
    file, _ = first.save(tmp_path / "map.json")
    onto = {"onto": str(file)}
    made = moeopt.export(swapped, second, to="sglang", model=SHAPE, options=onto)
    again, _ = made.save(tmp_path / "second-map.json")
    assert read_copies(file, 1, 2, 6) == plan.copies
    assert read_copies(file, 3, 2, 6) != plan.copies  # the experts in turn
    for number, solution in ((1, plan), (3, swapped)):
        found = read_copies(again, number, 2, 6)
        assert tuple(tuple(sorted(row)) for row in found) == solution.copies
        LAYER.model_validate(LAYER.model_dump() | {"current": found})
    rows = json.loads(file.read_text())
    assert list(rows) == ["physical_to_logical_map"]  # any other key is an error there
    assert rows["physical_to_logical_map"][0] == [0, 1, 2, 3, 4, 5, 0, 1]


def test_a_split_that_the_runtime_does_not_follow_is_said() -> None:
    """The warning says what an even split makes of the plan; an even plan has none."""
    loads = {"loads": [4, 2, 1], "devices": 2, "slots": 2, "name": "free"}
    model = shape(dense=(), experts=3, moe_layers=1)
    for kernel in ({}, {"work": "kernel", "read_ns": 50, "token_ns": 1}):
        free = Instance.from_arrays(**loads, split="free", **kernel)
        copies = ((0, 1), (0,), (1,))
        plan = Solution(instance="free", copies=copies)
        if kernel:  # the hot expert on one device: 2 + 1 readings become 2 + 2
            plan = plan.model_copy(update={"shares": (((0, 4), (2,), (1,)),)})
        made = moeopt.export(plan, free, to="sglang", model=model)
        [said] = [line for line in made.warnings if "evenly over its copies" in line]
        asked = objective(free, plan)
        even = objective(free.model_copy(update={"split": "even"}), plan)
        assert f"{even} instead of the plan's {asked}" in said
        even_plan = free.model_copy(update={"split": "even"})
        same = plan.model_copy(update={"shares": None})
        again = moeopt.export(same, even_plan, to="sglang", model=model)
        assert not any("evenly" in line for line in again.warnings)
        if kernel:
            assert made.notes["slowest_ns"] == [even]


def test_options_of_copies_are_held_to_the_plan(tmp_path: Path) -> None:
    """Devices and slots are the plan's; another map has as many slots."""
    plan = eplb(LAYER)
    other = tmp_path / "other.json"
    other.write_text('{"physical_to_logical_map": [[0], [0], [0], [0]]}')
    for options, reason in (
        ({"ep_size": 4}, "--ep-size: the plan is for 2 devices"),
        ({"redundant_experts": 2}, "--redundant-experts: the plan says"),
        ({"onto": str(other)}, "--onto: .*other.json: layer 1: must have 8 slots"),
        ({"onto": str(tmp_path / "none.json")}, "none.json"),
    ):
        with pytest.raises(InputError, match=reason) as error:
            moeopt.export(plan, LAYER, to="sglang", model=SHAPE, options=options)
        assert "\n" not in str(error.value)
    wrong = LAYER.model_copy(update={"provenance": {"options": {"layer": 7}}})
    with pytest.raises(InputError, match="layer: 7 of the provenance is none of tiny's"):
        moeopt.export(plan, wrong, to="sglang", model=SHAPE)


@pytest.mark.slow
def test_a_placement_on_several_devices_is_balanced_by_its_tokens() -> None:
    """The golden case, eight devices of two slots: 600 tokens on one device in order, 590/3 now."""
    tokens = [600, 560, 120, 120, 20, 10, 10, 10]
    steps = [[[(e, n) for e, n in enumerate(tokens)]]]
    given = placements.instance(
        layers=1, experts=8, gpu_slots=8, steps=steps,
        gpu_expert_ns=[0, 2], offload_expert_ns=[0, 9],
    )  # fmt: skip
    chosen = placements.plan(given, [range(8)])
    model = shape(dense=(), experts=8, moe_layers=1)
    options = {"ep_size": 8, "redundant_experts": 8}
    found = moeopt.export(chosen, given, to="sglang", model=model, options=options)
    [balance] = found.notes["balance"]
    assert (balance["fullest"], balance["mean"]) == (pytest.approx(590 / 3, abs=1e-3), 181.25)
    assert balance["bound"] <= balance["fullest"]
    without = moeopt.export(chosen, given, to="sglang", model=model, options={"ep_size": 8})
    assert without.notes["balance"][0]["fullest"] == 600
    with pytest.raises(InputError, match="8 experts and 3 copies do not divide evenly over 8"):
        moeopt.export(
            chosen, given, to="sglang", model=model, options=options | {"redundant_experts": 3}
        )


def test_wrong_maps_are_refused(tmp_path: Path) -> None:
    """With the file and the reason."""
    file = tmp_path / "map.json"
    for text, reason in (
        ('{"other": 1}', "physical_to_logical_map: must be lists of experts"),
        ('{"physical_to_logical_map": []}', "must be lists of experts"),
        ('{"physical_to_logical_map": [[0, 1, 2]]}', "3 slots for 2 devices"),
        ('{"physical_to_logical_map": [[0, 9]]}', "there is no expert 9 of 6"),
        ('{"physical_to_logical_map": [[0, 1], [0]]}', "equally many slots in every layer"),
        ('{"physical_to_logical_map": [[0, -1]]}', "must be lists of experts"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=reason):
            read_copies(file, 0, 2, 6)
    file.write_text('{"physical_to_logical_map": [[0, 1]]}')
    with pytest.raises(InputError, match="has no layer 3"):
        read_copies(file, 3, 2, 6)


def test_an_expert_of_many_digits_is_one_short_line(tmp_path: Path) -> None:
    """Found by fuzzing: the number stood there whole."""
    file = tmp_path / "map.json"
    row = [0, 1, 2, 3, 0, 10**140]
    file.write_text(json.dumps({"physical_to_logical_map": [row]}))
    with pytest.raises(InputError, match="there is no expert 1000") as refused:
        read_copies(file, 0, 2, 4)
    assert "0" * 60 not in str(refused.value)
