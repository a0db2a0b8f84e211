"""llama.cpp's flags: all layers on the GPU, but the routed experts of some kept on the CPU.

``-ot PATTERN=CPU`` keeps the tensors on the CPU whose names the regular expression finds; a layer's
experts are one tensor for each of up, down and gate (or the last two in one), so that only whole
layers can be chosen. ``--n-cpu-moe N`` does so for the first N blocks; blocks without experts count
and have nothing to keep.
"""

import re

from moeopt.errors import InputError
from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.placed import placed_whole

ALL_LAYERS = "-ngl 999"
_TENSORS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
_PATTERN = re.compile(r'-ot "blk\\\.\((\d+(?:\|\d+)*)\)' + re.escape(_TENSORS) + r'=CPU"(?!\S)')


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
    """Return the flag that keeps the experts of some blocks on the CPU."""
    return f'-ot "blk\\.({"|".join(map(str, layers))}){_TENSORS}=CPU"'


def read_llama_cpp(flags: str) -> list[int]:
    """Return the blocks whose experts the flags keep on the CPU.

    Raises
    ------
    InputError
        If there is an override that `export` does not write.
    """
    if ALL_LAYERS not in flags:
        raise InputError(f"flags: must have {ALL_LAYERS}")
    if count := re.search(r"--n-cpu-moe (\d+)(?!\S)", flags):
        return list(range(int(count[1])))
    if "-ot" not in flags:
        return []
    match = _PATTERN.search(flags)
    if match is None:
        raise InputError("-ot: is not an override of the experts of some blocks")
    return [int(layer) for layer in match[1].split("|")]
