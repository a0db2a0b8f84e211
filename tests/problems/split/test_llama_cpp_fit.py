"""llama.cpp's `--fit`: tensor by tensor what its own source answers, and by hand.

`llama_cpp_fit.json` has what `common_fit_params` of llama.cpp's `common/fit.cpp` (of the sources in
llama-cpp-python 0.3.36) answered, compiled beside a stand-in for the loader in which a device's
memory is the sum of the bytes that lie there and its buffer: random models of 2 to 9 layers, each
with bytes of attention, gate, up and down (0 in layers without experts), on 1 to 4 GPUs. The host
is the device behind the GPUs. Of 20,000 such models, the rule finds the same wherever the source's
answer fits, but for those in which its counter of layers runs below zero.
"""

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests.rooms.split import HEURISTICS, Instance, Solution, check

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("llama_cpp_fit.json").read_text())


def model(
    sizes: list[list[int]], capacity: list[int], buffer: list[int], parts: int = 3
) -> Instance:
    """Return layers of some bytes of attention and of each tensor, on GPUs and a host."""
    every = [1] * (len(capacity) + 1)
    layers = []
    for at, *tensors in sizes:
        first = {"attention_ns": every, "attention_bytes": at}
        more = {"attention_ns": None, "attention_bytes": 0}
        held = [sum(tensors)] if parts == 1 else tensors
        for row, size in enumerate(held if any(held) else [None]):
            layer: dict[str, Any] = more if row else first
            if size is not None:
                layer = layer | {"experts_ns": every, "experts_bytes": size}
            layers.append(layer)
    gpus = [
        {"name": f"gpu{row}", "capacity": has, "buffer": taken}
        for row, (has, taken) in enumerate(zip(capacity, buffer, strict=True))
    ]
    host = len(gpus)
    return Instance(
        name="fit", source=host, order=[host, *range(host)], layers=layers,
        devices=[*gpus, {"name": "host", "capacity": 2**40}],
        hop_ns=[[0] * len(every)] * len(every),
    )  # fmt: skip


def fit(instance: Instance, **assumed: str) -> Solution:
    """Return what the rule finds."""
    found = HEURISTICS["llama.cpp-fit"](instance, **assumed)
    assert found is not None
    assert not check.violations(instance, found)
    return found


@pytest.mark.parametrize("case", CASES)
def test_it_answers_as_the_source_does(case: dict[str, Any]) -> None:
    """The device of each layer's attention and of gate, up and down."""
    found = fit(model(case["bytes"], case["capacity"], case["buffer"]))
    assert [at for at in found.attention if at >= 0] == case["attention"]
    assert [home for home in found.experts if home >= 0] == [*chain(*case["experts"])]


def test_the_cases_have_what_a_layer_can_be_cut_into() -> None:
    """Up alone, gate and up, or nothing stays; the rest goes to the next GPU or to the host."""
    seen = set()
    for case in CASES:
        host = len(case["capacity"])
        for at, own in zip(case["attention"], case["experts"], strict=True):
            if own and set(own) != {at}:
                stays = "".join(str(int(home == at)) for home in own)
                away = {"host" if home == host else "next" for home in own if home != at}
                seen.add((stays, *away))
    assert seen >= {("000", "next"), ("000", "host"), ("010", "next"), ("010", "host")}
    assert seen >= {("110", "next"), ("110", "host")}


def test_one_gpu_by_hand() -> None:
    """Of four layers of 1 + 3 + 3 + 3 bytes, 23 hold all attention, two layers, gate of none, up.

    4 + 9 + 9 = 22 leave one byte; 25 leave three behind one more tensor, which must leave a byte.
    """
    layers = [[1, 3, 3, 3]] * 4
    for room, homes in (
        (23, "000 000 111 111"),
        (25, "000 000 111 111"),
        (26, "000 000 101 111"),
        (29, "000 000 001 111"),
        (31, "000 000 000 111"),
        (40, "000 000 000 000"),
    ):
        found = fit(model(layers, [room + 2], [2]))
        assert found.attention == (0, -1, -1) * 4
        assert found.experts == tuple(map(int, homes.replace(" ", ""))), room


def test_experts_given_whole_move_whole() -> None:
    """Nothing of a layer given as one part stays where it does not fit."""
    for room, homes in ((29, (0, 0, 1, 1)), (31, (0, 0, 0, 1))):
        assert fit(model([[1, 3, 3, 3]] * 4, [room + 2], [2], parts=1)).experts == homes
