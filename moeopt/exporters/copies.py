"""Copies of experts over devices: a layer's slots, by a plan or by load, and as a map has them now.

Three formats say which expert each slot of each layer holds, slots numbered over the devices:
SGLang's ``physical_to_logical_map``, vllm-ascend's ``layer_list`` and TensorRT-LLM's YAML. Runtimes
leave no slot empty: `full_slots` fills those that a plan does not use, each with the copy that
leaves the least peak.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moeopt.errors import InputError
from moeopt.problems.json_files import read_object
from moeopt.problems.replication.bounds import lower_bound
from moeopt.problems.replication.check import objective
from moeopt.problems.replication.heuristics import eplb
from moeopt.problems.replication.instance import MAX_COPIES, Copies, Instance
from moeopt.problems.replication.solution import Solution
from moeopt.solvers.run import solve

METHOD, ENOUGH_GAP = "anneal-and-refute", 0.01
"""Decides which experts get copies, to within this of the bound."""

MAP_S = 2.0
"""Most seconds for all layers of a map: some ten million changes of their copies."""

Slots = list[list[int]]
"""The experts of each device, one for each slot."""

_ASSIGNED = re.compile(r"^  (\d+): \[([\d, ]*)\]$")
"""A layer on a line of its own, as the target writes it."""

MAX_BYTES = 2**26
"""Of a file of TensorRT-LLM."""


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


def by_load(
    tokens: Sequence[int], devices: int, slots: int, time_limit_s: float
) -> tuple[Slots, float, float]:
    """Return the experts of each device that balance a layer's tokens best.

    Parameters
    ----------
    tokens
        Of each expert, shape (experts,); they are shared out evenly over its copies.
    devices, slots
        Devices, and slots of each, together at least one for each expert.
    time_limit_s
        For one layer; a part of `MAP_S`.

    Returns
    -------
    tuple
        The slots, the tokens of the fullest device, and a lower bound on them.
    """
    layer = Instance.from_arrays(
        loads=[list(tokens)],
        devices=devices,
        slots=slots,
        max_copies=min(devices, MAX_COPIES),
        name="layer",
    )
    found = solve(layer, METHOD, time_limit_s=time_limit_s, enough_gap=ENOUGH_GAP)
    solution = found.solution or eplb(layer)  # nothing yet: the kernel is being compiled, say
    bound = found.bound if isinstance(found.bound, int) else lower_bound(layer)
    if not isinstance(solution, Solution):
        raise InputError(f"--ep-size: no placement on {devices} devices of {slots} slots")
    held = full_slots(layer, solution)
    rows = tuple(
        tuple(d for d in range(devices) if expert in held[d]) for expert in range(len(tokens))
    )
    peak = objective(layer, Solution(instance="layer", copies=rows))
    return held, peak / layer.units_per_token, bound / layer.units_per_token


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
    yaml = file.suffix in (".yaml", ".yml")
    row = _of_layer(rows_of_yaml(file), file, layer) if yaml else _row(file, layer)
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


def rows_of_yaml(file: Path) -> dict[int, list[int]]:
    """Return the slots of the layers of TensorRT-LLM's file, by the model's number of the layer.

    Raises
    ------
    InputError
        If it cannot be read, or has no layer on a line of its own.
    """
    try:
        if file.stat().st_size > MAX_BYTES:
            raise InputError(f"{file}: must be at most {MAX_BYTES} bytes")
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read: {error}") from None
    found = {int(m[1]): m[2].split(",") for line in lines if (m := _ASSIGNED.match(line))}
    if not found:
        raise InputError(f"{file}: initial_global_assignments: has no layer on one line")
    return {
        layer: [int(number) for number in row if number.strip()] for layer, row in found.items()
    }


def _of_layer(rows: dict[int, list[int]], file: Path, layer: int) -> list[int]:
    if layer not in rows:
        raise InputError(f"{file}: has no layer {layer}")
    return rows[layer]
