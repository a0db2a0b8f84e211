"""The instance file of deferral: one integer or a list, and what is refused."""

from typing import Any

import pytest

import moeopt
from moeopt import InputError, save
from tests.refusals import refused
from tests.rooms.deferral import Instance

DATA: dict[str, Any] = {
    "problem": "deferral",
    "schema_version": 1,
    "name": "d",
    "layers": 3,
    "top_k": 4,
    "min_immediate": 2,
    "attention_ns": 10,
    "shared_ns": [1, 2, 3],
    "sync_ns": 5,
    "expert_cpu_ns": 7,
    "penalty": [0, 1, 1],
    "max_total_penalty": None,
}


def test_one_integer_stands_for_all_layers(tmp_path: Any) -> None:
    """Read, it is a list; written and read again, it is the same instance."""
    save(DATA, tmp_path / "d.json")
    instance = moeopt.load(tmp_path / "d.json")
    assert isinstance(instance, Instance)
    assert instance.attention_ns == (10, 10, 10)
    assert instance.shared_ns == (1, 2, 3)
    moeopt.save(instance, tmp_path / "again.json")
    assert moeopt.load(tmp_path / "again.json") == instance
    assert Instance(**{**DATA, "attention_ns": [10, 10, 10]}) == instance


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"attention_ns": [1, 2]}, "attention_ns: must have one entry per layer, 3, not 2"),
        ({"attention_ns": 1.5}, "attention_ns: must be an integer or a list with one per layer"),
        ({"attention_ns": True}, "attention_ns: must be an integer or a list with one per layer"),
        ({"sync_ns": "5"}, "sync_ns: must be an integer or a list with one per layer"),
        ({"sync_ns": [1, 2.0, 3]}, "sync_ns[1]: must be an integer, not 2.0"),
        ({"shared_ns": [1, -2, 3]}, "shared_ns[1]: must be at least 0, not -2"),
        ({"expert_cpu_ns": 2**42 + 1}, "expert_cpu_ns[0]: must be at most 4398046511104"),
        ({"min_immediate": 5}, "min_immediate: must be at most top_k = 4, not 5"),
        ({"penalty": [0, 1]}, "penalty: must have top_k - min_immediate + 1 = 3 entries, not 2"),
        ({"penalty": [0, 2, 1]}, "penalty[2]: must not fall: 1 comes after 2"),
        ({"layers": 0}, "layers: must be at least 1, not 0"),
        ({"top_k": 257}, "top_k: must be at most 256, not 257"),
        ({"budget": 1}, "budget: is not a known key"),
        ({"max_total_penalty": -1}, "max_total_penalty: must be at least 0, not -1"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], says: str, tmp_path: Any) -> None:
    """Field and reason, on one line."""
    save(DATA | change, tmp_path / "d.json")
    assert says in refused(moeopt.load, tmp_path / "d.json")


def test_the_schema_offers_both_forms() -> None:
    """An integer, or a list of integers."""
    schema = Instance.model_json_schema()["properties"]["sync_ns"]
    assert {option["type"] for option in schema["anyOf"]} == {"integer", "array"}


def test_cp_sat_says_when_numbers_are_too_large() -> None:
    """Penalties of 2**41 in 1,000 layers: no packed integer holds them, and dp needs none."""
    large = {"layers": 1000, "expert_cpu_ns": 10**9, "penalty": [0, 2**40, 2**41]}
    instance = Instance(**(DATA | large | {"shared_ns": 1}))
    with pytest.raises(InputError, match="makespan x penalty is above 2\\*\\*60"):
        moeopt.solve(instance, "cp-sat", warm_start=False)
    assert moeopt.solve(instance, "dp").status == "optimal"
