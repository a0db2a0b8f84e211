"""What a token needs of each term, computed by hand."""

import numpy as np
import pytest

from moeopt import InputError, Plan, get_machine
from tests.rooms.sim import (
    TERMS,
    Context,
    Machine,
    ModelShape,
    Setting,
    amounts,
    cores_of,
    decode_factor,
    get_model,
)


@pytest.fixture
def machine() -> Machine:
    """Return a GPU with 1000 GB/s measured beside a host that reads 100 GB/s."""
    parts = get_machine("rtx4090+epyc-9004")
    gpu = parts.require("gpu").with_memory(gb_s=1000.0, reached=1.0)
    host = parts.require("cpu").with_memory(measured_gb_s=100.0, reached=None)
    return parts.with_devices(gpu, host)


@pytest.fixture
def model() -> ModelShape:
    """Return DeepSeek-V2-Lite in 8 bits: 27 layers, the first dense, 6 of 64 experts."""
    return get_model("deepseek-v2-lite").quantized(8, 8)


def by_term(setting: Setting) -> dict[str, float]:
    """Return the amounts by name."""
    return dict(zip(TERMS, amounts(setting).tolist(), strict=True))


def test_blocks_are_counted_as_llama_cpp_does(machine: Machine, model: ModelShape) -> None:
    """Block 0 has no experts: of 7 blocks, 6 have experts to move."""
    setting = Setting.with_cpu_blocks(machine, model, 7)
    assert sum(setting.host_calls) == 6
    found = by_term(setting)
    expert = 3 * 2048 * 1408  # bytes in 8 bits
    assert found["host_read"] == pytest.approx(6 * 6 * expert / 100 / 1e3)
    assert found["host_layer_us"] == 6
    assert found["host_expert_us"] == 36 * 32 / 16  # barriers of 32 threads
    assert found["layer_us"] == found["latent_layer_us"] == pytest.approx(27 * 1.8 / 2.52)
    assert found["cpu_layer_us"] == found["oblivious_read"] == 0
    rest = model.resident_bytes - model.bytes_of("embedding")
    assert found["gpu_read"] == pytest.approx((rest + 20 * 6 * expert) / 1000 / 1e3)


def test_attention_is_charged_by_its_kind(machine: Machine, model: ModelShape) -> None:
    """Latent attention by operations; others by a cache that no width makes faster than 16 bits."""
    full = by_term(Setting.with_cpu_blocks(machine, model, 27, Context.at(1000)))
    products = 27 * 16 * (2 * 512 + 64) * 1000
    assert full["gpu_latent"] == pytest.approx(2 * products / 165.2 / 1e6)
    assert full["gpu_kv"] == 0
    mixtral = get_model("mixtral-8x7b").quantized(8, 8)
    for bits in (16.0, 4.5):
        narrow = mixtral.model_copy(update={"kv_bits": bits})
        found = by_term(Setting.with_cpu_blocks(machine, narrow, 32, Context.at(1000)))
        assert found["gpu_kv"] == pytest.approx(32 * 2 * 8 * 128 * 2 * 1000 / 1e6, rel=1e-4)


def test_formats_differ_in_what_unpacking_costs(machine: Machine, model: ModelShape) -> None:
    """Codebooks above shifts, these above bytes; a name goes before a width."""
    assert decode_factor(2.1, "IQ2_XXS") > decode_factor(2.6, "Q2_K") > decode_factor(8.5, "Q8_0")
    assert decode_factor(2.6) > decode_factor(4.5) > decode_factor(8)
    found = by_term(Setting.with_cpu_blocks(machine, model, 27))
    tops = 1.66
    assert found["host_decode"] == pytest.approx(2 * 26 * 6 * 3 * 2048 * 1408 / tops / 1e6)


def test_without_a_gpu_the_cpu_reads_everything(model: ModelShape) -> None:
    """Dense parts too, and no layer is launched anywhere."""
    machine = get_machine("epyc-9004")
    found = by_term(Setting.with_cpu_blocks(machine, model, 0))
    active = model.resident_bytes - model.bytes_of("embedding")
    active += 26 * 6 * 3 * 2048 * 1408
    assert found["host_read"] == pytest.approx(
        active / cores_of(machine, "isolate").read_gb_s / 1e3
    )
    assert found["cpu_layer_us"] == 27
    assert found["gpu_read"] == found["layer_us"] == found["host_layer_us"] == 0


def test_experts_by_number_leave_few_layers_alone(machine: Machine, model: ModelShape) -> None:
    """With half of the experts on the GPU a layer needs the CPU unless all six calls hit."""
    found = by_term(Setting.with_gpu_experts(machine, model, 32))
    assert found["host_expert_us"] == pytest.approx(26 * 3 * 2)
    assert found["host_layer_us"] == pytest.approx(26 * (1 - 0.5**6))


def test_a_plan_counts_by_popularity(machine: Machine, model: ModelShape) -> None:
    """One resident expert that gets half of the calls halves the host's part."""
    plan = Plan(name="p", resident=tuple((5,) for _ in range(26)))
    popularity = np.ones((26, 64))
    popularity[:, 5] = 63
    setting = Setting.of_plan(machine, model, plan, popularity)
    assert sum(setting.host_calls) == pytest.approx(13)
    even = Setting.of_plan(machine, model, plan)
    assert sum(even.host_calls) == pytest.approx(26 * 63 / 64)


def test_two_sockets_and_a_runtime_that_does_not_know(model: ModelShape) -> None:
    """Reads are half across the link, and of one socket's threads where only they compute."""
    machine = get_machine("ktransformers-a100")
    blind = by_term(Setting.with_cpu_blocks(machine, model, 27))
    aware = by_term(Setting.with_cpu_blocks(machine, model, 27, numa="tensor-parallel"))
    assert blind["host_read"] == aware["oblivious_read"] == 0
    assert blind["oblivious_read"] > aware["host_read"] > 0
    link = machine.between("numa0", "numa1")
    assert link is not None
    slower = (0.5 + 0.5 * machine.nodes[0].memory.gb_s / link.gb_s) * aware["host_read"]
    assert blind["oblivious_read"] == pytest.approx(slower)
    found = by_term(Setting.with_cpu_blocks(machine, model, 27, numa="one-computes"))
    assert found["oblivious_read"] == pytest.approx(2 * blind["oblivious_read"])
    assert found["host_expert_us"] == pytest.approx(blind["host_expert_us"] / 2)  # fewer threads


def test_one_of_two_sockets_alone_is_no_machine_of_several(model: ModelShape) -> None:
    """It reads its own memory and has its own cores; errors are those of one socket."""
    machine = get_machine("ktransformers-a100")
    alone = Setting.with_cpu_blocks(machine, model, 27, numa="isolate")
    aware = Setting.with_cpu_blocks(machine, model, 27, numa="tensor-parallel")
    assert by_term(alone)["host_read"] == pytest.approx(2 * by_term(aware)["host_read"])
    assert by_term(alone)["host_decode"] == pytest.approx(2 * by_term(aware)["host_decode"])
    assert (alone.kind, aware.kind) == ("GPU and CPU", "several sockets")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"host_calls": (1.0,)}, "must have 26 entries"),
        ({"host_calls": (1.5,) * 26}, "shares from 0 to 1"),
        ({"context": -1}, "context: must be a Context, not int -1"),
    ],
)
def test_settings_that_are_none(
    machine: Machine, model: ModelShape, change: dict[str, object], words: str
) -> None:
    """One line each."""
    fields = {"machine": machine, "model": model, "host_calls": (1.0,) * 26} | change
    with pytest.raises(InputError, match=words):
        Setting(**fields)  # type: ignore[arg-type]
