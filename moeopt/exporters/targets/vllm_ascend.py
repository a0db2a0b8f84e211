"""The static expert map of vllm-ascend, vLLM's plug-in for Ascend NPUs.

``layer_list`` has, for each layer with experts, which experts each device holds, in the order of
their slots. It is read with ``expert_map_path`` in the ``eplb_config`` of ``--additional-config``,
only for files called ``.json``, by vLLM's first model runner, and with two devices at least: for
one there is nothing to place, and the map is dropped.
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
    check_devices,
    experts_in,
    not_followed,
    slot_map,
    slot_target,
)


def export(job: Job) -> Exported:
    """Return the map of a plan.

    Raises
    ------
    InputError
        If the number of devices is not given.
    """
    check_devices(job, "with one device vllm-ascend drops the map")

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
        "vllm-ascend",
        "vllm-ascend: expert_map_path",
        suffix=".json",
        export=export,
        loses="which experts are off the NPU: it keeps all of them on NPUs",
        strict_suffix=True,
        options=(replace(EP_SIZE, low=2), REDUNDANT, ONTO),
        honoured=lambda _: "unknown",
        start='"${VLLM:-vllm}" serve',
    ),
)
