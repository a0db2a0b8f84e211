"""Where the copies of a layer lie now, by a runtime's map: what problem replication starts from."""

from pathlib import Path

from moeopt.core.errors import InputError
from moeopt.core.json_files import read_object
from moeopt.core.wording import shown
from moeopt.exporters.slots import Row, by_device, copies_of
from moeopt.exporters.targets import sglang, vllm
from moeopt.problems.replication.instance import Copies


def read_copies(path: str | Path, layer: int, devices: int, experts: int) -> Copies:
    """Return where the copies of a layer lie by a runtime's map: what `Instance.current` takes.

    Parameters
    ----------
    path
        A map of SGLang or vllm-ascend.
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
    rows = _rows(file)
    if layer not in rows:
        raise InputError(f"{file}: has no layer {layer}")
    row = rows[layer]
    if len(row) % devices:
        raise InputError(f"{file}: layer {layer}: {len(row)} slots for {devices} devices")
    if wrong := [expert for expert in row if expert >= experts]:
        said = f"there is no expert {shown(wrong[0])} of {experts}"
        raise InputError(f"{file}: layer {layer}: {said}")
    return copies_of(by_device(row, devices), experts)


def _rows(file: Path) -> dict[int, Row]:
    """Return the slots of the layers, by the format's own number of each."""
    if sglang.KEY in read_object(file):
        return sglang.rows_by_layer(file)
    layers = vllm.read_vllm_ascend_rows(file)
    return {number: [e for own in row for e in own] for number, row in enumerate(layers)}
