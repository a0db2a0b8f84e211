"""Physical slots of experts: which expert each slot of a layer holds, as expert maps say it.

Slots are numbered over the devices, each of which has equally many. An expert may have several: a
problem that decides on copies fills `SlotMap` in a case of its own in `slot_map`, and every target
of expert maps writes it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moeopt.errors import InputError
from moeopt.exporters.exported import Job
from moeopt.exporters.placed import placed
from moeopt.exporters.target import Option
from moeopt.problems.json_files import read_object

Row = list[int]

EP_SIZE = Option(
    "ep_size", int, "Devices over which a layer's experts are spread.", default=1, low=1, high=4096
)


@dataclass(frozen=True)
class SlotMap:
    """The experts of all slots.

    Attributes
    ----------
    rows
        Expert of each slot, for each layer with experts; equally many slots in each.
    experts
        Experts of each layer, each of which has at least one slot.
    hidden
        The model's number of each of these layers.
    all_layers
        How many layers the model has.
    devices
        Over which the slots are spread.
    notes
        What the map has no place for.
    keeps_all
        Whether the plan has every expert on a device, as the runtimes of such maps do.
    """

    rows: list[Row]
    experts: int
    hidden: tuple[int, ...]
    all_layers: int
    devices: int
    notes: dict[str, Any]
    keeps_all: bool

    @property
    def copies(self) -> int:
        """Slots of a layer beyond one for each expert."""
        return len(self.rows[0]) - self.experts

    @property
    def by_layer(self) -> list[Row]:
        """The rows of all layers of the model; those without experts count from 0 upwards."""
        slots = len(self.rows[0])
        found = [[slot % self.experts for slot in range(slots)] for _ in range(self.all_layers)]
        for layer, row in zip(self.hidden, self.rows, strict=True):
            found[layer] = row
        return found

    def on_device(self, row: Row) -> list[Row]:
        """Return the experts of a layer's slots, device by device."""
        each = len(row) // self.devices
        return [row[first : first + each] for first in range(0, len(row), each)]


def slot_map(job: Job, devices: int) -> SlotMap:
    """Return the slots of a job's plan.

    Of a placement, the experts chosen for the GPU have the first slots; copies are the fewest that
    make the slots of a layer divide evenly over the devices.
    """
    plan = placed(job)
    copies = redundant(plan.experts, devices)
    return SlotMap(
        [slots_of(own, plan.experts, copies) for own in plan.gpu],
        plan.experts,
        plan.hidden,
        plan.all_layers,
        devices,
        plan.notes(),
        not plan.off_gpu,
    )


def redundant(experts: int, devices: int) -> int:
    """Return the fewest copies that make the slots of a layer divide evenly over the devices."""
    return -experts % devices


def slots_of(gpu: Sequence[int], experts: int, copies: int) -> Row:
    """Return the experts of a layer's slots: the GPU's, then the others, then copies.

    Both parts rise. Copies are of the first slots: what is on the GPU anyway.
    """
    first = sorted(gpu)
    row = first + sorted(set(range(experts)) - set(first))
    return row + [row[place % experts] for place in range(copies)]


def all_on_gpus(name: str, found: SlotMap) -> tuple[str, ...]:
    """Return the warning for a plan with experts off the GPU, which these runtimes do not know."""
    if found.keeps_all:
        return ()
    ignored = f"{name} keeps all experts on GPUs: of this plan it takes the order of slots only"
    return (f"{ignored}; how many slots of a layer are the GPU's stands in the notes",)


def gpu_of(row: Sequence[int], count: int) -> tuple[int, ...]:
    """Return what `slots_of` was made from: the experts of the first `count` slots."""
    return tuple(sorted(row[:count]))


def read_rows(data: Any, where: str) -> list[Row]:
    """Return a list of equally long lists of integers as it stands in a file."""
    good = isinstance(data, list) and data and all(isinstance(row, list) and row for row in data)
    if not good or any(type(slot) is not int or slot < 0 for row in data for slot in row):
        raise InputError(f"{where}: must be lists of experts")
    if len({len(row) for row in data}) > 1:
        raise InputError(f"{where}: must have equally many slots in every layer")
    rows: list[Row] = data
    return rows


def read_counts(notes: Path, layers: int) -> list[int]:
    """Return how many slots of each of these layers are on the GPU, from the side file."""
    counts = read_object(notes).get("per_layer")
    if not isinstance(counts, list) or any(type(n) is not int or n < 0 for n in counts):
        raise InputError(f"{notes}: per_layer: must be a list of counts")
    if len(counts) != layers:
        raise InputError(f"{notes}: per_layer: has {len(counts)} entries, the map {layers} layers")
    return counts


def as_json(data: Any) -> bytes:
    """Return JSON, compact, on one line."""
    return (json.dumps(data) + "\n").encode()
