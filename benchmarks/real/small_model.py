"""Write a small mixture-of-experts model of random weights that can read text; needs ``gguf``.

    python small_model.py FILE [--layers N] [--experts N] [--nextn N]

A Qwen3-MoE by its names and metadata, of some ten megabytes, with a vocabulary of bytes: what
``llama-imatrix`` and ``llama-completion`` need.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np

ARCHITECTURE = "qwen3moe"
HIDDEN, EXPERT_WIDTH = 256, 128
HEADS, KV_HEADS, HEAD_SIZE = 4, 2, 64
TOP_K = 2
CONTEXT = 512
SPECIAL = ("<unk>", "<s>", "</s>")
BYTES = tuple(f"<0x{number:02X}>" for number in range(256))

Shape = tuple[int, ...]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--nextn", type=int, default=0, help="further blocks, without weights")
    arguments = parser.parse_args()
    part = arguments.file.with_suffix(".part")  # a run that was cut off leaves no half model
    write(part, arguments.layers, arguments.experts, arguments.nextn)
    part.rename(arguments.file)


def tensors(layers: int, experts: int) -> Iterator[tuple[str, Shape]]:
    """Yield name and shape, the fastest axis last."""
    vocabulary = len(SPECIAL) + len(BYTES)
    yield "token_embd.weight", (vocabulary, HIDDEN)
    for layer in range(layers):
        within: dict[str, Shape] = {
            "attn_norm": (HIDDEN,),
            "attn_q": (HEADS * HEAD_SIZE, HIDDEN),
            "attn_k": (KV_HEADS * HEAD_SIZE, HIDDEN),
            "attn_v": (KV_HEADS * HEAD_SIZE, HIDDEN),
            "attn_q_norm": (HEAD_SIZE,),
            "attn_k_norm": (HEAD_SIZE,),
            "attn_output": (HIDDEN, HEADS * HEAD_SIZE),
            "ffn_norm": (HIDDEN,),
            "ffn_gate_inp": (experts, HIDDEN),
            "ffn_gate_exps": (experts, EXPERT_WIDTH, HIDDEN),
            "ffn_up_exps": (experts, EXPERT_WIDTH, HIDDEN),
            "ffn_down_exps": (experts, HIDDEN, EXPERT_WIDTH),
        }
        for name, shape in within.items():
            yield f"blk.{layer}.{name}.weight", shape
    yield "output_norm.weight", (HIDDEN,)
    yield "output.weight", (vocabulary, HIDDEN)


def write(path: Path, layers: int, experts: int, nextn: int = 0) -> None:
    """Write metadata, vocabulary and tensors in one file.

    Parameters
    ----------
    nextn
        Blocks counted beside the layers, as those that predict further tokens are; none is written.
    """
    writer = gguf.GGUFWriter(path, ARCHITECTURE)
    writer.add_name(f"small {layers} x {experts}")
    writer.add_block_count(layers + nextn)
    if nextn:
        writer.add_nextn_predict_layers(nextn)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(EXPERT_WIDTH)
    writer.add_expert_feed_forward_length(EXPERT_WIDTH)
    writer.add_expert_count(experts)
    writer.add_expert_used_count(TOP_K)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_SIZE)
    writer.add_value_length(HEAD_SIZE)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    add_vocabulary(writer)
    random = np.random.default_rng(0)
    width = gguf.GGMLQuantizationType.Q8_0
    for name, shape in tensors(layers, experts):
        if len(shape) == 1:
            writer.add_tensor(name, np.ones(shape, dtype=np.float32))  # a norm's gain
            continue
        matrix = random.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[-1]))
        if "ffn_gate_inp" in name:  # routers stay in 32 bits
            writer.add_tensor(name, matrix)
        else:
            writer.add_tensor(name, gguf.quants.quantize(matrix, width), raw_dtype=width)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_vocabulary(writer: gguf.GGUFWriter) -> None:
    """Add a vocabulary in which every byte is a token, so that any text can be read."""
    types = [gguf.TokenType.UNKNOWN, *[gguf.TokenType.CONTROL] * 2]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*SPECIAL, *BYTES])
    writer.add_token_scores([0.0] * (len(SPECIAL) + len(BYTES)))
    writer.add_token_types([*types, *[gguf.TokenType.BYTE] * len(BYTES)])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)


if __name__ == "__main__":
    main()
