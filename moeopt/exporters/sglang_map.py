"""SGLang's ``--init-expert-location``: which expert each physical slot of each layer holds.

The file is one object with the one key ``physical_to_logical_map`` [layer, slot]: its loader hands
every key on as an argument, so that any other one is an error. Layers without experts have rows,
too. Slots are numbered over the devices, each of which has equally many; every expert has a slot.

SGLang keeps all of them on GPUs. What of the placement it can hold is the order: the experts chosen
for the GPU have the first slots. How many these are, ``per_layer``, stands in the side file.
"""

import shlex
from pathlib import Path

from moeopt.errors import InputError
from moeopt.exporters.exported import NOTES_SUFFIX, Exported, Job
from moeopt.exporters.placed import placed
from moeopt.exporters.slots import (
    as_json,
    gpu_of,
    read_counts,
    read_rows,
    redundant,
    slots_of,
)
from moeopt.problems.json_files import read_object

KEY = "physical_to_logical_map"


def export(job: Job) -> Exported:
    """Return the map of a placement."""
    plan = placed(job)
    copies = redundant(plan.experts, job.ep_size)
    rows = [slots_of((), plan.experts, copies) for _ in range(plan.all_layers)]
    for layer, own in zip(plan.hidden, plan.gpu, strict=True):
        rows[layer] = slots_of(own, plan.experts, copies)

    def flags(path: Path) -> str:
        line = f"--init-expert-location {shlex.quote(str(path))}"
        line += f" --ep-size {job.ep_size}" if job.ep_size > 1 else ""
        return line + (f" --ep-num-redundant-experts {copies}" if copies else "")

    return Exported(as_json({KEY: rows}), flags, plan.notes())


def read_sglang_map(path: Path) -> list[tuple[int, ...]]:
    """Return the GPU experts of each layer with experts, from an exported map and its side file."""
    rows = read_rows(read_object(path).get(KEY), f"{path}: {KEY}")
    notes = path.with_name(path.name + NOTES_SUFFIX)
    counts = read_counts(notes, len(rows))
    layers = read_object(notes).get("moe_layers")
    if not isinstance(layers, list) or any(
        type(la) is not int or not 0 <= la < len(rows) for la in layers
    ):
        raise InputError(f"{notes}: moe_layers: must be a list of layers")
    return [gpu_of(rows[layer], counts[layer]) for layer in layers]
