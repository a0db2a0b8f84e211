"""Times of parts by hand, and what the generator's options change or refuse."""

from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError
from tests.rooms.sim import Counts
from tests.rooms.threads import ASSUMPTIONS, assume, facts, lanes, lpt

ON: dict[str, Any] = {
    "machine": "ktransformers-a100",
    "model": "deepseek-v3",
    "workload": "trimoe-skew",
}


def made(**options: Any) -> Any:
    """Return an instance on the machine of the paper."""
    return moeopt.generate("threads", **(ON | options))


def counted(tokens: list[int], **options: Any) -> Any:
    """Return the instance of the first layer, whose first experts have so many tokens each."""
    table = np.zeros((1, 58, 256), dtype=np.int64)
    table[:, :, : len(tokens)] = tokens
    table[:, :, -8:] = max(tokens)  # each token has eight experts
    return moeopt.generate(
        "threads",
        machine="ktransformers-a100",
        model="deepseek-v3",
        counts=Counts(name="by hand", counts=table),
        **options,
    )


def test_a_part_by_hand() -> None:
    """Gate and up on one of two nodes: 2 x 7168 x 1024 weights of two bytes.

    20 tokens: 29.4 MB take 6239 us of a 36th of 220 GB/s, of which kernels reach 0.77; 32 rows take
    1588 us of a 36th of 21.3 TFLOPS.
    3000 tokens are 188 tiles of 16 rows.
    """
    weights = 2 * 7168 * 1024
    instance = counted([20, 3000])
    few, many = instance.experts[:2]
    assert (instance.threads, few.expert) == (36, 0)
    assert few.part_ns[0] == np.ceil(2 * weights * 36 / (220 * 0.77))
    work_ns = 2 * weights * 188 * 16 * 36 / 21_300
    assert many.part_ns[0] == np.ceil(work_ns)
    assert many.part_ns[2] == np.ceil(work_ns / 4)
    assert few.load_ns == np.ceil(20 * 7168 * 2 / 20)


def test_down_has_half_the_weights_and_a_narrower_input() -> None:
    up, down = counted([3000]), counted([3000], matrices="down")
    assert abs(up.experts[0].part_ns[0] - 2 * down.experts[0].part_ns[0]) <= 2
    assert up.experts[0].load_ns == 3000 * 7168 // 10
    assert down.experts[0].load_ns == 3000 * 1024 // 10


def test_parts_are_no_narrower_than_a_tile() -> None:
    """1024 columns are 64 tiles: a grain of 128 does not exist."""
    found = counted([5], grains="64,128").experts[0].part_ns
    assert found[0] is not None
    assert found[1] is None


def test_the_small_kernel_has_no_tiles() -> None:
    """Up to 4 tokens AVX-512 computes the rows there are."""
    alone = {"tile_rows": 4096, "grains": "1"}
    few, more = (counted([n], **alone).experts[0].part_ns[0] for n in (4, 5))
    assert few < more


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"machine": "trimoe"}, "threads: is missing: machine trimoe does not state the cores"),
        ({"threads": 37}, "threads: must be at most the 36 cores of a node"),
        ({"grains": "2,1"}, "grains: must be rising integers from 1 to 4096"),
        ({"grains": "128"}, "grains: must have one up to 64"),
        ({"grains": "x"}, "grains: must be rising integers"),
        ({"layer": 999}, "layer: must be below"),
        ({"machine": "cxl-ndp"}, "has no CPU"),
    ],
)
def test_what_cannot_be_made_is_one_line(change: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        made(**change)


def test_the_assumption_is_made_again() -> None:
    """Under 60 GB/s loads are a third, and all else is the same."""
    [assumption] = ASSUMPTIONS
    instance = made(batch=32)
    fast = assume(instance, assumption.name, "60")
    assert fast is not None
    assert fast == made(batch=32, input_gb_s=60.0, name=instance.name)
    assert assume(instance, assumption.name, "20") == instance
    assert assume(instance.model_copy(update={"provenance": None}), assumption.name, "60") is None
    assert assume(instance.model_copy(update={"pull_ns": 7}), "pull_ns", "60") is None


def test_a_schedule_is_drawn() -> None:
    """Lanes end where the checker says, with a load before each expert's parts."""
    instance = made(batch=16, threads=4)
    solution = lpt(instance)
    found = lanes(instance, solution)
    assert max(lane.end_ns for lane in found) == moeopt.check(instance, solution).objective
    assert [bar.kind for bar in found[0].bars[:2]] == ["read", "work"]
    assert facts(instance, solution)["loads"] == sum(len(set(row)) for row in solution.thread)
