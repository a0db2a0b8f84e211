"""Instances checked by columns: the same objects, files and refusals as one expert at a time."""

import copy
import json
import pickle
import random
from typing import Any

import pytest

import moeopt
from moeopt.core.errors import InputError
from moeopt.problems.tri_domain import instance as module
from moeopt.problems.tri_domain.columns import Rows, columns_of
from moeopt.problems.tri_domain.instance import Instance
from tests.problems.tri_domain.random_instances import random_instance, random_schema_2

VALUES: list[Any] = [-1, 0, 1, 5, 2**42, 2**42 + 1, 2**70, None, True, False, 1.0, "1", [], {}]


def one_by_one(data: dict[str, Any]) -> Instance:
    """Return the instance of some data, checked without columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "rows_in", lambda *_: None)
        return Instance.model_validate(data)


@pytest.mark.parametrize("seed", range(12))
def test_the_same_instance_either_way(seed: int) -> None:
    """Objects, arrays, name and JSON text are the same, and copies of it are complete."""
    base = random_schema_2(seed, "two parts") if seed % 3 == 0 else random_instance(seed)
    data = base.model_dump(mode="json", exclude={"name"})
    given = json.dumps(data)
    found, due = Instance.model_validate(json.loads(given)), one_by_one(data)
    rows: Any = found.experts
    assert isinstance(rows, Rows)
    assert not isinstance(due.experts, Rows)
    assert found.name == due.name
    assert found.model_dump_json() == due.model_dump_json()
    assert (found, hash(rows), repr(rows)) == (due, hash(due.experts), repr(due.experts))
    pairs = [(e, e) for e in due.experts]
    for name, column in vars(columns_of(pairs)).items():
        assert getattr(found.columns, name).tolist() == column.tolist()
        assert getattr(found.columns, name).dtype == column.dtype
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found), found.model_copy()):
        assert other == found
    assert rows[0] == due.experts[0]
    assert rows[1:] == due.experts[1:]


def test_the_same_refusals_either_way() -> None:
    """Whatever single value is changed, both ways take it or say the same of it."""
    rng = random.Random(1)
    refused = 0
    for seed in range(150):
        base = random_schema_2(seed, "two parts") if seed % 2 else random_instance(seed)
        data = base.model_dump(mode="json")
        row = rng.choice(data["experts"])
        change = rng.randrange(10)
        if change == 0:
            del row[rng.choice(list(row))]
        elif change == 1:
            row["extra"] = 1
        elif change == 2:
            data["experts"].append(row)
        elif change == 3:
            data["dimms"] = rng.choice([1, 0, "2"])
        else:
            row[rng.choice(list(row))] = rng.choice(VALUES)
        said = []
        for make in (Instance.model_validate, one_by_one):
            try:
                said.append(make(copy.deepcopy(data)).model_dump_json())
            except InputError as error:
                said.append(str(error))
                refused += 1
        assert said[0] == said[1]
    assert 100 < refused < 280


def test_a_file_of_many_objects(tmp_path: Any) -> None:
    """Colons in strings, keys that stand twice and endless numbers are seen there as well."""
    instance = moeopt.generate(
        "tri_domain",
        machine="trimoe",
        model="deepseek-v2-lite",
        workload="trimoe-skew",
        name="a: b",
    )
    path = tmp_path / "many.json"
    moeopt.save(instance, path)
    assert moeopt.load(path) == instance
    text = path.read_text()
    path.write_text(text.replace('"tokens": ', '"tokens": 1, "tokens": ', 1))
    with pytest.raises(InputError, match='key "tokens" stands twice in one object'):
        moeopt.load(path)
    path.write_text(text.replace('"tokens": ', f'"tokens": {"9" * 1200}', 1))
    with pytest.raises(InputError, match=r"experts\[0\].tokens: must be a number of usable size"):
        moeopt.load(path)
