"""Requirements of SGLang on a map from physical slots to experts."""

from typing import Any


def sglang_faults(data: Any, all_layers: int, experts: int, ep_size: int) -> list[str]:
    """Return what `--init-expert-location` would stumble over.

    Exactly the one key; a row per layer of the model, dense ones included; as many slots in each,
    a multiple of the devices; every expert in every row.
    """
    if set(data) != {"physical_to_logical_map"}:
        return ["keys"]
    return map_faults(data["physical_to_logical_map"], all_layers, experts, ep_size)


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
