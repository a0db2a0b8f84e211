"""vLLM's offline EPLB map, as the plug-in reads it that keeps maps of several models in a file.

``model_maps`` holds, by the model's class, ``physical_to_logical_map`` [layer with experts, slot]
with what describes it. Layers without experts have no rows. The slots of the experts chosen for the
GPU come first, as for SGLang. An endless ``step_interval`` keeps vLLM from changing the map later.
"""

import json
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

VERSION = 2
FORMAT = "vllm_offline_eplb_physical_to_logical_by_model"
KEY = "physical_to_logical_map"
NEVER = 10**9
"""Steps between two rearrangements."""


def export(job: Job) -> Exported:
    """Return the map of a placement.

    Raises
    ------
    InputError
        If the model's class is not known.
    """
    plan = placed(job)
    if job.model_class is None:
        example = "e.g. DeepseekV2ForCausalLM"
        raise InputError(f"--model-class: is missing: vLLM's class of the model, {example}")
    copies = redundant(plan.experts, job.ep_size)
    rows = [slots_of(own, plan.experts, copies) for own in plan.gpu]
    entry = {
        "record_kind": "proposal",
        "model_name": job.shape.name if job.shape else job.model_class,
        "model_class": job.model_class,
        "num_moe_layers": len(rows),
        "num_logical_experts": plan.experts,
        "num_physical_experts": plan.experts + copies,
        "num_redundant_experts": copies,
        KEY: rows,
    }
    file = {"version": VERSION, "format": FORMAT, "model_maps": {job.model_class: entry}}

    def flags(path: Path) -> str:
        config = {
            "expert_map_path": str(path),
            "num_redundant_experts": copies,
            "step_interval": NEVER,
        }
        quoted = shlex.quote(json.dumps(config))
        return f"--enable-expert-parallel --enable-eplb --eplb-config {quoted}"

    notes = plan.notes() | {"per_layer": [len(own) for own in plan.gpu]}
    return Exported(as_json(file), flags, notes)


def read_vllm_map(path: Path, model_class: str) -> list[tuple[int, ...]]:
    """Return the GPU experts of each layer with experts, from an exported map and its side file."""
    data = read_object(path)
    maps = data.get("model_maps")
    entry = maps.get(model_class) if isinstance(maps, dict) else None
    if data.get("format") != FORMAT or not isinstance(entry, dict):
        raise InputError(f"{path}: model_maps: has no map of {model_class}")
    rows = read_rows(entry.get(KEY), f"{path}: {KEY}")
    counts = read_counts(path.with_name(path.name + NOTES_SUFFIX), len(rows))
    return [gpu_of(row, count) for row, count in zip(rows, counts, strict=True)]
