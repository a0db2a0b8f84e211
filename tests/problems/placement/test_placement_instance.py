"""The instance file of placement: what is read, and what is refused in one line."""

from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import save
from tests.refusals import refused
from tests.rooms.placement import MAX_TOTAL_NS, Instance, expert_ns

DATA: dict[str, Any] = {
    "problem": "placement",
    "schema_version": 1,
    "name": "p",
    "layers": 2,
    "experts": 3,
    "gpu_slots": 4,
    "gpu_expert_ns": [0, 2, 3],
    "offload_expert_ns": [0, 10],
    "layer_offload_fixed_ns": 30,
    "steps": [[[[0, 2], [1, 1]], [[2, 1]]], [[], [[2, 4], [0, 1]]]],
}


FREE: dict[str, Any] = {"schema_version": 2, "dispatch": "free"}

WIDTHS: dict[str, Any] = {
    "schema_version": 2,
    "expert_width": [[0, 1, 0], [1, 0, 1]],
    "width_gpu_ns": [[0, 1, 2]],
    "width_offload_ns": [[0, 5]],
}


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_written_and_read_again(tmp_path: Any, suffix: str) -> None:
    """The contract's fields alone are enough; the others have its meaning as defaults."""
    save(DATA, tmp_path / f"p{suffix}")
    instance = moeopt.load(tmp_path / f"p{suffix}")
    assert isinstance(instance, Instance)
    assert instance.steps == ((((0, 2), (1, 1)), ((2, 1),)), ((), ((2, 4), (0, 1))))
    assert (instance.restriction, instance.fill, instance.expert_slots) == (None, False, None)
    assert (instance.host_slots, instance.host_copy) == (None, True)
    assert np.array_equal(instance.tokens, [[2, 1, 0], [1, 0, 5]])
    moeopt.save(instance, tmp_path / "again.json")
    assert moeopt.load(tmp_path / "again.json") == instance


def test_every_option_is_written_and_read_again(tmp_path: Any) -> None:
    """As another program would write them."""
    options = {"restriction": "equal-counts", "fill": True, "host_slots": 9, "host_copy": False}
    save(DATA | options | {"expert_slots": [[4, 4, 2], [2, 4, 4]]}, tmp_path / "p.json")
    instance = moeopt.load(tmp_path / "p.json")
    moeopt.save(instance, tmp_path / "again.json")
    assert moeopt.load(tmp_path / "again.json") == instance
    assert isinstance(instance, Instance)
    assert np.array_equal(instance.sizes, [[4, 4, 2], [2, 4, 4]])


def test_the_last_slope_continues() -> None:
    """Up, down and flat; the arrays of all methods agree with the checker's function."""
    assert [expert_ns((0, 2, 3), n) for n in range(5)] == [0, 2, 3, 4, 5]
    assert [expert_ns((0, 10), n) for n in range(4)] == [0, 10, 20, 30]
    assert [expert_ns((0, 9, 7, 6), n) for n in range(6)] == [0, 9, 7, 6, 5, 4]
    layer = Instance(**DATA).layer_steps[1]
    assert sorted(layer.gpu_ns.tolist()) == [2, 2, 5]
    assert sorted(layer.offload_ns.tolist()) == [10, 10, 40]


def test_each_expert_has_the_times_of_its_width() -> None:
    """Its own tables and their last slopes, in the arrays of all methods as for the checker."""
    instance = Instance(**(DATA | WIDTHS))
    assert [instance.gpu_ns(0, e, 4) for e in range(3)] == [5, 4, 5]
    assert [instance.offload_ns(1, e, 3) for e in range(3)] == [15, 30, 15]
    layer = instance.layer_steps[1]
    assert sorted(zip(layer.expert.tolist(), layer.gpu_ns.tolist(), strict=True)) == [
        (0, 1),
        (2, 1),
        (2, 4),
    ]
    assert sorted(layer.offload_ns.tolist()) == [5, 5, 20]
    arrays = Instance.from_arrays(
        tokens=[[[2, 1, 0]]],
        gpu_slots=1,
        gpu_expert_ns=[0, 2],
        offload_expert_ns=[0, 9],
        dispatch="free",
        expert_width=np.array([[0, 1, 0]]),
        width_gpu_ns=[[0, 1]],
        width_offload_ns=[[0, 4]],
    )
    assert (arrays.schema_version, arrays.dispatch) == (2, "free")
    assert arrays.layer_steps[0].offload_ns.tolist() == [18, 4]


def test_fields_of_earlier_versions_are_read_where_they_say_nothing(tmp_path: Any) -> None:
    """A file may have them as null; they are not written again."""
    save(DATA | {"step_scores": None, "score_scale": None}, tmp_path / "p.json")
    instance = moeopt.load(tmp_path / "p.json")
    assert instance == Instance(**DATA)
    assert instance == Instance(**(DATA | {"step_scores": None}))
    assert not {"step_scores", "score_scale"} & instance.model_dump().keys()


def test_equal_steps_are_merged() -> None:
    """Whatever the order in which a step lists its experts; steps without tokens are dropped."""
    steps = [[[[0, 1], [1, 2]], []], [[[1, 2], [0, 1]], []], [[[0, 1], [1, 1]], []]]
    first, second = Instance(**(DATA | {"steps": steps})).layer_steps
    assert (first.weight.tolist(), first.start.tolist()) == ([2, 1], [0, 2, 4])
    assert second.rows == 0


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"steps": []}, "steps: "),
        ({"steps": [[[[0, 1]]]]}, "steps[0]: must have one list per layer, 2, not 1"),
        ({"steps": [[[[0, 1]], [[3, 1]]]]}, "steps[0][1][0][0]: must be below experts = 3, not 3"),
        ({"steps": [[[[0, 1], [0, 2]], []]]}, "steps[0][0][1][0]: expert 0 stands twice"),
        ({"steps": [[[[0, 0]], []]]}, "steps[0][0][0][1]: must be at least 1: others are left out"),
        ({"steps": [[[[0, 1.5]], []]]}, "steps[0][0][0][1]: "),
        ({"steps": [[[[0]], []]]}, "steps[0][0][0]"),
        ({"layers": 0}, "layers: "),
        ({"layers": 1024, "experts": 4096}, "experts: layers x experts must be at most 262144"),
        ({"gpu_slots": -1}, "gpu_slots: "),
        ({"gpu_expert_ns": [0]}, "gpu_expert_ns: "),
        ({"gpu_expert_ns": [1, 2]}, "gpu_expert_ns[0]: no tokens cost 0, not 1"),
        ({"offload_expert_ns": [0, 9, 4]}, "steps: 4 tokens are beyond offload_expert_ns, whose"),
        ({"offload_expert_ns": [0, 2**42], "steps": DATA["steps"] * 64}, "steps: every expert "),
        ({"layer_offload_fixed_ns": 2**42, "steps": DATA["steps"] * 64}, "steps: every expert "),
        ({"restriction": "rows"}, "restriction: "),
        ({"fill": 1}, "fill: "),
        ({"expert_slots": [[1, 1, 1]]}, "expert_slots: must have one list per layer, 2, not 1"),
        ({"expert_slots": [[1, 1, 1], [1]]}, "expert_slots[1]: must have one entry per expert, 3"),
        ({"expert_slots": [[1, 0, 1], [1, 1, 1]]}, "expert_slots[0][1]: "),
        ({"host_slots": -1}, "host_slots: "),
        ({"gpu": [[1], [2]]}, "gpu: "),
        (FREE | {"host_copy": False}, "dispatch: free needs a copy of every expert: host_copy is"),
        (FREE | {"dispatch": "best"}, "dispatch: "),
        (WIDTHS | {"width_gpu_ns": None}, "expert_width: needs width_gpu_ns and width_offload_ns"),
        (WIDTHS | {"expert_width": None}, "width_gpu_ns: needs expert_width and width_offload_ns"),
        (WIDTHS | {"expert_width": [[0, 0, 1]]}, "expert_width: must have one list per layer, 2"),
        (WIDTHS | {"expert_width": [[0] * 3, [1]]}, "expert_width[1]: must have one entry per"),
        (WIDTHS | {"expert_width": [[0] * 3, [0, 2, 0]]}, "expert_width[1][1]: must be at most 1"),
        (
            WIDTHS | {"width_gpu_ns": [[0, 1]]},
            "width_gpu_ns[0]: must have 3 entries, as the common",
        ),
        (WIDTHS | {"width_gpu_ns": [[1, 1, 1]]}, "width_gpu_ns[0][0]: no tokens cost 0, not 1"),
        (WIDTHS | {"width_offload_ns": [[0, 1]] * 2}, "width_offload_ns: must have a table per"),
        (WIDTHS | {"width_gpu_ns": [[0, 9, 2]]}, "width_gpu_ns[0]: 4 tokens are beyond a table"),
        (
            WIDTHS | {"width_offload_ns": [[0, 2**42]], "steps": DATA["steps"] * 64},
            "steps: every expert ",
        ),
        (
            {"step_scores": [[[7, 3], [9]], [[], [4, 5]]], "score_scale": 10},
            "step_scores: is no longer supported: leave it out, or let it be null",
        ),
        ({"score_scale": 10}, "score_scale: is no longer supported: leave it out, or let it be"),
    ],
)
def test_what_is_refused(tmp_path: Any, change: dict[str, Any], line: str) -> None:
    """The line names file, field and reason."""
    save(DATA | change, tmp_path / "p.json")
    assert refused(moeopt.load, tmp_path / "p.json").startswith(f"{tmp_path / 'p.json'}: {line}")


def test_the_longest_run_is_accepted() -> None:
    """Both sides of one expert in every step together, to the last ns."""
    data = DATA | {"layers": 1, "experts": 1, "layer_offload_fixed_ns": 0}
    data |= {"gpu_expert_ns": [0, 4], "offload_expert_ns": [0, 2**42 - 4]}
    instance = Instance(**(data | {"steps": [[[[0, 1]]]] * 256}))
    assert MAX_TOTAL_NS == 256 * 2**42
    assert instance.layer_steps[0].weight.tolist() == [256]


def test_a_changed_copy_forgets_what_was_derived() -> None:
    """Sizes and merged steps are those of the copy's own data; an unchanged copy keeps them."""
    instance = Instance(**DATA)
    assert instance.sizes.sum() == 6
    assert len(instance.layer_steps) == 2
    larger = instance.model_copy(update={"expert_slots": ((4, 4, 4), (4, 4, 4))})
    assert larger.sizes.sum() == 24
    shorter = instance.model_copy(update={"steps": instance.steps[:1]})
    assert [layer.rows for layer in shorter.layer_steps] == [1, 1]
    assert instance.model_copy().sizes is instance.sizes
