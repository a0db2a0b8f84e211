"""The recorder on tiny models with random weights: what it says the routers chose, they chose."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt import load_trace

torch = pytest.importorskip("torch", reason="torch and transformers are not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

from benchmarks.traces import record as recorder  # noqa: E402
from benchmarks.traces.record import chosen, record  # noqa: E402

SMALL = {
    "vocab_size": 64, "hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2,
    "num_key_value_heads": 2, "num_hidden_layers": 3, "bos_token_id": 1, "eos_token_id": None,
    "pad_token_id": 0,
}  # fmt: skip
LATENT = {
    "moe_intermediate_size": 8, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2,
    "topk_group": 1, "first_k_dense_replace": 1, "q_lora_rank": 8, "kv_lora_rank": 8,
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "n_shared_experts": 1,
}  # fmt: skip
SHARED = {"moe_intermediate_size": 8, "num_experts": 6, "num_experts_per_tok": 3}
MODELS: dict[str, tuple[dict[str, Any], int, int]] = {
    "Mixtral": ({"num_local_experts": 4, "num_experts_per_tok": 2}, 3, 2),
    "Qwen2Moe": (SHARED | {"shared_expert_intermediate_size": 8}, 3, 3),
    "Qwen3Moe": (SHARED | {"head_dim": 8}, 3, 3),
    "DeepseekV2": (LATENT | {"topk_method": "group_limited_greedy"}, 2, 2),
    "DeepseekV3": (LATENT, 2, 2),
    "Olmoe": ({"num_experts": 6, "num_experts_per_tok": 3}, 3, 3),
    "Phimoe": ({"num_local_experts": 4, "num_experts_per_tok": 2}, 3, 2),
}
"""Style -> its config, layers with experts, experts per token."""
PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8]]


def made(style: str) -> Any:
    """Return a tiny model whose routers have opinions."""
    torch.manual_seed(3)
    config = getattr(transformers, f"{style}Config")(**(SMALL | MODELS[style][0]))
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            if name.endswith(("gate.weight", "router.weight")):
                value.normal_(std=1.0)
    return model


def independent(style: str, model: Any, tokens: list[int]) -> list[list[set[int]]]:
    """Return the experts of every token and layer from the routers' inputs and weights alone."""
    inputs: list[tuple[Any, Any]] = []
    hooks = [
        module.register_forward_pre_hook(lambda m, args: inputs.append((m, args[0])))
        for name, module in model.named_modules()
        if name.endswith((".gate", ".router")) and hasattr(module, "top_k")
    ]
    with torch.inference_mode():
        model(input_ids=torch.tensor([tokens]))
    for hook in hooks:
        hook.remove()
    layers = []
    for router, hidden in inputs:
        logits = (hidden.reshape(-1, 16).double() @ router.weight.double().T).detach().numpy()
        if style.startswith("Deepseek"):
            logits = limited_to_the_best_group(style, logits)
        best = np.argsort(-logits, axis=1)[:, : MODELS[style][2]]
        layers.append([set(row.tolist()) for row in best])
    return [list(token) for token in zip(*layers, strict=True)]


def limited_to_the_best_group(style: str, logits: Any) -> Any:
    """Return the logits of the better of two groups of four experts, the others at -inf.

    V2 compares the groups by their best expert, V3 by the sum of the sigmoids of the best two.
    """
    scores = np.exp(logits) if style == "DeepseekV2" else 1 / (1 + np.exp(-logits))
    grouped = np.sort(scores.reshape(-1, 2, 4), axis=2)
    merit = grouped[:, :, -1] if style == "DeepseekV2" else grouped[:, :, -2:].sum(axis=2)
    allowed = np.repeat(merit == merit.max(axis=1, keepdims=True), 4, axis=1)
    return np.where(allowed, logits, -np.inf)


def recorded(model: Any, new_tokens: int, folder: Path) -> Any:
    """Return the trace of both prompts as `moeopt.load_trace` reads it."""
    np.savez_compressed(folder / "x.npz", **record(model, PROMPTS, new_tokens))
    return load_trace(folder / "x.npz")


@pytest.mark.parametrize("style", MODELS)
def test_the_recorded_experts_are_the_top_k_of_the_routers(style: str, tmp_path: Path) -> None:
    """Prompts and generated tokens; the last generated token never went through the model."""
    model = made(style)
    trace = recorded(model, 4, tmp_path)
    _, layers, top_k = MODELS[style]
    assert trace.topk_ids.shape == (6 + 8, layers, top_k)
    assert trace.seq_len.tolist() == [6, 8]
    assert np.flatnonzero(trace.decode).tolist() == [3, 4, 5, 11, 12, 13]
    assert trace.facts["converted"] == {
        "name": f"{style}ForCausalLM", "layers": [*range(3)][-layers:], "max_new_tokens": 4,
    }  # fmt: skip
    for prompt, start, stop in zip(PROMPTS, (0, 6), (6, 14), strict=True):
        with torch.inference_mode():
            answer = model.generate(
                torch.tensor([prompt]), max_new_tokens=4, do_sample=False, use_cache=False
            )
        fed = answer[0, :-1].tolist()
        assert fed[: len(prompt)] == prompt
        found = [[set(layer) for layer in token] for token in trace.topk_ids[start:stop].tolist()]
        assert found == independent(style, model, fed)


@pytest.mark.parametrize("style", ["Mixtral", "Qwen2Moe"])
def test_the_recorded_weights_are_the_routers(style: str, tmp_path: Path) -> None:
    """Softmax of the logits; Mixtral's add up to one, Qwen's do not. One new token: prompts."""
    model = made(style)
    trace = recorded(model, 1, tmp_path)
    assert (trace.tokens, trace.decode.any()) == (8, False)
    sums = trace.topk_weights.sum(axis=2)
    assert (sums <= 1 + 1e-6).all()
    assert np.allclose(sums, 1) == (style == "Mixtral")
    assert (np.diff(trace.topk_weights, axis=2) <= 0).all()
    assert not any(module._forward_hooks for module in model.modules())


def test_a_dense_model_is_refused() -> None:
    """It has no routers."""
    config = transformers.LlamaConfig(**SMALL)
    with pytest.raises(SystemExit, match="LlamaForCausalLM: has no routers that are known"):
        record(transformers.AutoModelForCausalLM.from_config(config), PROMPTS, 1)


@pytest.mark.parametrize("norm", [True, False])
def test_plain_logits_of_older_releases_are_understood(norm: bool) -> None:
    """Top-k of the softmax, made to add up to one where the block does."""
    block = torch.nn.Module()
    block.top_k, block.norm_topk_prob = 2, norm
    torch.manual_seed(1)
    logits = torch.randn(3, 5)
    ids, weights = chosen(logits, torch.nn.Linear(4, 5), block)
    order = np.argsort(-logits.numpy(), axis=1)[:, :2]
    scores = np.exp(logits.numpy()) / np.exp(logits.numpy()).sum(axis=1, keepdims=True)
    expected = np.take_along_axis(scores, order, axis=1)
    assert ids.tolist() == order.tolist()
    assert np.allclose(
        weights, expected / expected.sum(axis=1, keepdims=True) if norm else expected
    )


def test_the_script_reads_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model and a tokenizer from a folder, a prompt in each line, and the trace in a file."""
    model = made("Mixtral")
    model.save_pretrained(tmp_path / "model")
    words = {"<unk>": 0, "one": 1, "two": 2, "three": 3}
    vocabulary = {"type": "WordLevel", "vocab": words, "unk_token": "<unk>"}
    text = {"version": "1.0", "added_tokens": [], "model": vocabulary}
    text |= {"pre_tokenizer": {"type": "Whitespace"}}
    text |= dict.fromkeys(("normalizer", "post_processor", "decoder", "truncation", "padding"))
    (tmp_path / "model/tokenizer.json").write_text(json.dumps(text))
    (tmp_path / "model/tokenizer_config.json").write_text(
        '{"tokenizer_class": "PreTrainedTokenizerFast"}'
    )
    (tmp_path / "prompts.txt").write_text("one two three\n\nthree two\n")
    files = [tmp_path / "model", tmp_path / "prompts.txt", tmp_path / "x.npz"]
    monkeypatch.setattr(sys, "argv", ["record.py", *map(str, files), "--max-new-tokens", "3"])
    runpy.run_path(str(recorder.__file__), run_name="__main__")
    found = load_trace(tmp_path / "x.npz")
    again = record(model, [[1, 2, 3], [3, 2]], 3)
    assert np.array_equal(found.topk_ids, again["topk_ids"])
    assert found.seq_len.tolist() == [5, 4]


def test_the_script_is_short(root: Path) -> None:
    """So that it can be read before it is copied to where a model runs; it needs no moeopt."""
    text = (root / "benchmarks/traces/record.py").read_text()
    assert len(text.splitlines()) <= 100
    assert "import moeopt" not in text
    assert "from moeopt" not in text
