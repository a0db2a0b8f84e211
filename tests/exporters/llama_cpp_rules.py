"""Where llama.cpp keeps the tensors of a model, from the description of its flags."""

import re
import shlex

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
    for each of the first N blocks.
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
    assert {buffer for _, buffer in overrides} <= {"CPU"}
    return {name for name in names if any(re.search(p, name) for p, _ in overrides)}
