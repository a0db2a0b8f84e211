"""The recorder on tiny models with random weights: what it says the routers chose, they chose."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from moeopt import InputError, load_trace, save_trace

torch = pytest.importorskip("torch", reason="the extra hf (torch, transformers) is not installed")
transformers = pytest.importorskip(
    "transformers", reason="the extra hf (torch, transformers) is not installed"
)

from tests.rooms.sim import record, recording  # noqa: E402

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


@pytest.mark.parametrize("style", MODELS)
def test_the_recorded_experts_are_the_top_k_of_the_routers(style: str) -> None:
    """Prompts and generated tokens; the last generated token never went through the model."""
    model = made(style)
    trace = record(model, PROMPTS, 4, "run")
    _, layers, top_k = MODELS[style]
    assert trace.topk_ids.shape == (6 + 8, layers, top_k)
    assert trace.seq_len.tolist() == [6, 8]
    assert np.flatnonzero(trace.decode).tolist() == [3, 4, 5, 11, 12, 13]
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
def test_the_recorded_weights_are_the_routers(style: str) -> None:
    """Softmax of the logits; Mixtral's add up to one, Qwen's do not."""
    trace = record(made(style), PROMPTS, 0, "run")
    sums = trace.topk_weights.sum(axis=2)
    assert (sums <= 1 + 1e-6).all()
    assert np.allclose(sums, 1) == (style == "Mixtral")
    assert (np.diff(trace.topk_weights, axis=2) <= 0).all()


def test_layers_keep_their_numbers_where_some_are_dense() -> None:
    """DeepSeek's first layer has no router."""
    trace = record(made("DeepseekV3"), PROMPTS, 0, "run", {"note": 1})
    assert trace.facts == {
        "model": "DeepseekV3ForCausalLM", "layers": [1, 2], "max_new_tokens": 0,
        "decoding": "greedy", "note": 1,
    }  # fmt: skip
    assert not trace.decode.any()


def test_a_padded_batch_is_the_same_as_its_sequences_alone() -> None:
    """Padding on the left is left out; rows of a batch are sequences."""
    model = made("Mixtral")
    alone = record(model, PROMPTS, 0, "alone")
    rows = torch.tensor([[0, 0, *PROMPTS[0]], PROMPTS[1]])
    mask = torch.tensor([[0, 0, 1, 1, 1], [1] * 5])
    with recording(model) as recorder, torch.inference_mode():
        model(input_ids=rows, attention_mask=mask)
    together = recorder.trace("together")
    assert together.seq_len.tolist() == [3, 5]
    assert np.array_equal(together.topk_ids, alone.topk_ids)


def test_the_hooks_go_away() -> None:
    """Also after an error; nothing more is recorded then."""
    model = made("Mixtral")
    with recording(model) as recorder:
        model(input_ids=torch.tensor([[1, 2]]))
    with pytest.raises(IndexError), recording(model):
        model(input_ids=torch.tensor([[1000]]))
    model(input_ids=torch.tensor([[3, 4, 5]]))
    assert recorder.trace("two").tokens == 2
    hooks = [h for module in model.modules() for h in module._forward_hooks.values()]
    assert not any("interop" in getattr(hook, "__module__", "") for hook in hooks)


def test_a_recorded_trace_can_be_saved_and_read(tmp_path: Path) -> None:
    """With all that was recorded."""
    trace = record(made("Olmoe"), PROMPTS, 2, "run")
    save_trace(trace, tmp_path / "x.npz")
    again = load_trace(tmp_path / "x.npz")
    for field in ("topk_ids", "topk_weights", "seq_len", "decode"):
        assert np.array_equal(getattr(again, field), getattr(trace, field))


def test_what_cannot_be_recorded_is_refused() -> None:
    """A dense model, no prompts, an empty prompt."""
    config = transformers.LlamaConfig(**SMALL)
    with pytest.raises(InputError, match="LlamaForCausalLM: has no routers that are known"):
        record(transformers.AutoModelForCausalLM.from_config(config), PROMPTS, 0, "run")
    with pytest.raises(InputError, match="run: no tokens were recorded"):
        record(made("Mixtral"), [], 0, "run")
    with pytest.raises(InputError, match="run: prompt 1: is empty"):
        record(made("Mixtral"), [[1], []], 0, "run")


def older(norm: bool) -> Any:
    """Return a model in the style of older releases: a linear gate that returns logits."""

    class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.gate = torch.nn.Linear(4, 5, bias=False)
            self.experts = torch.nn.ModuleList()
            self.top_k, self.norm_topk_prob = 2, norm

        def forward(self, hidden: Any) -> Any:
            self.gate(hidden.reshape(-1, 4))
            return hidden

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(9, 4)
            self.layers = torch.nn.ModuleList(
                [torch.nn.ModuleDict({"mlp": Block()}) for _ in range(2)]
            )

        def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
            hidden = self.embed(input_ids)
            for layer in self.layers:
                hidden = layer["mlp"](hidden)
            return SimpleNamespace(logits=hidden)

    torch.manual_seed(1)
    return Model()


@pytest.mark.parametrize("norm", [True, False])
def test_plain_logits_of_older_releases_are_understood(norm: bool) -> None:
    """Top-k of the softmax, made to add up to one where the block does."""
    model = older(norm)
    with recording(model) as recorder, torch.inference_mode():
        model(torch.tensor([[1, 5, 7]]))
    trace = recorder.trace("older")
    logits = model.layers[1]["mlp"].gate(model.embed(torch.tensor([1, 5, 7]))).detach().numpy()
    order = np.argsort(-logits, axis=1)[:, :2]
    scores = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    weights = np.take_along_axis(scores, order, axis=1)
    assert trace.topk_ids[:, 1].tolist() == order.tolist()
    expected = weights / weights.sum(axis=1, keepdims=True) if norm else weights
    assert np.allclose(trace.topk_weights[:, 1], expected)
