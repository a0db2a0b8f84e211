"""Files of many objects, and the arrays that are made of them."""

from typing import Any

import pytest

import moeopt
from moeopt import InputError


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


def test_arrays_are_made_with_the_instance() -> None:
    """No solve waits for them; a copy of other data forgets them, a renamed one keeps them."""
    made = moeopt.generate(
        "tri_domain", machine="trimoe", model="deepseek-v2-lite", workload="trimoe-skew"
    )
    for instance in (made, type(made).model_validate(made.model_dump())):
        assert {"columns", "device_table", "has_copies"} < set(vars(instance))
        assert instance.columns.cpu_ns.tolist() == [expert.cpu_ns for expert in instance.experts]
        assert instance.model_copy(update={"name": "other"}).columns is instance.columns
        fewer = instance.model_copy(update={"experts": instance.experts[:1]})
        assert fewer.columns.cpu_ns.tolist() == [instance.experts[0].cpu_ns]
        assert fewer.device_table.shape == (7, 1)
