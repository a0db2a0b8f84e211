"""Record which experts a Hugging Face model chooses, as a trace that moeopt takes with ``--trace``.

    python record.py MODEL PROMPTS OUT.npz [--max-new-tokens 64]

MODEL is a folder with weights and tokenizer, PROMPTS a text file with a prompt in each line; the
model answers them one by one and greedily. The script needs numpy, torch and transformers (tried
with 2.13 and 5.24), and nothing of moeopt: copy it to the machine that runs the model. It downloads
nothing.

Hooks on the routers note what they return; the model itself runs unchanged. Routers are modules
called ``gate`` or ``router`` beside ``experts`` that return the chosen experts and their weights
(Mixtral, Qwen2 and Qwen3 MoE, DeepSeek V2 and V3, OLMoE, Phi MoE and relatives), or logits of
which the block takes the top-k of the softmax, as in older releases. The last generated token never
goes through the model, so it is not in the trace: with one new token, the trace is the prompts.
"""

import argparse
import json
import re
from pathlib import Path

import numpy as np
import torch
import transformers

LAYER = re.compile(r"\.?layers\.([0-9]+)\.")


def routers_of(model):
    """Return, for each layer with experts, its router and the block that holds it."""
    found = {}
    for path, block in model.named_modules():
        number = LAYER.search(f"{path}.")
        named = [getattr(block, name, None) for name in ("gate", "router")]
        routers = [router for router in named if isinstance(router, torch.nn.Module)]
        if number and routers and hasattr(block, "experts"):
            found[int(number[1])] = routers[0], block
    if not found:
        raise SystemExit(f"{type(model).__name__}: has no routers that are known")
    return dict(sorted(found.items()))


def chosen(output, router, block):
    """Return experts and gate weights, both of shape (tokens, k), from what a router returned."""
    parts = output if isinstance(output, tuple | list) else (output,)
    ids = next((part for part in parts if part.dtype in (torch.int32, torch.int64)), None)
    if ids is None:
        top_k = getattr(router, "top_k", None) or block.top_k
        weights, ids = parts[0].float().softmax(dim=-1).topk(top_k, dim=-1)
        if getattr(block, "norm_topk_prob", True):
            weights = weights / weights.sum(dim=-1, keepdim=True)
    else:
        weights = [part for part in parts if part is not ids and part.shape == ids.shape][-1]
    return [x.detach().reshape(-1, ids.shape[-1]).float().cpu().numpy() for x in (ids, weights)]


def record(model, prompts, max_new_tokens):
    """Return the arrays of a trace: the routing of prompts, given as token ids, and their answers.

    ``topk_ids`` and ``topk_weights`` have shape (tokens, layers, k), ``seq_len`` a number for each
    prompt, ``decode`` is true for generated tokens.
    """
    heard, hooks = {}, []
    for layer, pair in routers_of(model).items():
        heard[layer] = to = []
        hook = lambda _, __, output, to=to, pair=pair: to.append(chosen(output, *pair))  # noqa: E731
        hooks.append(pair[0].register_forward_hook(hook))
    limit = {"max_new_tokens": max_new_tokens, "do_sample": False, "pad_token_id": 0}
    lengths, decode = [], []
    for prompt in prompts:
        tokens = torch.tensor([prompt], device=model.device)
        seen = torch.ones_like(tokens)
        answer = model.generate(tokens, attention_mask=seen, use_cache=True, **limit)
        lengths.append(answer.shape[1] - 1)
        decode += [place >= len(prompt) for place in range(lengths[-1])]
    for hook in hooks:
        hook.remove()
    ids, weights = (
        np.stack([np.concatenate([both[which] for both in heard[layer]]) for layer in heard], 1)
        for which in (0, 1)
    )
    facts = {"name": type(model).__name__, "layers": list(heard), "max_new_tokens": max_new_tokens}
    arrays = {"topk_ids": ids.astype(np.uint16), "topk_weights": weights}
    arrays |= {"seq_len": np.array(lengths), "decode": np.array(decode)}
    return arrays | {"provenance": np.frombuffer(json.dumps(facts).encode(), np.uint8)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for place in ("model", "prompts", "out"):
        parser.add_argument(place, type=Path)
    parser.add_argument("--max-new-tokens", type=int, default=64)
    given, local = parser.parse_args(), {"local_files_only": True}
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.model, **local)
    model = transformers.AutoModelForCausalLM.from_pretrained(given.model, dtype="auto", **local)
    lines = [line for line in given.prompts.read_text().splitlines() if line.strip()]
    prompts = [tokenizer(line)["input_ids"] for line in lines]
    np.savez_compressed(given.out, **record(model.eval(), prompts, given.max_new_tokens))
