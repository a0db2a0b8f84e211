"""The configuration of TensorRT-LLM's load balancer of experts, with the copies it starts from.

YAML with ``num_slots``, ``layer_updates_per_iter`` (0: the map stays as it is) and
``initial_global_assignments``: by the model's number of each layer with experts, which expert each
slot holds, slots numbered over the devices.
"""

import re
from pathlib import Path

from moeopt.core.errors import InputError
from moeopt.core.untrusted import read_bytes, reading
from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.slots import Row, check_devices, not_followed, slot_map, slot_target
from moeopt.exporters.target import by_class

TARGET = "tensorrt-llm"

LAYER = re.compile(r"^  (\d{1,9}): \[((?:\d{1,9}(?:, *|(?=\])))+)\]$")
"""A layer on a line of its own, as `export` writes it."""

MAX_BYTES = 2**22


def export(job: Job) -> Exported:
    """Return the configuration.

    Raises
    ------
    InputError
        If the number of devices is not given.
    """
    check_devices(job, "over how many devices experts are spread")
    found = slot_map(job, rows_by_layer)
    lines = [f"num_slots: {len(found.rows[0])}", "layer_updates_per_iter: 0"]
    lines.append("initial_global_assignments:")
    lines += [f"  {layer}: {row}" for layer, row in zip(found.hidden, found.rows, strict=True)]
    payload = ("\n".join(lines) + "\n").encode()
    return Exported(payload, None, found.notes, warnings=not_followed("TensorRT-LLM", found))


def needs(job: Job) -> tuple[str, ...]:
    """Return what must stand beside the file, and why the model's class may not take it."""
    config = "moe_config: load_balancer: FILE, with enable_attention_dp: true, which is asserted"
    always = f"TensorRT-LLM reads the file as {config}"
    honoured, name = by_class(TARGET)(job), job.model_class
    if honoured == "no":
        return (always, f"its moe_model_arch_list lacks {name}: the layer raises an error")
    if honoured == "unknown":
        whether = f"whether its moe_model_arch_list has {name or 'the class'} is not known"
        return (always, whether if name else f"{whether}: give --model-class")
    return (always,)


def rows_by_layer(path: Path) -> dict[int, Row]:
    """Return the slots of the layers of a file, by the model's number of the layer.

    Raises
    ------
    InputError
        If it cannot be read, or has no layer on a line of its own.
    """
    with reading(path):
        lines = read_bytes(path, MAX_BYTES).decode().splitlines()
    found = {int(m[1]): m[2].split(",") for line in lines if (m := LAYER.match(line))}
    if not found:
        raise InputError(f"{path}: initial_global_assignments: has no layer on one line")
    return {layer: [int(n) for n in row if n.strip()] for layer, row in found.items()}


TARGETS = (
    slot_target(
        TARGET,
        "TensorRT-LLM: configuration of its load balancer of experts",
        suffix=".yaml",
        export=export,
        honoured=by_class(TARGET),
        warn=needs,
    ),
)
