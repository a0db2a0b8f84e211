"""What SGLang and the vLLM plug-in ask of a map from physical slots to experts."""

from typing import Any

PLUGIN_KEYS = {
    "record_kind", "model_name", "model_class", "num_moe_layers", "num_logical_experts",
    "num_physical_experts", "num_redundant_experts", "physical_to_logical_map",
}  # fmt: skip


def sglang_faults(data: Any, all_layers: int, experts: int, ep_size: int) -> list[str]:
    """Return what `--init-expert-location` would stumble over.

    Exactly the one key; a row per layer of the model, dense ones included; as many slots in each,
    a multiple of the devices; every expert in every row.
    """
    if set(data) != {"physical_to_logical_map"}:
        return ["keys"]
    return map_faults(data["physical_to_logical_map"], all_layers, experts, ep_size)


def vllm_faults(
    data: Any, model_class: str, moe_layers: int, experts: int, ep_size: int
) -> list[str]:
    """Return what the plug-in would stumble over: version 2, the model's class, rows per MoE layer.

    The figures beside the map must be those of the map.
    """
    if data.get("version") != 2:
        return ["version"]
    if data.get("format") != "vllm_offline_eplb_physical_to_logical_by_model":
        return ["format"]
    entry = data["model_maps"].get(model_class)
    if entry is None or set(entry) != PLUGIN_KEYS:
        return ["model_maps"]
    rows = entry["physical_to_logical_map"]
    figures = {
        "num_moe_layers": len(rows),
        "num_logical_experts": experts,
        "num_physical_experts": len(rows[0]),
        "num_redundant_experts": len(rows[0]) - experts,
        "model_class": model_class,
    }
    wrong = [name for name, value in figures.items() if entry[name] != value]
    return wrong + map_faults(rows, moe_layers, experts, ep_size)


def ascend_experts(data: Any, layer: int, experts: int) -> tuple[list[list[int]], int]:
    """Return the experts of each device, and the copies, as vllm-ascend takes them of a layer.

    It asks for the number of layers with experts, then for the experts of each device, equally
    many, of which it makes a tensor; what is beyond one slot for each expert counts as copies.
    """
    assert layer < data["moe_layer_count"] == len(data["layer_list"])
    rows = [device["device_expert"] for device in data["layer_list"][layer]["device_list"]]
    assert len({len(row) for row in rows}) == 1
    assert all(len(set(row)) == len(row) for row in rows)
    return rows, sum(map(len, rows)) - experts


def map_faults(rows: Any, layers: int, experts: int, ep_size: int) -> list[str]:
    """Return what is wrong with a map as such."""
    found = [] if len(rows) == layers else ["layers"]
    slots = len(rows[0])
    for row in rows:
        if len(row) != slots or slots < experts or slots % ep_size:
            found.append("slots")
        if any(type(e) is not int or not 0 <= e < experts for e in row):
            found.append("range")
        if set(row) != set(range(experts)):
            found.append("missing")
    return found
