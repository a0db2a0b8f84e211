"""Predictions: parts, intervals, what theory says of them, and the engine beside them."""

import dataclasses
import shlex

import numpy as np
import pytest

import moeopt
from moeopt import InputError, Plan, get_machine
from tests.rooms.sim import (
    AS_FILE,
    FINEST_NS,
    PARTS,
    PRIOR,
    TERMS,
    CalibratedRuntime,
    Context,
    Machine,
    Placement,
    PredictOptions,
    Setting,
    at_bits,
    default_runtime,
    fewest_cpu_blocks,
    get_model,
    get_runtime,
    priced,
    quantum_ns,
    runtimes,
    step_costs,
    times_of_step,
    uses,
    within,
)


@pytest.fixture
def machine() -> Machine:
    """Return an RTX 4090 beside an EPYC."""
    return get_machine("rtx4090+epyc-9004")


def test_the_parts_are_the_time(machine: Machine) -> None:
    """They sum up to a token's time, the bottleneck is the longest, every term has its part."""
    found = moeopt.predict(machine, "qwen3-30b-a3b", bits=4.5, n_cpu_moe=30, depth=1000)
    assert 1e3 / sum(found.parts_ms.values()) == pytest.approx(found.tokens_per_s, rel=1e-3)
    assert found.parts_ms[found.bottleneck] == max(found.parts_ms.values())
    plain = [term for term in TERMS if "of" not in PRIOR[term]]
    assert sorted(term for terms in PARTS.values() for term in terms) == sorted(plain)
    assert set(PRIOR) == set(TERMS)
    calls = found.placement.host_calls(found.setting)
    factor = within(found.setting, calls).factor
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
    for field in ("dram.measured_gb_s", "dram.gb_s", "gpu.gb_s"):
        assert speed(at=moeopt.set_machine(machine, {field: 2000})) > base


@pytest.mark.parametrize("name", ["glm-4.5-air", "mixtral-8x7b", "deepseek-v2-lite"])
@pytest.mark.parametrize("blocks", [0, 10])
def test_the_engine_takes_as_long(machine: Machine, name: str, blocks: int) -> None:
    """The same layers on the CPU, executed; the engine overlaps shared experts with the CPU's."""
    model = at_bits(get_model(name), "Q4_K_M")
    machine = moeopt.set_machine(machine, {"gpu.capacity_gib": 200})
    costs = priced(machine, model, "llama.cpp").costs(model)
    experts, layers = model.routed_experts, model.moe_layers
    plan = Plan(
        name="layers",
        resident=tuple(() if layer < blocks else tuple(range(experts)) for layer in layers),
        times=times_of_step(costs, 1, 1000, FINEST_NS),
    )
    loads = np.zeros((1, len(layers), experts), dtype=int)
    loads[:, :, : model.top_k] = 1
    executed = moeopt.simulate(
        plan, machine, model, loads, runtime="llama.cpp", quantum_ns=FINEST_NS
    )
    predicted = moeopt.predict(machine, model, n_cpu_moe=blocks, depth=1000)
    assert 1e9 / executed.step_ns[0] == pytest.approx(predicted.tokens_per_s, rel=0.03)


def test_plans_use_the_calibrated_runtime_first(machine: Machine) -> None:
    """Then what the machine's file says of overheads, then llama.cpp."""
    assert default_runtime(machine) == "llama.cpp"
    assert default_runtime(get_machine("rtx4090-7960x")) is None


ROOM = Context(500, 8192)


def test_the_fewest_blocks_fit(machine: Machine) -> None:
    """One less would not, with buffers, the cache and what stays free."""
    model = at_bits(get_model("glm-4.5-air"), "Q4_K_M")
    setting = Setting(machine, model, context=ROOM)
    blocks = fewest_cpu_blocks(setting)
    missing = [
        uses(setting, Placement.of_blocks(setting, n).host_calls(setting))[0].missing
        for n in (blocks - 1, blocks)
    ]
    assert missing[0] > 0 == missing[1]
    assert moeopt.predict(machine, model, context=8192).n_cpu_moe == blocks
    assert fewest_cpu_blocks(Setting(get_machine("epyc-9004"), model, context=ROOM)) == 46
    assert fewest_cpu_blocks(Setting(machine, model, context=ROOM, ubatch=4096)) > blocks


def test_command_lines_are_complete(machine: Machine) -> None:
    """Cache types, context, ubatch, threads and the file; without a context the usual one."""
    found = moeopt.predict(
        machine,
        "glm-4.5-air",
        bits="Q4_K_M",
        context="128k",
        kv_bits=8,
        threads=32,
        path="my model.gguf",
    )
    said = shlex.split(found.command or "")
    for flag, value in {
        "-m": "my model.gguf",
        "-c": "131072",
        "-ctk": "q8_0",
        "-ctv": "q8_0",
        "-ub": "512",
        "--n-cpu-moe": str(found.n_cpu_moe),
    }.items():
        assert said[said.index(flag) + 1] == value
    assert said[said.index("-t") + 1] == "32"
    short = moeopt.predict(machine, "glm-4.5-air", bits="Q4_K_M").command or ""
    assert "-c 32768" in short
    assert "-ctk" not in short
    asked = PredictOptions(bits="Q4_K_M", n_cpu_moe=3, runtime="ik_llama.cpp")
    of_ik = moeopt.predict(machine, "deepseek-v2-lite", options=asked).command or ""
    assert "-ot 'blk.[12].ffn_.+exps=CPU' -fa on" in of_ik
    with pytest.raises(InputError, match=r"llama\.cpp has caches of"):
        moeopt.predict(machine, "glm-4.5-air", bits="Q4_K_M", kv_bits=7)


def test_what_cannot_fit_is_refused(machine: Machine) -> None:
    """Missing MiB and the nearest quantisation that fits; a tight host is warned of."""
    small = moeopt.set_machine(machine, {"dram.capacity_gib": 384})
    with pytest.raises(
        moeopt.InfeasibleError, match=r"MiB more than the .*; it fits with --bits"
    ) as caught:
        moeopt.predict(small, "deepseek-v3", bits="Q8_0")
    assert caught.value.exit_code == 3
    with pytest.raises(moeopt.InfeasibleError):
        moeopt.predict(machine, "qwen3-30b-a3b", bits=16, n_cpu_moe=0)
    fits = str(caught.value).rpartition("--bits ")[2]
    assert moeopt.predict(small, "deepseek-v3", bits=fits).notes == ()
    close = moeopt.set_machine(machine, {"dram.capacity_gib": 50})
    tight = moeopt.predict(close, "glm-4.5-air", bits="Q4_K_M", n_cpu_moe=36, context=4096)
    assert "host memory" in tight.notes[0]


def test_measured_memory() -> None:
    """A card of 16 GB at 32,768 tokens: with 12 blocks it runs, with 10 it spills (public points).

    One of 24 GB with gpt-oss-120b: 25 is what its owner runs.
    """
    red = get_machine("rx9070xt+ryzen-am5")
    model = at_bits(get_model("qwen3.5-35b-a3b"), "MXFP4")
    assert 11 <= fewest_cpu_blocks(Setting(red, model)) <= 13
    green, big = get_machine("rtx3090+ryzen-am5"), at_bits(get_model("gpt-oss-120b"), "MXFP4")
    assert 24 <= fewest_cpu_blocks(Setting(green, big, context=Context(500, 4096))) <= 26


def test_prompts_gain_by_larger_ubatches(machine: Machine) -> None:
    """Experts are copied once per ubatch; small ones stay on the CPU."""
    speeds = [
        moeopt.predict(
            machine, "qwen3-30b-a3b", bits="Q4_K_M", n_cpu_moe=48, prompt=8192, ubatch=size
        ).prompt_tokens_per_s
        for size in (16, 512, 2048)
    ]
    assert speeds == sorted(speeds, key=lambda speed: speed or 0.0)
    assert speeds[0] is not None
    unasked = moeopt.predict(machine, "qwen3-30b-a3b", bits=4)
    assert all(one.prompt is not None for one in unasked.speeds)


def test_several_gpus_and_one_memory() -> None:
    """Two of them hold more; where one memory is shared nothing goes to the CPU."""
    one = moeopt.predict("rtx3090+epyc-9004", "glm-4.5-air", bits="Q4_K_M")
    two = moeopt.predict("rtx3090+epyc-9004", "glm-4.5-air", bits="Q4_K_M", gpus=2)
    assert (two.n_cpu_moe or 0) < (one.n_cpu_moe or 0)
    spark = moeopt.predict("dgx-spark", "gpt-oss-120b", bits="MXFP4")
    assert spark.n_cpu_moe == 0
    with pytest.raises(moeopt.InfeasibleError):
        moeopt.predict("dgx-spark", "deepseek-v3", bits="Q4_K_M")


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
    """Speeds, parts, memory, and how it is started; notes as a list."""
    found = moeopt.predict(machine, "qwen3-30b-a3b", bits=4, n_cpu_moe=40)
    data = found.to_dict()
    apart = {"setting", "placement", "speed", "uses"}
    named = {field.name for field in dataclasses.fields(found)} - apart
    named |= {"tokens_per_s", "low", "high", "bottleneck", "prompt_tokens_per_s", "n_cpu_moe"}
    named |= {"runtime", "context", "depth", "gpu_gib", "host_gib", "memory", "memory_mib"}
    assert set(data) == named | {"speeds", "interval", "context_allocated"}
    assert "host memory: not stated" in data["notes"][0]


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
    assert quantum_ns(step_costs(machine, small)) == 500
    assert quantum_ns(step_costs(machine, get_model("mixtral-8x7b"))) == 5000
    assert quantum_ns(step_costs(get_machine("epyc-9004"), get_model("mixtral-8x7b"))) == 5000
