"""Maps from physical slots to experts for vLLM's plug-in; vLLM itself reads none.

The offline map of vllm-plugin-das, HYGON's plug-in for vLLM: ``model_maps`` holds, by the model's
class, ``physical_to_logical_map`` [layer with experts, slot] with what describes it. vLLM sends a
token to the copy that its place in the batch says, modulo the copies: evenly.

Layers without experts have no rows. On one device the slots of the experts chosen for the GPU come
first, as for SGLang. An endless ``step_interval`` keeps vLLM from changing the map later.
"""

import json
import shlex
from pathlib import Path

from moeopt.core.errors import InputError
from moeopt.core.json_files import read_object
from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.slots import (
    Row,
    as_json,
    by_moe_layer,
    not_followed,
    read_rows,
    slot_map,
    slot_target,
)

VERSION = 2
FORMAT = "vllm_offline_eplb_physical_to_logical_by_model"
KEY = "physical_to_logical_map"
NEVER = 10**9
"""Steps between two rearrangements."""


def export(job: Job) -> Exported:
    """Return the map of a plan.

    Raises
    ------
    InputError
        If the model's class is not known.
    """
    model_class = job.model_class
    if model_class is None:
        example = "e.g. DeepseekV2ForCausalLM"
        raise InputError(f"--model-class: is missing: vLLM's class of the model, {example}")
    found = slot_map(job, lambda path: by_moe_layer(job, _rows(path, model_class), path))
    entry = {
        "record_kind": "proposal",
        "model_name": job.shape.name if job.shape else job.model_class,
        "model_class": job.model_class,
        "num_moe_layers": len(found.rows),
        "num_logical_experts": found.experts,
        "num_physical_experts": found.experts + found.copies,
        "num_redundant_experts": found.copies,
        KEY: found.rows,
    }
    file = {"version": VERSION, "format": FORMAT, "model_maps": {job.model_class: entry}}

    return Exported(
        as_json(file),
        lambda path: _flags(path, found.copies),
        {**found.notes, "per_layer": found.per_moe_layer},
        warnings=not_followed("vLLM", found),
    )


def _flags(path: Path, copies: int) -> str:
    config = {"expert_map_path": str(path), "num_redundant_experts": copies}
    quoted = shlex.quote(json.dumps(config | {"step_interval": NEVER}))
    return f"--enable-expert-parallel --enable-eplb --eplb-config {quoted}"


def needs_the_plugin(job: Job) -> tuple[str, ...]:
    """Return that vLLM alone refuses the flags."""
    return ("vLLM alone refuses these flags: the file is for its plug-in vllm-plugin-das",)


def _rows(path: Path, model_class: str) -> list[Row]:
    data = read_object(path)
    maps = data.get("model_maps")
    entry = maps.get(model_class) if isinstance(maps, dict) else None
    if data.get("format") != FORMAT or not isinstance(entry, dict):
        raise InputError(f"{path}: model_maps: has no map of {model_class}")
    return read_rows(entry.get(KEY), f"{path}: {KEY}")


TARGETS = (
    slot_target(
        "vllm-eplb",
        "vllm-plugin-das, HYGON's plug-in for vLLM: offline EPLB map",
        suffix=".json",
        export=export,
        warn=needs_the_plugin,
        honoured=lambda _: "unknown",
        start='"${VLLM:-vllm}" serve',
    ),
)
