"""Counts for KTransformers: its own rule chooses the plan's experts, whatever it does at ties."""

import pickletools
import shlex
import zipfile
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pytest

import moeopt
from moeopt import InputError
from tests.exporters.ktransformers_rules import gpu_masks
from tests.exporters.placements import (
    EXPERTS,
    LAYERS,
    instance,
    plan,
    random_plan,
    sets,
    shape,
)
from tests.problems.deferral.random_schedules import random_instance as random_deferral
from tests.rooms.core import entries
from tests.rooms.deferral import Instance, Solution, uniform
from tests.rooms.exporters import Loss, torch_file
from tests.rooms.sim import ratio_of, read_torch

PLAIN = {
    "PROTO", "EMPTY_DICT", "MARK", "BINUNICODE", "GLOBAL", "BININT", "TUPLE", "BINPERSID",
    "NEWFALSE", "EMPTY_TUPLE", "REDUCE", "SETITEMS", "STOP",
}  # fmt: skip
CALLED = {
    "torch._utils _rebuild_tensor_v2",
    "torch IntStorage",
    "collections OrderedDict",
}


@pytest.mark.parametrize("dense", [(), (0,), (0, 1), (1, 3)])
@pytest.mark.parametrize("seed", range(6))
def test_the_runtime_chooses_the_plan(dense: tuple[int, ...], seed: int, tmp_path: Path) -> None:
    """Its rule, applied to file and flags, gives exactly the plan, with dense layers between."""
    given = instance(seed, slots=3 * seed + 2)
    solution = random_plan(given, seed)
    exported = moeopt.export(solution, given, to="ktransformers", model=shape(dense))
    path, _ = exported.save(tmp_path / "plan.pt")
    assert exported.flags is not None
    words = shlex.split(exported.flags(path))
    assert words[:4] == [
        "--kt-expert-placement-strategy", "frequency", "--init-expert-location", str(path),
    ]  # fmt: skip
    assert words[4] == "--kt-gpu-experts-ratio"
    ratio = float(words[5])
    masks = gpu_masks(path, ratio, LAYERS + len(dense), EXPERTS, dense, seed)
    moe_layers = [layer for layer in range(LAYERS + len(dense)) if layer not in dense]
    chosen = [tuple(np.flatnonzero(masks[layer]).tolist()) for layer in moe_layers]
    assert chosen == sets(solution.gpu)
    assert all(all(masks[layer]) for layer in dense)


def test_everything_and_nothing(tmp_path: Path) -> None:
    """Ratios 1 and 0."""
    given = instance(0, slots=LAYERS * EXPERTS)
    for row, ratio in ((range(EXPERTS), 1.0), ((), 0.0)):
        solution = plan(given, [row] * LAYERS)
        exported = moeopt.export(solution, given, to="ktransformers", model=shape())
        path, _ = exported.save(tmp_path / "plan.pt")
        assert exported.notes["kt_gpu_experts_ratio"] == ratio
        masks = gpu_masks(path, ratio, LAYERS + 1, EXPERTS, (0,), 0)
        assert masks[1:] == [[bool(row)] * EXPERTS] * LAYERS


def test_layers_that_the_runtime_cannot_find_are_said() -> None:
    """It knows leading layers without experts, and every n-th with, from a multiple of n on."""
    given = instance(0)
    every_second = {(0, 1, 3, 5, 7, 9): 0, (0, 2, 4, 6, 8): 1}
    for dense, warned in {
        **{(): 0, (0,): 0, (0, 1): 0, (0, 2, 4): 1, (1, 3): 1, (4,): 1},
        **every_second,
    }.items():
        found = moeopt.export(random_plan(given, 0), given, to="ktransformers", model=shape(dense))
        assert len(found.warnings) == warned, dense


@pytest.mark.parametrize("total", [1, 7, 29, 49, 98, 103, 1664, 14848, 99991])
def test_the_ratio_gives_the_number(total: int) -> None:
    """In floats as the runtime computes it: a quotient alone falls short now and then."""
    short = 0
    for chosen in range(0, total + 1, max(1, total // 2000)):
        ratio = ratio_of(chosen, total)
        assert 0.0 <= ratio <= 1.0
        assert int(total * ratio) == int(total * float(repr(ratio))) == chosen
        short += int(total * (chosen / total)) < chosen
    assert short > 0 or total < 49


def test_it_is_told_what_predict_prints() -> None:
    """Context, ubatch, threads and sockets, by the function that `predict` asks."""
    given = instance(0)
    options = {"context": 9000, "ubatch": 64, "threads": 12, "sockets": 1}
    made = moeopt.export(
        random_plan(given, 0), given, to="ktransformers", model=shape(), options=options
    )
    assert made.flags is not None
    said = "--context-length 9000 --chunked-prefill-size 64 --kt-cpuinfer 12"
    assert made.flags(Path("x.pt")).endswith(f" {said} --kt-threadpool-count 1")


def test_a_deferral_plan_goes_along_with_this_target_only() -> None:
    """As a solution of that problem."""
    given = instance(0)
    solution = random_plan(given, 0)
    deferral = random_deferral(0, layers=3)
    pair = (uniform(deferral, 0), deferral)
    assert exported_with(*pair) == (0, None)
    with pytest.raises(InputError, match="--deferral: sglang has no such option; it has: "):
        moeopt.export(solution, given, to="sglang", model=shape(), options={"deferral": pair})
    with pytest.raises(InputError, match="must be a solution of deferral, not of placement"):
        moeopt.export(
            solution,
            given,
            to="ktransformers",
            model=shape(),
            options={"deferral": (solution, given)},
        )


def exported_with(schedule: Solution, deferral: Instance) -> tuple[int, Loss | None]:
    """Return the count in the flag that a deferral plan adds, and what it costs."""
    given = instance(0)
    made = moeopt.export(
        random_plan(given, 0),
        given,
        to="ktransformers",
        model=shape(),
        options={"deferral": (schedule, deferral)},
    )
    assert made.flags is not None
    flag, count = made.flags(Path("x.pt")).split()[-2:]
    assert flag == "--kt-max-deferred-experts-per-token"
    return int(count), made.loss


@pytest.mark.parametrize("kind", ["mixed layers", "nothing must be immediate", "zero times"])
def test_the_deferral_flag_is_the_best_uniform_count(kind: str) -> None:
    """A plan with another count somewhere loses to it what the checker says, never less.

    Some of these instances tell the best count from the one that saturates.
    """
    losses = []
    for seed in range(19):
        deferral = random_deferral(seed, kind, layers=4)
        schedule = moeopt.solve(deferral, "dp").solution
        assert isinstance(schedule, Solution)
        count, loss = exported_with(schedule, deferral)
        assert 0 <= count <= deferral.top_k
        if loss is None:
            assert set(schedule.deferred[:-1]) == {count}
            continue
        tried = [uniform(deferral, d) for d in range(deferral.max_deferred + 1)]
        verdicts = [moeopt.check(deferral, plan).objective for plan in tried]
        best = min(entries(found) for found in verdicts if found is not None)
        assert loss.exported == best == verdicts[count]
        assert entries(loss.exported) >= entries(loss.given)
        losses.append(loss)
    assert {loss.problem for loss in losses} == {"deferral"}


def test_a_uniform_deferral_plan_is_taken_as_it_is() -> None:
    """Whatever its count; in the last layer nothing is deferred, and a single layer has count 0."""
    deferral = random_deferral(0, layers=3)
    deferral = Instance(**deferral.model_dump() | {"max_total_penalty": None})
    for count in range(deferral.max_deferred + 1):
        assert exported_with(uniform(deferral, count), deferral) == (count, None)
    single = random_deferral(0, layers=1)
    assert exported_with(uniform(single, 0), single) == (0, None)


def test_a_loss_on_nothing_has_no_share() -> None:
    """An objective of 0 that becomes positive; one that stays is a loss of 0 %."""
    made_positive = Loss("cache", "f", 0, 3, True)
    assert str(made_positive) == "f: the best such plan makes an objective of 0 positive"
    assert made_positive.percent is None
    assert str(Loss("cache", "f", 0, 0, False)).endswith("found changes the objective by +0.000 %")


def test_the_pickle_is_harmless() -> None:
    """A dict of tensors by known instructions, which torch loads with weights_only=True."""
    payload = torch_file({"a": np.arange(6, dtype=np.int32).reshape(1, 2, 3)})
    with zipfile.ZipFile(BytesIO(payload)) as archive:
        names = archive.namelist()
        assert names == [
            "archive/data.pkl", "archive/byteorder", "archive/data/0", "archive/version",
        ]  # fmt: skip
        assert {member.compress_type for member in archive.infolist()} == {zipfile.ZIP_STORED}
        steps = list(pickletools.genops(archive.read("archive/data.pkl")))
        pickletools.dis(archive.read("archive/data.pkl"), out=StringIO())  # raises if damaged
    assert {opcode.name for opcode, _, _ in steps} <= PLAIN
    assert {argument for opcode, argument, _ in steps if opcode.name == "GLOBAL"} == CALLED


@pytest.mark.parametrize("size", [(1, 2, 3), (4,), (2, 0), (1, 61, 256), ()])
def test_tensors_come_back(size: tuple[int, ...], tmp_path: Path) -> None:
    """By the project's reader of such files; several tensors, any shape, the same bytes again."""
    rng = np.random.default_rng(0)
    tensors = {
        "logical_count": rng.integers(-5, 9, size).astype(np.int32),
        "ä": np.array([[1, 2], [3, 4]], dtype=np.int32).T,
    }
    path = tmp_path / "t.pt"
    path.write_bytes(torch_file(tensors))
    found = read_torch(path)
    assert list(found) == list(tensors)
    for name, array in tensors.items():
        assert found[name].dtype == np.int32
        assert found[name].shape == array.shape
        assert found[name].tolist() == array.tolist()
    assert torch_file(tensors) == path.read_bytes()
