"""Predictions: parts, intervals, what theory says of them, and the engine beside them."""

import dataclasses

import numpy as np
import pytest

import moeopt
from moeopt.core.errors import InputError
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.applied import (
    AS_FILE,
    FINEST_NS,
    as_run,
    default_runtime,
    priced,
    quantum_ns,
)
from moeopt.sim.machines.runtimes.calibrated import CalibratedRuntime
from moeopt.sim.machines.runtimes.predict import PARTS, fewest_cpu_blocks
from moeopt.sim.machines.runtimes.profile import get_runtime, runtimes
from moeopt.sim.machines.runtimes.setting import GIB, Setting
from moeopt.sim.machines.runtimes.terms import PRIOR, TERMS
from moeopt.sim.models.quantisations import at_bits
from moeopt.sim.plan.model_times import times_of_model
from moeopt.sim.plan.schema import Plan
from moeopt.sim.presets import get_machine, get_model


@pytest.fixture
def machine() -> Machine:
    """Return an RTX 4090 beside an EPYC."""
    return get_machine("rtx4090+epyc-9004")


def test_the_parts_are_the_time(machine: Machine) -> None:
    """They sum up to a token's time, the bottleneck is the longest, every term has its part."""
    found = moeopt.predict(machine, "qwen3-30b-a3b", bits=4.5, n_cpu_moe=30, context=1000)
    assert 1e3 / sum(found.parts_ms.values()) == pytest.approx(found.tokens_per_s, rel=1e-3)
    assert found.parts_ms[found.bottleneck] == max(found.parts_ms.values())
    assert sorted(term for terms in PARTS.values() for term in terms) == sorted(TERMS)
    assert set(PRIOR) == set(TERMS)
    factor = get_runtime("llama.cpp").interval("not calibrated").factor
    assert found.high / found.tokens_per_s == pytest.approx(factor, rel=1e-3)
    assert found.tokens_per_s / found.low == pytest.approx(factor, rel=1e-3)


@pytest.mark.parametrize("runtime", runtimes())
def test_more_never_makes_it_slower(machine: Machine, runtime: str) -> None:
    """Fewer experts on the CPU, fewer bits, less context, faster memories: each is no slower."""

    def speed(at: Machine = machine, bits: float = 4.5, cpu: int = 20, context: int = 512) -> float:
        found = moeopt.predict(
            at, "qwen3-30b-a3b", bits=bits, n_cpu_moe=cpu, context=context, runtime=runtime
        )
        return found.tokens_per_s

    base = speed()
    assert speed(cpu=19) > base
    assert speed(bits=4) > base
    assert speed(context=100) > base
    for field in ("cpu.bandwidth_gb_s", "gpu.hbm_gb_s"):
        assert speed(at=moeopt.set_machine(machine, {field: 2000})) > base


@pytest.mark.parametrize("name", ["glm-4.5-air", "mixtral-8x7b", "deepseek-v2-lite"])
@pytest.mark.parametrize("blocks", [0, 10])
def test_the_engine_takes_as_long(machine: Machine, name: str, blocks: int) -> None:
    """The same layers on the CPU, executed; the engine overlaps shared experts with the CPU's."""
    model = at_bits(get_model(name), "Q4_K_M")
    run = as_run(machine, model, get_runtime("llama.cpp"))
    experts, layers = model.routed_experts, model.moe_layers
    plan = Plan(
        name="layers",
        resident=tuple(() if layer < blocks else tuple(range(experts)) for layer in layers),
        times=times_of_model(run, model, 1, 1000, FINEST_NS),
    )
    loads = np.zeros((1, len(layers), experts), dtype=int)
    loads[:, :, : model.top_k] = 1
    executed = moeopt.simulate(plan, run, model, loads, quantum_ns=FINEST_NS)
    predicted = moeopt.predict(machine, model, n_cpu_moe=blocks, context=1000)
    assert 1e9 / executed.step_ns[0] == pytest.approx(predicted.tokens_per_s, rel=0.03)


def test_plans_use_the_calibrated_runtime_first(machine: Machine) -> None:
    """Then what the machine's file says of overheads, then llama.cpp."""
    assert default_runtime(machine) == "llama.cpp"
    assert default_runtime(get_machine("rtx4090-7960x")) is None


def test_the_fewest_blocks_fit(machine: Machine) -> None:
    """One less would not, with 1 GiB left free."""
    model = at_bits(get_model("glm-4.5-air"), "Q4_K_M")
    blocks = fewest_cpu_blocks(machine, model, 8192)
    need = [
        Setting.with_cpu_blocks(machine, model, n, 8192).gpu_bytes_needed
        for n in (blocks - 1, blocks)
    ]
    assert need[0] > 23 * GIB >= need[1]
    assert moeopt.predict(machine, model, context=8192).n_cpu_moe == blocks
    assert fewest_cpu_blocks(get_machine("epyc-9004"), model, 0) == 46


def test_what_cannot_be_predicted(machine: Machine) -> None:
    """One line that names the option."""
    asked = {
        "n_cpu_moe, gpu_experts": {"n_cpu_moe": 3, "gpu_experts": 2},
        "runtime: must be one of ik_llama.cpp": {"runtime": "ollama"},
        "n_cpu_moe: must be from 0": {"n_cpu_moe": -1},
        "gpu_experts: must be from 0 to 128": {"gpu_experts": 129},
        "bits: ": {"bits": "Q99"},
        "bits: must be a width": {"bits": "3,4"},
    }
    for words, options in asked.items():
        with pytest.raises(InputError, match=words):
            moeopt.predict(machine, "qwen3-30b-a3b", **options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="gpu: is missing"):
        moeopt.predict("epyc-9004", "qwen3-30b-a3b", gpu_experts=4)


def test_a_prediction_is_json(machine: Machine) -> None:
    """All of its fields, notes as a list."""
    found = moeopt.predict(machine, "qwen3-30b-a3b", bits=16, n_cpu_moe=0)
    data = found.to_dict()
    assert set(data) == {field.name for field in dataclasses.fields(found)}
    assert "GPU memory" in data["notes"][0]


def test_pages_say_what_to_expect(machine: Machine) -> None:
    """Of a runtime's times, of a calibrated machine's, and of a file's own."""
    model = get_model("qwen3-30b-a3b")
    assert priced(machine, model).runtime == "llama.cpp"
    assert "not calibrated: expect -" in priced(machine, model).expect
    own = priced(machine, model, AS_FILE)
    assert (own.machine, own.runtime) == (machine, None)
    assert own.expect.startswith("times as the machine's file says: not calibrated")
    costs = get_runtime("ktransformers").costs
    kept = CalibratedRuntime(runtime="ktransformers", costs=costs, models=(), points=2)
    calibrated = machine.model_copy(update={"runtimes": (kept,)})
    assert priced(calibrated, model).expect.startswith(
        "times of ktransformers, calibrated on another model: expect"
    )
    with pytest.raises(InputError, match="runtime: must be one of"):
        priced(machine, model, "vllm")


def test_the_quantum_tells_experts_apart(machine: Machine) -> None:
    """Coarse for Mixtral's, fine for those of 1.5 us."""
    small = get_model("qwen3-30b-a3b").quantized(4.5, 4.5)
    assert quantum_ns(machine, small) == 500
    assert quantum_ns(machine, get_model("mixtral-8x7b")) == 5000
    assert quantum_ns(get_machine("epyc-9004"), get_model("mixtral-8x7b")) == 5000
