"""llama.cpp's flags: all layers on the GPU, but the routed experts of some kept on the CPU.

``-ot PATTERN=CPU,...`` keeps the tensors on the CPU in whose names a regular expression is found; a
layer's experts are one tensor for each of up, down and gate (or the last two in one), so that only
whole layers can be chosen. ``--n-cpu-moe N`` does so for the first N blocks; blocks without experts
count and have nothing to keep.

The patterns have no character that a shell would take for its own, so that the flags are the same
words with ``$(cat flags.txt)``, through ``xargs``, and typed.
"""

import re

from moeopt.core.errors import InputError
from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.placed import placed_whole
from moeopt.exporters.target import Target

ALL_LAYERS = "-ngl 999"

MAX_BLOCKS = 2**12

_PATTERN = re.compile(r"blk\.(\d{1,4})\.ffn_\.\+exps=CPU")
_OLD = re.compile(
    r'-ot "blk\\\.\((\d+(?:\|\d+)*)\)\\\.ffn_\(up\|down\|gate\|gate_up\)_\(ch\|\)exps=CPU"(?!\S)'
)
"""What this exporter wrote before, in quotes that only a shell takes off."""


def export(job: Job) -> Exported:
    """Return the flags of a placement, brought to whole layers if it is not of that form.

    Where the first layers are on the CPU, `same_as` says so by ``--n-cpu-moe``.
    """
    plan, loss = placed_whole(job)
    off = plan.off_gpu
    line = f"{ALL_LAYERS} {override(off)}" if off else ALL_LAYERS
    leading = off and off == plan.hidden[: len(off)]
    first = f"{ALL_LAYERS} --n-cpu-moe {off[-1] + 1}" if leading else None
    notes = plan.notes() | {"cpu_layers": list(off)}
    return Exported(f"{line}\n".encode(), lambda _: line, notes, loss, first)


def override(layers: tuple[int, ...]) -> str:
    """Return the flag that keeps the experts of some blocks on the CPU.

    A dot stands for any character, which is unambiguous here: no other block's name has the number
    between two of them. Shared experts are called ``shexp``, without the s.
    """
    return "-ot " + ",".join(f"blk.{layer}.ffn_.+exps=CPU" for layer in layers)


def read_llama_cpp(flags: str) -> list[int]:
    """Return the blocks whose experts the flags keep on the CPU.

    Raises
    ------
    InputError
        If there is an override that `export` does not write.
    """
    if ALL_LAYERS not in flags:
        raise InputError(f"flags: must have {ALL_LAYERS}")
    if count := re.search(r"--n-cpu-moe (\d{1,9})(?!\S)", flags):
        if int(count[1]) > MAX_BLOCKS:
            raise InputError(f"--n-cpu-moe: must be at most {MAX_BLOCKS}, not {count[1]}")
        return list(range(int(count[1])))
    if "-ot" not in flags:
        return []
    if old := _OLD.search(flags):
        return [int(layer) for layer in old[1].split("|")]
    given = re.search(r"-ot (\S+)", flags)
    found = [_PATTERN.fullmatch(part) for part in given[1].split(",")] if given else [None]
    if None in found:
        raise InputError("-ot: is not an override of the experts of some blocks")
    return [int(match[1]) for match in found if match]


TARGETS = (
    Target(
        "llama.cpp",
        "llama.cpp: flags, whole layers",
        ("placement",),
        ".txt",
        export,
        holds="whole layers on the GPU or off it",
        loses="everything finer than a layer",
        names_experts=False,
        start="${LLAMA_SERVER:-llama-server} -m",
    ),
)
