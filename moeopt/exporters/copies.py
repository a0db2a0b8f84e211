"""Placements of copies as the expert maps of runtimes, written and read.

Three formats say which expert each slot of each layer holds, slots numbered over the devices:

- SGLang's ``--init-expert-location``: ``physical_to_logical_map``, a row of experts for every layer
  of the model.
- vllm-ascend's ``expert_map_path``: for each layer the experts of each device.
- TensorRT-LLM's load balancer: YAML with ``num_slots``, ``layer_updates_per_iter`` (0: the map
  stays) and ``initial_global_assignments``, by layer.

A solution is one layer: a map takes one for each layer. Runtimes leave no slot empty; `full_slots`
fills those that a placement does not use, each with the copy that leaves the least peak.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from moeopt.errors import InputError
from moeopt.problems.json_files import read_object
from moeopt.problems.replication.check import objective
from moeopt.problems.replication.instance import Copies, Instance
from moeopt.problems.replication.solution import Solution

Slots = list[list[int]]
"""The experts of each device, one for each slot."""

_ASSIGNED = re.compile(r"^  (\d+): \[([\d, ]*)\]$")


def full_slots(instance: Instance, solution: Solution) -> Slots:
    """Return the expert in every slot of every device.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Raises
    ------
    InputError
        If a slot stays empty because its device has a copy of every expert that it may hold.
    """
    rows = [list(row) for row in solution.copies]
    for device in range(instance.devices):
        while sum(device in row for row in rows) < instance.slots:
            rows = _filled(instance, rows, device)
    return [
        [expert for expert, row in enumerate(rows) if device in row]
        for device in range(instance.devices)
    ]


def _filled(instance: Instance, rows: list[list[int]], device: int) -> list[list[int]]:
    """Return the copies with one more on a device: of its node's experts, the best one."""
    node = device // instance.devices_per_node
    best: tuple[int, list[list[int]]] | None = None
    for expert, row in enumerate(rows):
        elsewhere = instance.nodes > 1 and row[0] // instance.devices_per_node != node
        if device in row or elsewhere or len(row) >= instance.max_copies:
            continue
        more = [*rows[:expert], [*row, device], *rows[expert + 1 :]]
        made = Solution(instance=instance.name, copies=tuple(map(tuple, more)))
        value = objective(instance, made)
        if best is None or value < best[0]:
            best = value, more
    if best is None:
        raise InputError(f"copies: device {device} has a slot that no further copy may fill")
    return best[1]


def sglang(layers: Mapping[int, Slots], all_layers: int, experts: int) -> bytes:
    """Return SGLang's map; layers that are not given hold the experts in turn.

    Parameters
    ----------
    layers
        Number of the layer in the model -> its slots.
    all_layers, experts
        Layers of the model, with and without experts, and experts of a layer.
    """
    slots = _slots(layers)
    rows = [[slot % experts for slot in range(slots)] for _ in range(all_layers)]
    for layer, of_device in layers.items():
        rows[layer] = [expert for held in of_device for expert in held]
    return _as_json({"physical_to_logical_map": rows})


def vllm_ascend(layers: Mapping[int, Slots]) -> bytes:
    """Return vllm-ascend's map of the layers with experts, in rising order."""
    _slots(layers)
    listed = [
        {
            "layer_id": number,
            "device_count": len(layers[layer]),
            "device_list": [
                {"device_id": device, "device_expert": held}
                for device, held in enumerate(layers[layer])
            ],
        }
        for number, layer in enumerate(sorted(layers))
    ]
    return _as_json({"moe_layer_count": len(listed), "layer_list": listed})


def tensorrt_llm(layers: Mapping[int, Slots]) -> bytes:
    """Return the configuration of TensorRT-LLM's load balancer, which then moves no copies."""
    lines = [f"num_slots: {_slots(layers)}", "layer_updates_per_iter: 0"]
    lines.append("initial_global_assignments:")
    for layer in sorted(layers):
        row = [expert for held in layers[layer] for expert in held]
        lines.append(f"  {layer}: {row}")
    return ("\n".join(lines) + "\n").encode()


def read_copies(path: str | Path, layer: int, devices: int, experts: int) -> Copies:
    """Return where the copies of a layer lie by a runtime's map: what `Instance.current` takes.

    Parameters
    ----------
    path
        A map of one of the three formats: ``.json``, or ``.yaml`` of TensorRT-LLM.
    layer
        The layer's number as the format counts: vllm-ascend counts those with experts only.
    devices, experts
        Over which the slots are spread, and experts of the layer.

    Raises
    ------
    InputError
        If the file is no such map, or has other experts or devices; one line with the reason.
    """
    file = Path(path)
    row = _row_of_yaml(file, layer) if file.suffix in (".yaml", ".yml") else _row(file, layer)
    if not row or len(row) % devices:
        raise InputError(f"{file}: layer {layer}: {len(row)} slots for {devices} devices")
    if wrong := [e for e in row if type(e) is not int or not 0 <= e < experts]:
        raise InputError(f"{file}: layer {layer}: there is no expert {wrong[0]!r} of {experts}")
    each = len(row) // devices
    copies: list[list[int]] = [[] for _ in range(experts)]
    for slot, expert in enumerate(row):
        if slot // each not in copies[expert]:
            copies[expert].append(slot // each)
    return tuple(map(tuple, copies))


def _row(file: Path, layer: int) -> list[Any]:
    data = read_object(file)
    rows = data.get("physical_to_logical_map")
    if rows is None:
        listed = data.get("layer_list")
        if not isinstance(listed, list):
            raise InputError(f"{file}: must have physical_to_logical_map or layer_list")
        rows = [_joined(of_layer) for of_layer in listed]
    if not isinstance(rows, list) or not 0 <= layer < len(rows):
        raise InputError(f"{file}: has no layer {layer}")
    row = rows[layer]
    if not isinstance(row, list):
        raise InputError(f"{file}: layer {layer}: must be a list of experts")
    return row


def _joined(of_layer: Any) -> list[Any] | None:
    """Return the experts of a vllm-ascend layer in the order of the slots; None if it is odd."""
    try:
        return [e for device in of_layer["device_list"] for e in device["device_expert"]]
    except (KeyError, TypeError):
        return None


def _row_of_yaml(file: Path, layer: int) -> list[Any]:
    """Return a layer's slots from flat YAML, as `tensorrt_llm` writes it: one line per layer."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None
    rows = {int(m[1]): m[2] for line in lines if (m := _ASSIGNED.match(line))}
    if layer not in rows:
        raise InputError(f"{file}: initial_global_assignments: has no layer {layer} on one line")
    return [int(number) for number in rows[layer].split(",") if number.strip()]


def _slots(layers: Mapping[int, Sequence[Sequence[int]]]) -> int:
    """Return how many slots each layer has; runtimes want equally many everywhere."""
    lengths = {(len(devices), len(held)) for devices in layers.values() for held in devices}
    if len(lengths) != 1:
        raise InputError("layers: every device of every layer must have equally many slots")
    [(devices, each)] = lengths
    return devices * each


def _as_json(data: Any) -> bytes:
    return (json.dumps(data) + "\n").encode()
