"""One setting has one speed, whichever command is asked, at every depth."""

import numpy as np
import pytest

import moeopt
from tests.rooms.sim import at_bits, get_model

CONTEXT = 49152
"""Beside 0, 4,096 and 32,768 the depth of a full cache."""

PAIRS = [
    ("rtx4090+epyc-9004", "glm-4.5-air", "Q4_K_M"),
    ("rtx4090+2xepyc-9004", "glm-4.5-air", "Q4_K_M"),
    ("2xrtx3090+epyc-7002", "glm-4.5-air", "Q4_K_M"),
]
"""Machine, model and quantisation: one GPU and a host, two sockets, two GPUs."""

MORE = [
    ("h100+xeon-spr", "qwen3-30b-a3b", "Q8_0"),  # all on the GPU
    ("m2-ultra", "qwen3-235b-a22b", "Q4_K_M"),  # one memory
    ("rtx4090+epyc-9004", "deepseek-v3", "Q4_K_M"),
    ("rtx4090+epyc-9004", "mixtral-8x7b", "Q4_K_M"),
    ("rtx4090+epyc-9004", "qwen3-next-80b-a3b", "Q4_K_M"),
    ("rtx3090+ryzen-am5", "gpt-oss-120b", "MXFP4"),
    ("rtx5090+ryzen-am5", "gpt-oss-120b", "MXFP4"),
    ("rtx4090+ryzen-am5", "deepseek-v2-lite", "Q8_0"),
    ("rtx4090+ryzen-am5", "phi-3.5-moe", "Q4_K_M"),
    ("rx9070xt+ryzen-am5", "qwen3.5-35b-a3b", "Q4_K_M"),
    ("rtx5090+epyc-9005", "minimax-m2", "Q4_K_M"),
    ("rtx5090+xeon-6980p", "qwen3-235b-a22b", "Q4_K_M"),
    ("a100+xeon-spr", "mixtral-8x22b", "Q4_K_M"),
    ("dgx-spark", "gpt-oss-120b", "MXFP4"),
    ("ryzen-ai-max-395", "qwen3-30b-a3b", "Q4_K_M"),
    ("ryzen-ai-max-395", "glm-4.5-air", "Q4_K_M"),
    ("m2-ultra", "qwen3-30b-a3b", "Q8_0"),
    ("rtx5090+2xepyc-9004", "deepseek-v3", "Q4_K_M"),
    ("rtx4090+2xepyc-9004", "qwen3-235b-a22b", "Q4_K_M"),
    ("2xrtx3090+epyc-7002", "qwen3-235b-a22b", "Q4_K_M"),
    ("2xrtx4090+epyc-9004", "gpt-oss-120b", "MXFP4"),
    ("2xrtx5090+2xepyc-9004", "deepseek-v3", "Q4_K_M"),
    ("3xrtx3090+epyc-7003", "glm-4.5-air", "Q4_K_M"),
    ("4xrtx3090+epyc-7003", "qwen3-235b-a22b", "Q4_K_M"),
    ("5xrtx3090+epyc-7003", "minimax-m2", "Q4_K_M"),
    ("6xrtx3090+epyc-7003", "deepseek-v2", "Q4_K_M"),
    ("7xrtx3090+epyc-7003", "qwen3-235b-a22b", "Q4_K_M"),
]

ALL = [*PAIRS, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in MORE)]


@pytest.mark.parametrize(("machine", "model", "bits"), ALL)
def test_commands_agree_on_a_plan(machine: str, model: str, bits: str) -> None:
    """Its speeds are those of `predict`, of its printed flags, and of executing it."""
    found = moeopt.plan(machine, model, bits=bits, context=CONTEXT)
    decision, setting, speeds = found.best.decision, found.best.setting, found.best.speeds
    said = {one.depth: one.decode for one in speeds}
    assert {*said} == {500, 0, 4096, 32768, CONTEXT}
    kind = setting.kv[0] if setting.kv else "f16"
    asked = {"bits": bits, "context": CONTEXT, "kv_bits": kind, "ubatch": setting.ubatch}
    predicted = moeopt.predict(machine, model, plan=decision, **asked)
    by_flags = moeopt.predict(machine, model, flags=found.command, bits=bits)
    for other in (predicted, by_flags):
        assert {one.depth: one.decode for one in other.speeds} == pytest.approx(said, rel=0.005)
    assert by_flags.speeds[0].prompt == pytest.approx(speeds[0].prompt, rel=0.005)
    shape = at_bits(get_model(model), bits)
    loads = None
    if found.strategy == "layers":
        loads = np.zeros((1, len(shape.moe_layers), shape.routed_experts), dtype=np.int64)
        loads[..., : shape.top_k] = 1
    executed = {
        depth: moeopt.simulate(
            decision, machine, shape, loads, depth=depth, kv_bits=kind
        ).tokens_per_s
        for depth in said
    }
    assert executed == pytest.approx(said, rel=0.005)
