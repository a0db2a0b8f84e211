"""Expert maps for vLLM's plug-ins; vLLM itself reads none.

The offline map of vllm-plugin-das, HYGON's plug-in: ``model_maps`` holds, by the model's class,
``physical_to_logical_map`` [layer with experts, slot] with what describes it. vLLM sends a token to
the copy that its place in the batch says, modulo the copies: evenly. Layers without experts have no
rows. On one device the slots of the experts chosen for the GPU come first, as for SGLang. An
endless ``step_interval`` keeps vLLM from changing the map later.

The static map of vllm-ascend, the plug-in for Ascend NPUs: ``layer_list`` has, for each layer with
experts, which experts each device holds, in the order of their slots. It is read with
``expert_map_path`` in the ``eplb_config`` of ``--additional-config``, only for files called
``.json``, by vLLM's first model runner, and with two devices at least: for one there is nothing to
place, and the map is dropped.
"""

import json
import shlex
from dataclasses import replace
from itertools import chain
from pathlib import Path

from moeopt.core.errors import InputError
from moeopt.core.json_files import read_object
from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.slots import (
    EP_SIZE,
    ONTO,
    REDUNDANT,
    Row,
    as_json,
    by_device,
    by_moe_layer,
    experts_in,
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


def export_ascend(job: Job) -> Exported:
    """Return the map of a plan.

    Raises
    ------
    InputError
        If the number of devices is not given.
    """
    if job.number("ep_size") is None and job.instance.problem == "placement":
        raise InputError("--ep-size: is missing: with one device vllm-ascend drops the map")

    def rows_of(path: Path) -> dict[int, Row]:
        rows = [list(chain(*row)) for row in read_vllm_ascend_rows(path)]
        return by_moe_layer(job, rows, path)

    found = slot_map(job, rows_of)
    layers = [by_device(row, found.devices) for row in found.rows]
    file = {
        "moe_layer_count": len(layers),
        "layer_list": [
            {
                "layer_id": number,
                "device_count": found.devices,
                "device_list": [
                    {"device_id": device, "device_expert": own} for device, own in enumerate(row)
                ],
            }
            for number, row in enumerate(layers)
        ],
    }

    def flags(path: Path) -> str:
        config = {"eplb_config": {"expert_map_path": str(path)}}
        return f"--enable-expert-parallel --additional-config {shlex.quote(json.dumps(config))}"

    notes = found.notes | {"per_layer": found.per_moe_layer}
    return Exported(as_json(file), flags, notes, warnings=not_followed("vllm-ascend", found))


def read_vllm_ascend_rows(path: Path) -> list[list[list[int]]]:
    """Return the experts of each layer's devices, in the order of their slots.

    Raises
    ------
    InputError
        If the file is no such map; one line with file, field and reason.
    """
    data = read_object(path)
    layers = data.get("layer_list")
    if not isinstance(layers, list) or data.get("moe_layer_count") != len(layers) or not layers:
        raise InputError(f"{path}: layer_list: must be the moe_layer_count layers")
    rows = [_row(layer, f"{path}: layer_list[{number}]") for number, layer in enumerate(layers)]
    if len({(len(row), len(own)) for row in rows for own in row}) > 1:
        raise InputError(f"{path}: layer_list: every device must have equally many experts")
    return rows


def _row(layer: object, where: str) -> list[list[int]]:
    devices = layer.get("device_list") if isinstance(layer, dict) else None
    if not isinstance(devices, list) or not devices:
        raise InputError(f"{where}.device_list: must be a list of devices")
    found = []
    for number, device in enumerate(devices):
        own = device.get("device_expert") if isinstance(device, dict) else None
        if not experts_in(own):
            reason = "must be a list of experts"
            raise InputError(f"{where}.device_list[{number}].device_expert: {reason}")
        found.append(own)
    return found


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
    slot_target(
        "vllm-ascend",
        "vllm-ascend: expert_map_path",
        suffix=".json",
        export=export_ascend,
        loses="which experts are off the NPU: it keeps all of them on NPUs",
        strict_suffix=True,
        options=(replace(EP_SIZE, low=2), REDUNDANT, ONTO),
        honoured=lambda _: "unknown",
        start='"${VLLM:-vllm}" serve',
    ),
)
