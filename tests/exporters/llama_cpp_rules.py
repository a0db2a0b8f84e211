"""Where llama.cpp keeps the tensors of a model, from the description of its flags."""

import re
import shlex
from collections.abc import Sequence

from tests.exporters.llama_cpp_arguments import parsed

ROUTED = ("ffn_up_exps", "ffn_down_exps", "ffn_gate_exps", "ffn_gate_up_exps", "ffn_up_chexps")
OTHERS = (
    "attn_q", "attn_output", "ffn_gate_inp", "ffn_gate_inp_shexp", "ffn_up_shexp",
    "ffn_down_shexp", "attn_norm", "exp_probs_b",
)  # fmt: skip
DENSE = ("ffn_up", "ffn_gate", "ffn_down")


def tensors(layers: int, dense: tuple[int, ...]) -> list[str]:
    """Return the names of a model's tensors; block numbers count layers without experts, too."""
    names = ["token_embd.weight", "output.weight", "output_norm.weight"]
    for block in range(layers):
        kinds = OTHERS + (DENSE if block in dense else ROUTED)
        names += [f"blk.{block}.{kind}.weight" for kind in kinds]
    return names


def on_cpu(flags: str, names: list[str]) -> set[str]:
    """Return the tensors that stay on the CPU.

    `-ngl 999` offers all layers to the GPU. `-ot` is a list, by commas, of PATTERN=BUFFER; the
    first pattern that is found anywhere in a name decides. `--n-cpu-moe N` stands for one pattern
    for each of the first N blocks, `--cpu-moe` for one of all blocks.
    """
    given = parsed(shlex.split(flags))
    assert given["-ngl"] == "999"
    overrides: list[tuple[str, str]] = []
    for item in given.get("-ot", "").split(",") if "-ot" in given else []:
        pattern, _, buffer = item.partition("=")
        overrides.append((pattern, buffer))
    experts = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
    blocks = range(int(given.get("--n-cpu-moe", "0")))
    overrides += [(rf"blk\.{block}{experts}", "CPU") for block in blocks]
    overrides += [(experts, "CPU")] * ("--cpu-moe" in given)
    assert {buffer for _, buffer in overrides} <= {"CPU"}
    return {name for name in names if any(re.search(p, name) for p, _ in overrides)}


def split_of(flags: Sequence[str], layers: int, gpus: int) -> tuple[list[str], list[str]]:
    """Return the device of each layer's attention and of its experts.

    `-ts` gives each device so many of the offloaded layers, in order, of which the output layer is
    the last one; `-ot` moves the experts of single blocks, `--cpu-moe` those of all to the CPU.
    """
    every = "--cpu-moe" in flags
    words = [word for word in flags if word != "--cpu-moe"]
    given = dict(zip(words[::2], words[1::2], strict=True))
    offloaded = min(int(given["-ngl"]), layers + 1)
    names = [f"CUDA{number}" for number in range(gpus)]
    devices = given["--device"].split(",") if "--device" in given else names
    shares = [int(share) for share in given["-ts"].split(",")] if "-ts" in given else [1]
    first = layers + 1 - offloaded
    attention = ["CPU"] * min(first, layers)
    for layer in range(first, layers):
        ends = [sum(shares[: place + 1]) for place in range(len(shares))]
        part = (layer - first) * sum(shares)
        attention.append(devices[next(p for p, end in enumerate(ends) if part < end * offloaded)])
    experts = ["CPU"] * layers if every else attention[:]
    for moved in filter(None, given.get("-ot", "").split(",")):
        pattern, _, where = moved.rpartition("=")
        for layer in range(layers):
            if re.search(pattern, f"blk.{layer}.ffn_up_exps.weight"):
                experts[layer] = where
    return attention, experts
