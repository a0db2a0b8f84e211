"""Copies of a layer that an SGLang server has now: what problem replication starts from."""

from pathlib import Path

from moeopt.core.errors import InputError
from moeopt.core.wording import shown
from moeopt.exporters.slots import by_device, copies_of
from moeopt.exporters.targets.sglang import rows_by_layer
from moeopt.problems.replication.instance import Copies


def read_copies(path: str | Path, layer: int, devices: int, experts: int) -> Copies:
    """Return where the copies of a layer lie by a map of SGLang: what `Instance.current` takes.

    Parameters
    ----------
    path
        A map, as `--init-expert-location` takes it.
    layer
        The layer's number among all layers of the model.
    devices, experts
        Over which the slots are spread, and experts of the layer.

    Raises
    ------
    InputError
        If the file is no such map, or has other experts or devices; one line with the reason.
    """
    file = Path(path)
    rows = rows_by_layer(file)
    if layer not in rows:
        raise InputError(f"has no layer {layer}", where=file)
    row = rows[layer]
    if len(row) % devices:
        raise InputError(f"layer {layer}: {len(row)} slots for {devices} devices", where=file)
    if wrong := [expert for expert in row if expert >= experts]:
        said = f"there is no expert {shown(wrong[0])} of {experts}"
        raise InputError(f"layer {layer}: {said}", where=file)
    return copies_of(by_device(row, devices), experts)
