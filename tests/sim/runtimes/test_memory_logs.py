"""Weights and KV caches against what runtimes logged in public."""

import pytest

from tests.rooms.sim import at_bits, buffer_bytes, experts_bytes, get_model

MIB = 2**20

WEIGHTS = [
    # github.com/ggml-org/llama.cpp, issue 13729: CUDA0 10,750.86 and CPU_Mapped 6,940.48 MiB
    ("qwen3-30b-a3b", "Q4_K_M", 10750.86 + 6940.48),
    # github.com/ikawrakow/ik_llama.cpp, issue 1167: file size 55.79 GiB
    ("glm-4.7-flash", "BF16", 55.79 * 1024),
]

CACHES = [
    # github.com/ikawrakow/ik_llama.cpp, pull request 370: 16,384 cells, K and V in q8_0
    ("qwen3-235b-a22b", 8.5, 16384, 1598.00),
]

BUFFERS = [
    # the same pull request: the larger of two GPUs, 512 tokens in a ubatch
    ("qwen3-235b-a22b", 312.75),
]


@pytest.mark.parametrize(("model", "bits", "mib"), WEIGHTS)
def test_weights(model: str, bits: str, mib: float) -> None:
    """All tensors of the file, on whatever device: within 3 %."""
    sized = at_bits(get_model(model), bits)
    assert (sized.resident_bytes + experts_bytes(sized)) / MIB == pytest.approx(mib, rel=0.03)


@pytest.mark.parametrize(("model", "bits", "cells", "mib"), CACHES)
def test_cache(model: str, bits: float, cells: int, mib: float) -> None:
    """Keys and values of all layers, scales included: to the hundredth."""
    shape = get_model(model).model_copy(update={"kv_bits": bits})
    assert shape.cache_bytes(cells) / MIB == pytest.approx(mib, abs=0.01)


@pytest.mark.parametrize(("model", "mib"), BUFFERS)
def test_compute_buffer(model: str, mib: float) -> None:
    """Logits of a ubatch are most of it; what is alive beside them, some 5 %, is not counted."""
    found = buffer_bytes(get_model(model), "ik_llama.cpp", experts_off_gpu=False) / MIB
    assert 0.94 * mib <= found <= mib
