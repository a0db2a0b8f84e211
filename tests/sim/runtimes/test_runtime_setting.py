"""What a token needs of each term, computed by hand, and where settings have experts."""

import numpy as np
import pytest

from moeopt import InputError, Plan, get_machine
from tests.rooms.sim import (
    TERMS,
    Context,
    Machine,
    ModelShape,
    Placement,
    Setting,
    amounts,
    cores_of,
    decode_factor,
    get_model,
    kind_of_setting,
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


def by_term(setting: Setting, blocks: int | Placement) -> dict[str, float]:
    """Return the amounts by name, the experts of so many blocks on the CPU."""
    at = Placement.of_blocks(setting, blocks) if isinstance(blocks, int) else blocks
    return dict(zip(TERMS, amounts(setting, at.host_calls(setting)).tolist(), strict=True))


def test_blocks_are_counted_as_llama_cpp_does(machine: Machine, model: ModelShape) -> None:
    """Block 0 has no experts: of 7 blocks, 6 have experts to move."""
    setting = Setting(machine, model)
    placement = Placement.of_blocks(setting, 7)
    assert sum(placement.host_calls(setting)) == 6
    assert placement.blocks(setting) == 7
    found = by_term(setting, placement)
    expert = 3 * 2048 * 1408  # bytes in 8 bits
    assert found["host_read"] == pytest.approx(6 * 6 * expert / 100 / 1e3)
    assert found["host_layer_us"] == 6
    assert (found["host_expert_us"], found["barrier_threads"]) == (36, 1.0)  # 32 threads
    assert found["layer_us"] == found["latent_layer_us"] == pytest.approx(27 * 1.8 / 2.52)
    assert found["cpu_layer_us"] == found["oblivious_read"] == 0
    rest = model.resident_bytes - model.bytes_of("embedding")
    assert found["gpu_read"] == pytest.approx((rest + 20 * 6 * expert) / 1000 / 1e3)


def test_attention_is_charged_by_its_kind(machine: Machine, model: ModelShape) -> None:
    """Latent attention by operations; others by a cache that no width makes faster than 16 bits."""
    full = by_term(Setting(machine, model, context=Context.at(1000)), 27)
    products = 27 * 16 * (2 * 512 + 64) * 1000
    assert full["gpu_latent"] == pytest.approx(2 * products / 165.2 / 1e6)
    assert full["gpu_kv"] == 0
    mixtral = get_model("mixtral-8x7b").quantized(8, 8)
    for bits in (16.0, 4.5):
        narrow = mixtral.model_copy(update={"kv_bits": bits})
        found = by_term(Setting(machine, narrow, context=Context.at(1000)), 32)
        assert found["gpu_kv"] == pytest.approx(32 * 2 * 8 * 128 * 2 * 1000 / 1e6, rel=1e-4)


def test_formats_differ_in_what_unpacking_costs(machine: Machine, model: ModelShape) -> None:
    """Codebooks above shifts, these above bytes; a name goes before a width."""
    assert decode_factor(2.1, "IQ2_XXS") > decode_factor(2.6, "Q2_K") > decode_factor(8.5, "Q8_0")
    assert decode_factor(2.6) > decode_factor(4.5) > decode_factor(8)
    found = by_term(Setting(machine, model), 27)
    tops = 1.66
    assert found["host_decode"] == pytest.approx(2 * 26 * 6 * 3 * 2048 * 1408 / tops / 1e6)


def test_without_a_gpu_the_cpu_reads_everything(model: ModelShape) -> None:
    """Dense parts too, and no layer is launched anywhere."""
    machine = get_machine("epyc-9004")
    found = by_term(Setting(machine, model), 0)
    active = model.resident_bytes - model.bytes_of("embedding")
    active += 26 * 6 * 3 * 2048 * 1408
    assert found["host_read"] == pytest.approx(
        active / cores_of(machine, "isolate").read_gb_s / 1e3
    )
    assert found["cpu_layer_us"] == 27
    assert found["gpu_read"] == found["layer_us"] == found["host_layer_us"] == 0


def test_experts_by_number_leave_few_layers_alone(machine: Machine, model: ModelShape) -> None:
    """With half of the experts on the GPU a layer needs the CPU unless all six calls hit."""
    setting = Setting(machine, model)
    placement = Placement.of_number(setting, 32)
    assert (placement.gpu_experts, placement.blocks(setting)) == (32, None)
    found = by_term(setting, placement)
    assert found["host_expert_us"] == pytest.approx(26 * 3)
    assert found["host_layer_us"] == pytest.approx(26 * (1 - 0.5**6))


def test_a_plan_counts_by_popularity(machine: Machine, model: ModelShape) -> None:
    """One resident expert that gets half of the calls halves the host's part."""
    plan = Plan(name="p", resident=tuple((5,) for _ in range(26)))
    popularity = np.ones((26, 64))
    popularity[:, 5] = 63
    setting = Setting(machine, model)
    placement = Placement.of_plan(setting, plan)
    assert sum(placement.host_calls(setting, popularity)) == pytest.approx(13)
    assert sum(placement.host_calls(setting)) == pytest.approx(26 * 63 / 64)
    assert placement.experts[0]["gpu"] == (5,)
    assert (placement.gpu_experts, placement.blocks(setting)) == (None, None)


def test_two_sockets_and_a_runtime_that_does_not_know(model: ModelShape) -> None:
    """Reads are half across the link, and of one socket's threads where only they compute."""
    machine = get_machine("ktransformers-a100")
    blind = by_term(Setting(machine, model), 27)
    aware = by_term(Setting(machine, model, numa="tensor-parallel"), 27)
    assert blind["host_read"] == aware["oblivious_read"] == 0
    assert blind["oblivious_read"] > aware["host_read"] > 0
    link = machine.between("numa0", "numa1")
    assert link is not None
    slower = (0.5 + 0.5 * machine.nodes[0].memory.gb_s / link.gb_s) * aware["host_read"]
    assert blind["oblivious_read"] == pytest.approx(slower)
    found = by_term(Setting(machine, model, numa="one-computes"), 27)
    assert found["oblivious_read"] == pytest.approx(2 * blind["oblivious_read"])
    assert found["barrier_threads"] == pytest.approx(blind["barrier_threads"] - 1)  # fewer threads


def test_one_of_two_sockets_alone_is_no_machine_of_several(model: ModelShape) -> None:
    """It reads its own memory and has its own cores; errors are those of one socket."""
    machine = get_machine("ktransformers-a100")
    alone = Setting(machine, model, numa="isolate")
    aware = Setting(machine, model, numa="tensor-parallel")
    for term in ("host_read", "host_decode"):
        assert by_term(alone, 27)[term] == pytest.approx(2 * by_term(aware, 27)[term])
    kinds = [kind_of_setting(setting, (1.0,) * 26) for setting in (alone, aware)]
    assert kinds == ["GPU and CPU", "several sockets"]


def test_threads_and_the_cache_are_felt(machine: Machine, model: ModelShape) -> None:
    """Half of the cores have half of the rate; keys and values have widths of their own."""
    full, half = Setting(machine, model), Setting(machine, model, threads=16)
    assert by_term(half, 27)["host_decode"] == pytest.approx(2 * by_term(full, 27)["host_decode"])
    assert by_term(half, 27)["barrier_threads"] == by_term(full, 27)["barrier_threads"] - 1
    mixtral = get_model("mixtral-8x7b")
    found = Setting(machine, mixtral, kv=("q8_0", "q4_0")).shape
    assert found.kv_widths == (8.5, 4.5)
    assert found.cache_bytes(1000) == pytest.approx(mixtral.cache_bytes(1000) * 6.5 / 16)


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ((1.0,), "must have 26 entries"),
        ((1.5,) * 26, "shares from 0 to 1"),
    ],
)
def test_shares_of_calls_that_are_none(
    machine: Machine, model: ModelShape, calls: tuple[float, ...], words: str
) -> None:
    """One line each."""
    with pytest.raises(InputError, match=words):
        amounts(Setting(machine, model), calls)


def test_settings_and_placements_that_are_none(machine: Machine, model: ModelShape) -> None:
    """One line each."""
    with pytest.raises(InputError, match="context: must be a Context, not int -1"):
        Setting(machine, model, context=-1)  # type: ignore[arg-type]
    cpu = Setting(get_machine("epyc-9004"), model)
    with pytest.raises(InputError, match="gpu: is missing; experts on it are asked for"):
        Placement.of_number(cpu, 1)
    popularity = np.ones((26, 63))
    with pytest.raises(InputError, match="popularity: must be 26 x 64, not 26 x 63"):
        Placement.of_blocks(cpu, 27).host_calls(cpu, popularity)
