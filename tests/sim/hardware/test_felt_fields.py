"""Every number of a machine is felt: at a witness in its direction, elsewhere never the wrong way.

A field without a witness may not exist: the table is held against the fields that can be set.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

import moeopt
from moeopt import InfeasibleError, get_machine, set_machine
from tests.rooms.planner import predict_wanted
from tests.rooms.sim import (
    Curve,
    Machine,
    PredictOptions,
    full_paths,
    get_model,
    gpu_names,
    host_names,
    machine_rows,
    short_fields,
    step_costs,
    times_of_step,
)

AIR, QWEN, V3, LITE = "glm-4.5-air", "qwen3-30b-a3b", "deepseek-v3", "deepseek-v2-lite"
CHANGES = (0.7, 1.3)

Measure = Callable[[Machine], float]
"""What is looked at; less is better: a time, or blocks that do not fit."""


def token_s(model: str, bits: str | None = "Q4_K_M", **options: object) -> Measure:
    """Return the time of a token as `predict` has it; a day where it does not fit."""

    def of(machine: Machine) -> float:
        try:
            return 1 / moeopt.predict(machine, model, bits=bits, **options).tokens_per_s
        except InfeasibleError:
            return 86400.0

    return of


def split_s(model: str, **options: object) -> Measure:
    """Return the time of a token on several GPUs or nodes, placed by the runtime."""

    def of(machine: Machine) -> float:
        wanted = PredictOptions(bits="Q4_K_M", **options)  # type: ignore[arg-type]
        try:
            return 1 / predict_wanted(machine, model, wanted, None).tokens_per_s
        except InfeasibleError:
            return 86400.0

    return of


def expert_s(path: str, model: str = "deepseek-v2", tokens: int = 1) -> Measure:
    """Return what an expert takes on a path of the papers' cost model."""
    shape = get_model(model)
    return lambda machine: float(step_costs(machine, shape).path_ns(path, tokens, 1))  # type: ignore[arg-type]


def blocks(model: str, **options: object) -> Measure:
    """Return how many blocks the GPU has no room for."""
    return lambda machine: float(
        moeopt.predict(machine, model, bits="Q4_K_M", **options).n_cpu_moe or 0
    )


def sync_s(machine: Machine) -> float:
    """Return what a synchronisation takes."""
    return step_costs(machine, get_model(V3)).layer(quantum_ns=1).sync_ns


def step_ns(machine: Machine) -> float:
    """Return what a step takes once, in ns."""
    return float(times_of_step(step_costs(machine, get_model(V3)), 1, 0, 1).step_ns)


def three_bits_s(machine: Machine) -> float:
    """Return the time of an expert of 3 bits on an NDP unit at many tokens."""
    return float(
        step_costs(machine, get_model("mixtral-8x7b").quantized(3)).computation_s("ndp", 4096)
    )


def move_s(machine: Machine) -> float:
    """Return how long an expert moves between DIMMs."""
    return step_costs(machine, get_model("deepseek-v2")).transfer_s(machine.dimm_link)


def dimm_share(machine: Machine) -> float:
    """Return the share of all experts on the fullest DIMM, spread evenly."""
    return 1 / machine.dimm_count


def unit_share(machine: Machine) -> float:
    """Return the share of an expert that one NDP unit computes."""
    return 1 / machine.ndp_units


@dataclass(frozen=True)
class Witness:
    """Where a field binds: more of it is better, or worse; `given` holds besides."""

    machine: str
    measure: Measure
    better: bool
    given: Mapping[str, object] | None = None


W = Witness
ONE, TWO_NODES = "rtx4090+epyc-9004", "rtx4090+2xepyc-7003"
ON_GPU, ON_CPU = {"n_cpu_moe": 0}, {"n_cpu_moe": 46}

TABLE: dict[str, Witness] = {
    "sync_us": W("ktransformers-a100", sync_s, better=False),
    "gpu.kernels": W("trimoe", expert_s("gpu_hit", tokens=300), better=True),
    "gpu.tflops": W("trimoe", expert_s("gpu_hit", tokens=300), better=True),
    "gpu.peak_tflops": W(
        "rtx4090+epyc-9004", token_s(LITE, "Q4_K_M", n_cpu_moe=0, depth=30000), True
    ),
    "gpu.vector_tflops": W(ONE, token_s(QWEN, n_cpu_moe=0), better=True),
    "gpu.clock_ghz": W(ONE, token_s(QWEN, n_cpu_moe=0), better=True),
    "gpu.gb_s": W(ONE, token_s(QWEN, n_cpu_moe=0), better=True),
    "gpu.reached": W(ONE, token_s(QWEN, n_cpu_moe=0), True, {"gpu.reached": 0.6}),
    "gpu.measured_gb_s": W(ONE, token_s(QWEN, n_cpu_moe=0), True, {"gpu.measured_gb_s": 700}),
    "gpu.attention_reached": W(
        "ktransformers-a100", lambda m: step_costs(m, get_model(V3)).attention_s(), better=True
    ),
    "gpu.capacity_gib": W(ONE, blocks(AIR), better=True),
    "gpu.most_gib": W("m3-max", token_s(AIR), True, {"gpu.most_gib": 60}),
    "gpu.kernel_us": W(ONE, expert_s("gpu_hit"), False, {"gpu.kernel_us": 20}),
    "gpu.layer_us": W(
        "ktransformers-a100", lambda m: step_costs(m, get_model(V3)).attention_s(), better=False
    ),
    "gpu.step_us": W("ktransformers-a100", step_ns, False, {"gpu.step_us": 300}),
    "gpu.reserve_mib": W(ONE, blocks(AIR), False, {"gpu.reserve_mib": {"llama.cpp": 4000}}),
    "cpu.kernels": W(ONE, token_s(AIR, n_cpu_moe=46), better=True),
    "cpu.tflops": W(ONE, token_s(AIR, n_cpu_moe=46), better=True),
    "cpu.cores": W(ONE, token_s(AIR, n_cpu_moe=46), True, {"cpu.cores": 6}),
    "cpu.most_gb_s": W("m1-max", token_s(QWEN, n_cpu_moe=48), better=True),
    "cpu.reached": W("ktransformers-a100", expert_s("cpu_striped"), better=True),
    "cpu.kernel_us": W("ktransformers-a100", expert_s("cpu_striped"), False, {"cpu.kernel_us": 9}),
    "ndp.kernels": W("trimoe", expert_s("ndp", tokens=64), better=True),
    "ndp.tflops": W("trimoe", expert_s("ndp", tokens=64), better=True),
    "ndp.internal_gb_s": W("trimoe", expert_s("ndp"), better=True),
    "ndp.units": W("edge-gpu-ndp-4", unit_share, True, {"ndp.units": 10}),
    "ndp.rate_bits": W("cxl-ndp", three_bits_s, better=True),
    "dram.capacity_gib": W(ONE, token_s(V3), True, {"dram.capacity_gib": 400}),
    "dram.gb_s": W(ONE, token_s(AIR, n_cpu_moe=46), better=True),
    "dram.reached": W(ONE, token_s(AIR, n_cpu_moe=46), True, {"dram.reached": 0.7}),
    "dram.measured_gb_s": W(ONE, token_s(AIR, n_cpu_moe=46), True, {"dram.measured_gb_s": 300}),
    "dram.count": W("trimoe", dimm_share, better=True),
    "dram.channels": W(ONE, token_s(AIR, n_cpu_moe=46), better=True),
    "dram.speed_mt_s": W(ONE, token_s(AIR, n_cpu_moe=46), better=True),
    "dram.one_gb_s": W("trimoe", expert_s("cpu_localized"), better=True),
    "dram.link.gb_s": W("trimoe", move_s, better=True),
    "dram.link.latency_us": W("trimoe", move_s, False, {"dram.link.latency_us": 500}),
    "pcie.gb_s": W(ONE, expert_s("gpu_miss_striped"), better=True),
    "pcie.latency_us": W(ONE, expert_s("gpu_miss_striped"), False, {"pcie.latency_us": 500}),
    "socket.gb_s": W(TWO_NODES, split_s(AIR, n_cpu_moe=46), better=True),
    "socket.latency_us": W(
        TWO_NODES,
        lambda m: m.between("numa0", "numa1").transfer_s(1e3),
        False,
        {"socket.latency_us": 500},
    ),
}
"""Field -> where it binds. Names and lists of names (`name`, `link`) are no numbers."""

NO_NUMBER = ("name", "link")


def test_the_table_has_every_field() -> None:
    """One witness for each number that can be set, and none for others."""
    known = {
        f"{short}.{name}"
        for short in ("gpu", "cpu", "ndp", "dram", "pcie", "socket")
        for name in short_fields(short)
        if name not in NO_NUMBER
    }
    assert known | {"sync_us"} == set(TABLE)


def scaled(machine: Machine, field: str, share: float) -> dict[str, object]:
    """Return the change of a field to so many times what every device has; empty if none has."""
    short, _, name = field.partition(".")
    found: dict[str, object] = {}
    rows = {row.field: row.value for row in machine_rows(machine)}
    name = "kernels" if name == "tflops" else name
    for path in full_paths(machine, f"{short}.{name}" if name else field):
        value = rows.get(path)
        if isinstance(value, list):
            curves = [Curve(**kernel["tflops"]).scaled(share) for kernel in value]
            value = [
                {**kernel, "tflops": curve.model_dump(mode="json")}
                for kernel, curve in zip(value, curves, strict=True)
            ]
        elif isinstance(value, dict):
            value = {key: number * share for key, number in value.items()}
        elif isinstance(value, int):
            value = max(1, round(value * share))
        elif isinstance(value, float):
            value = value * share
            value = min(value, 1.0) if "reached" in path else value
        if value is not None:
            found[path] = value
    return found


def at(machine: str, given: Mapping[str, object] | None = None) -> Machine:
    """Return a machine with fields that are given besides."""
    found = get_machine(machine)
    return found if given is None else set_machine(found, given)


@pytest.mark.parametrize("field", TABLE)
def test_a_field_binds_at_its_witness(field: str) -> None:
    """30 % more of it moves the number one way, 30 % less the other."""
    one = TABLE[field]
    machine = at(one.machine, one.given)
    less, more = (
        one.measure(set_machine(machine, scaled(machine, field, share))) for share in CHANGES
    )
    same = one.measure(machine)
    if not one.better:
        less, more = more, less
    assert less > more
    assert less >= same >= more


ELSEWHERE = {
    ONE: token_s(AIR),
    "rtx3060-12gb+ryzen-am5": token_s(QWEN),
    "ryzen-am5": token_s(QWEN),
    "m3-max": token_s(QWEN),
    "dgx-spark": token_s("gpt-oss-120b", "MXFP4", n_cpu_moe=10),
    "2xrtx3090+epyc-7002": split_s(AIR, n_cpu_moe=20),
    TWO_NODES: split_s(AIR, n_cpu_moe=30),
    "trimoe": expert_s("cpu_localized", tokens=40),
    "cxl-ndp": expert_s("ndp", "mixtral-8x7b"),
}
"""Machine -> what is looked at there."""


SEVERAL = ("2xrtx3090+epyc-7002", TWO_NODES)
DEAR = (*SEVERAL, "rtx3060-12gb+ryzen-am5", "ryzen-am5")
"""Machines of which a prediction takes a quarter of a second."""


@pytest.mark.parametrize(
    "machine",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in DEAR)) for name in ELSEWHERE],
)
def test_no_field_works_the_wrong_way(machine: str) -> None:
    """Every field that a machine has, each way: nothing better is slower by a thousandth."""
    owned, measure = get_machine(machine), ELSEWHERE[machine]
    for field, one in TABLE.items():
        if not scaled(owned, field, 1.0) or field == "gpu.capacity_gib":
            continue
        changed = [set_machine(owned, scaled(owned, field, share)) for share in CHANGES]
        less, more = (measure(other) for other in (changed if one.better else changed[::-1]))
        assert less * 1.001 >= measure(owned) >= more * 0.999, field


GOOD = [name for name, one in TABLE.items() if one.better and "reached" not in name]


def a_pair(rng: random.Random) -> tuple[Machine, Machine, str] | None:
    """Return a machine, one with more of a field, and what differs; None where it has none."""
    count, sockets = rng.choice([0, 1, 1, 2, 3]), rng.choice([1, 1, 2])
    host = f"{sockets}x{rng.choice(host_names())}" if sockets > 1 else rng.choice(host_names())
    name = "+".join([*(rng.choice(gpu_names()) for _ in range(count)), host])
    field, share = rng.choice(GOOD), rng.choice([1.3, 2.0, 4.0])
    machine = get_machine(name)
    changes = scaled(machine, field, share)
    if not changes:
        return None
    return machine, set_machine(machine, changes), f"{name}: {field} x {share}"


@pytest.mark.parametrize(
    ("seed", "pairs"),
    [(0, 6), *(pytest.param(seed, 25, marks=pytest.mark.slow) for seed in range(12))],
)
def test_a_better_machine_is_no_slower(seed: int, pairs: int) -> None:
    """25 pairs of every seed, 300 in all: by 0.1 % at most, and what fitted still fits.

    More memory of a GPU is looked at with the experts where they were: where a runtime fills it by
    itself, a slow card beside a fast host may well compute too many.
    """
    rng, seen = random.Random(seed), 0
    while seen < pairs:
        model, bits = rng.choice([(AIR, "Q4_K_M"), (QWEN, "Q8_0"), ("gpt-oss-120b", "MXFP4")])
        pair = a_pair(rng)
        if pair is None:
            continue
        worse, better, what = pair
        wanted = PredictOptions(bits=bits, context=8192)
        if "capacity" in what:
            wanted = PredictOptions(bits=bits, context=8192, n_cpu_moe=get_model(model).layers)
        times = []
        for machine in (worse, better):
            try:
                if len(machine.gpus) > 1 or len(machine.nodes) > 1:
                    found = predict_wanted(machine, model, wanted, None).tokens_per_s
                else:
                    found = moeopt.predict(machine, model, options=wanted).tokens_per_s
            except InfeasibleError:
                found = 1e-9
            times.append(1 / found)
        seen += 1
        assert times[1] <= times[0] * 1.001, (what, model)
