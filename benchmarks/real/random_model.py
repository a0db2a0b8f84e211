"""Write a mixture-of-experts model of random weights as GGUF; needs the package ``gguf``.

    python random_model.py FOLDER --width Q8_0 --top-k 2 4 8

Layers as Qwen3-30B-A3B has them (its ``config.json``: hidden size 2048, experts of 768, 32 query
and 4 key heads of 128), but 8 of its 48, 32 of its 128 experts, and a vocabulary of 8192: an expert
takes as long as it does there, and the file is written in a minute. The speed of a matrix product
does not depend on its numbers; which experts a token gets does, and is as random as the router.

A model is two shards: the first has the metadata, the second, which all numbers of experts used
share as a hard link, has the tensors.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np

ARCHITECTURE = "qwen3moe"
LAYERS, EXPERTS = 8, 32
HIDDEN, EXPERT_WIDTH = 2048, 768
HEADS, KV_HEADS, HEAD_SIZE = 32, 4, 128
VOCABULARY = 8192
CONTEXT = 4096

Shape = tuple[int, ...]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--width", choices=["Q8_0", "Q4_0"], required=True)
    parser.add_argument("--top-k", type=int, nargs="+", required=True, help="experts per token")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    width = gguf.GGMLQuantizationType[arguments.width]
    stem = f"random-{arguments.width.lower()}"
    weights = arguments.folder / f"{stem}.weights"
    if not weights.exists():
        part = weights.with_suffix(".part")  # a run that was cut off leaves no half model
        write_weights(part, width)
        part.rename(weights)
    for top_k in arguments.top_k:
        first, second = (
            arguments.folder / f"{stem}-top{top_k}-{shard:05}-of-00002.gguf" for shard in (1, 2)
        )
        write_metadata(first, width, top_k)
        second.unlink(missing_ok=True)
        os.link(weights, second)


def tensors() -> Iterator[tuple[str, Shape, bool]]:
    """Yield name, shape (the fastest axis last) and whether it is quantised.

    Norms and routers stay in 32 bits, as in what llama.cpp's own quantising writes.
    """
    yield "token_embd.weight", (VOCABULARY, HIDDEN), True
    for layer in range(LAYERS):
        within: dict[str, tuple[Shape, bool]] = {
            "attn_norm": ((HIDDEN,), False),
            "attn_q": ((HEADS * HEAD_SIZE, HIDDEN), True),
            "attn_k": ((KV_HEADS * HEAD_SIZE, HIDDEN), True),
            "attn_v": ((KV_HEADS * HEAD_SIZE, HIDDEN), True),
            "attn_q_norm": ((HEAD_SIZE,), False),
            "attn_k_norm": ((HEAD_SIZE,), False),
            "attn_output": ((HIDDEN, HEADS * HEAD_SIZE), True),
            "ffn_norm": ((HIDDEN,), False),
            "ffn_gate_inp": ((EXPERTS, HIDDEN), False),
            "ffn_gate_exps": ((EXPERTS, EXPERT_WIDTH, HIDDEN), True),
            "ffn_up_exps": ((EXPERTS, EXPERT_WIDTH, HIDDEN), True),
            "ffn_down_exps": ((EXPERTS, HIDDEN, EXPERT_WIDTH), True),
        }
        for name, (shape, quantised) in within.items():
            yield f"blk.{layer}.{name}.weight", shape, quantised
    yield "output_norm.weight", (HIDDEN,), False
    yield "output.weight", (VOCABULARY, HIDDEN), True


def write_weights(path: Path, width: gguf.GGMLQuantizationType) -> None:
    """Write the shard that has the tensors, one after the other."""
    writer = gguf.GGUFWriter(path, ARCHITECTURE)
    add_split(writer, shard=1)
    for name, shape, quantised in tensors():
        kind = width if quantised else gguf.GGMLQuantizationType.F32
        block, size = gguf.GGML_QUANT_SIZES[kind]
        size_bytes = int(np.prod(shape)) // block * size
        writer.add_tensor_info(name, shape, np.dtype(np.float32), size_bytes, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    random = np.random.default_rng(0)
    for _, shape, quantised in tensors():
        if len(shape) == 1:
            writer.write_tensor_data(np.ones(shape, dtype=np.float32))  # a norm's gain
            continue
        matrix = random.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[-1]))
        writer.write_tensor_data(gguf.quants.quantize(matrix, width) if quantised else matrix)
    writer.close()


def write_metadata(path: Path, width: gguf.GGMLQuantizationType, top_k: int) -> None:
    """Write the shard that has the metadata and no tensor."""
    writer = gguf.GGUFWriter(path, ARCHITECTURE)
    add_split(writer, shard=0)
    writer.add_name(f"random {width.name} top-{top_k}")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(EXPERT_WIDTH)
    writer.add_expert_feed_forward_length(EXPERT_WIDTH)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(top_k)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_SIZE)
    writer.add_value_length(HEAD_SIZE)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{width.name}"])
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("no_vocab")  # token numbers only, which is what llama-bench draws
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()


def add_split(writer: gguf.GGUFWriter, shard: int) -> None:
    """Add the keys by which the runtime joins the two shards."""
    writer.add_uint16(gguf.Keys.Split.LLM_KV_SPLIT_NO, shard)
    writer.add_uint16(gguf.Keys.Split.LLM_KV_SPLIT_COUNT, 2)
    total = sum(1 for _ in tensors())
    writer.add_int32(gguf.Keys.Split.LLM_KV_SPLIT_TENSORS_COUNT, total)


if __name__ == "__main__":
    main()
