"""The instance file of cache: what is read, and what is refused in one line."""

from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError, save
from tests.refusals import refused
from tests.rooms.cache import MAX_TRACE_NS, Instance
from tests.rooms.cache import instance as module

DATA: dict[str, Any] = {
    "problem": "cache",
    "schema_version": 1,
    "name": "c",
    "layers": 2,
    "experts": 3,
    "slots": 4,
    "gpu_ns": 1,
    "cpu_ns": 10,
    "activation_ns": 2,
    "fetch_ns": 20,
    "other_ns": 3,
    "accesses": [[[0, 2], [1]], [[], [2, 0]]],
}


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_written_and_read_again(tmp_path: Any, suffix: str) -> None:
    """Lookups may differ in length and be empty; as an array they are padded."""
    save(DATA, tmp_path / f"c{suffix}")
    instance = moeopt.load(tmp_path / f"c{suffix}")
    assert isinstance(instance, Instance)
    assert instance.accesses == (((0, 2), (1,)), ((), (2, 0)))
    assert np.array_equal(instance.ids, [[[0, 2], [-1, -1]], [[1, -1], [2, 0]]])
    moeopt.save(instance, tmp_path / "again.json")
    assert moeopt.load(tmp_path / "again.json") == instance


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"accesses": []}, "accesses: "),
        ({"accesses": [[[0]]]}, "accesses[0]: must have one list per layer, 2, not 1"),
        ({"accesses": [[[0], []], [[0], [3]]]}, "accesses[1][1]: must be below experts = 3, not 3"),
        ({"accesses": [[[0], [1, 1]]]}, "accesses[0][1]: must name an expert once"),
        ({"accesses": [[[0], [1.0]]]}, "accesses[0][1][0]: "),
        ({"accesses": [[[0], [-1]]]}, "accesses[0][1][0]: "),
        ({"accesses": [[[0], 1]]}, "accesses[0][1]: "),
        ({"layers": 0}, "layers: "),
        ({"experts": 4097}, "experts: "),
        ({"layers": 1024, "experts": 4096}, "experts: layers x experts must be at most 262144"),
        ({"slots": -1}, "slots: "),
        ({"cpu_ns": 2**42, "accesses": [[[0, 1], [0]]] * 300}, "accesses: every way "),
        ({"fetch_ns": 2**42, "accesses": [[[0, 1], [0]]] * 300}, "accesses: every way "),
        ({"other_ns": 2**42, "accesses": [[[0], []]] * 300}, "accesses: every way "),
        ({"ways": [1, 2]}, "ways: "),
    ],
)
def test_what_is_refused(tmp_path: Any, change: dict[str, Any], line: str) -> None:
    """The line names file, field and reason."""
    save(DATA | change, tmp_path / "c.json")
    assert refused(moeopt.load, tmp_path / "c.json").startswith(f"{tmp_path / 'c.json'}: {line}")


def test_a_wide_lookup_must_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The array is as wide as the widest lookup, for every token and layer."""
    monkeypatch.setattr(module, "MAX_ENTRIES", 7)
    with pytest.raises(InputError, match="tokens x layers x 2 experts is above 7"):
        Instance(**DATA)


def test_the_longest_trace_is_accepted() -> None:
    """One lookup of one expert that takes the most there may be, less a hand-over."""
    data = DATA | {"layers": 1, "experts": 1, "gpu_ns": 0, "other_ns": 0, "fetch_ns": 0}
    data |= {"cpu_ns": 2**42 - 4, "activation_ns": 4, "accesses": [[[0]]] * 256}
    assert MAX_TRACE_NS == 256 * 2**42
    assert int(Instance(**data).curves.layer_ns[0, 0]) == MAX_TRACE_NS
