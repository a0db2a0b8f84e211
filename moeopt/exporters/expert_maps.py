"""Files of expert maps: all layers of expert parallelism, as a runtime reads them.

- ``sglang``: ``--init-expert-location``, see `moeopt.exporters.targets.sglang`.
- ``vllm-ascend``: the static map that vLLM's plug-in for Ascend NPUs reads with
  ``expert_map_path``: for each layer with experts, the experts of each device in the order of their
  slots. vLLM itself reads no map.
- ``tensorrt-llm``: the YAML of its load balancer: by the model's number of each layer with experts,
  the expert of each slot; ``layer_updates_per_iter: 0`` keeps the map as it is.
"""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from moeopt.core.wording import unknown_name
from moeopt.exporters.exported import Exported
from moeopt.exporters.slots import SlotMap, as_json, by_device
from moeopt.exporters.targets.sglang import dropped, written


def of_vllm_ascend(found: SlotMap) -> Exported:
    """Return the map for vllm-ascend."""
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

    only = "vLLM itself reads no map: the file is for its plug-in vllm-ascend"
    return Exported(as_json(file), flags, found.notes, warnings=(only,))


def of_tensorrt_llm(found: SlotMap) -> Exported:
    """Return the configuration of TensorRT-LLM's load balancer."""
    lines = [f"num_slots: {len(found.rows[0])}", "layer_updates_per_iter: 0"]
    lines.append("initial_global_assignments:")
    lines += [f"  {layer}: {row}" for layer, row in zip(found.hidden, found.rows, strict=True)]
    config = "moe_config: load_balancer: FILE, with enable_attention_dp: true, which it asserts"
    said = f"TensorRT-LLM reads the file as {config}"
    return Exported(("\n".join(lines) + "\n").encode(), None, found.notes, warnings=(said,))


WRITERS: dict[str, Callable[[SlotMap], Exported]] = {
    "sglang": written,
    "vllm-ascend": of_vllm_ascend,
    "tensorrt-llm": of_tensorrt_llm,
}
"""Runtime -> what writes a map for it."""


def known_map(to: str) -> None:
    """Raise InputError unless there is a map for a runtime."""
    if to not in WRITERS:
        raise unknown_name("--to", to, WRITERS)


def expert_map(found: SlotMap, to: str, model_class: str | None = None) -> Exported:
    """Return the file of a map for a runtime of `WRITERS`, with warnings by the model's class.

    Raises
    ------
    InputError
        If there is no such runtime.
    """
    known_map(to)
    made = WRITERS[to](found)
    if to != "sglang" or model_class is None:
        return made
    return replace(made, warnings=(*dropped(model_class), *made.warnings))
