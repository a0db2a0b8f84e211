"""Physical slots of experts: which expert each slot of a layer holds, as expert maps say it.

Slots are numbered over the devices, each of which has equally many. An expert may have several: by
a plan of the problem replication, or where a placement is spread over several devices. Every target
of expert maps writes what `slot_map` returns.

The experts in a layer's slots are those of a plan, or go by load. Runtimes leave no slot empty:
`full_slots` fills those that a plan does not use, each with the copy that leaves the least peak.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

from moeopt.core.errors import InputError
from moeopt.core.wording import shown
from moeopt.problems.placement.instance import Instance as Placement
from moeopt.problems.replication.bounds import lower_bound
from moeopt.problems.replication.check import device_loads, objective, peaks_units
from moeopt.problems.replication.heuristics import eplb
from moeopt.problems.replication.instance import MAX_COPIES, Copies, Instance, Solution
from moeopt.solvers.arguments import DEFAULT_TIME_LIMIT_S, Limits
from moeopt.solvers.run import solve

from .exported import Job
from .plans import hidden_layers, known_shape, placed
from .target import Option

METHOD, ENOUGH_GAP = "anneal-and-refute", 0.01
"""Decides which experts get copies, to within this of the bound."""

MAP_WORK = 2.0
"""Units of work for all layers of a map, unless others are asked for: the same map everywhere."""

Slots = list[list[int]]
"""The experts of each device, one for each slot."""


def full_slots(instance: Instance, solution: Solution) -> Slots:
    """Return the expert in every slot of every device.

    What fills an empty slot is best with tokens shared out evenly over copies, as runtimes do.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Raises
    ------
    InputError
        If a slot stays empty because its device has a copy of every expert that it may hold.
    """
    instance = instance.model_copy(update={"split": "even"})
    rows = [list(row) for row in solution.copies]
    for device in range(instance.devices):
        while sum(device in row for row in rows) < instance.slots:
            rows = _filled(instance, rows, device)
    return [
        [expert for expert, row in enumerate(rows) if device in row]
        for device in range(instance.devices)
    ]


def by_load(
    tokens: Sequence[int], devices: int, slots: int, limits: Limits
) -> tuple[Slots, float, float]:
    """Return the experts of each device that balance a layer's tokens best.

    Parameters
    ----------
    tokens
        Of each expert, shape (experts,); they are shared out evenly over its copies.
    devices, slots
        Devices, and slots of each, together at least one for each expert.
    limits
        For one layer.

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
    found = solve(layer, METHOD, **limits.asked, enough_gap=ENOUGH_GAP)
    solution = found.solution or eplb(layer)  # nothing yet: the kernel is being compiled, say
    bound = found.bound if isinstance(found.bound, int) else lower_bound(layer)
    if not isinstance(solution, Solution):
        raise InputError(f"no placement on {devices} devices of {slots} slots", field="--ep-size")
    held = full_slots(layer, solution)
    copies = copies_of(held, len(tokens))
    peak = objective(layer, Solution(instance="layer", copies=copies))
    return held, peak / layer.units_per_token, bound / layer.units_per_token


def copies_of(held: Slots, experts: int) -> Copies:
    """Return on which devices each expert is, by the experts of each device."""
    return tuple(
        tuple(device for device, own in enumerate(held) if expert in own)
        for expert in range(experts)
    )


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
        raise InputError(
            f"device {device} has a slot that no further copy may fill", field="copies"
        )
    return best[1]


Row = list[int]

EP_SIZE = Option(
    "ep_size",
    int,
    "Devices over which a layer's experts are spread; of a plan of copies its own.",
    low=1,
    high=4096,
)

REDUNDANT = Option(
    "redundant_experts",
    int,
    "Copies in each layer; by default the fewest that divide evenly over the devices.",
    low=0,
    high=2**16,
)

ONTO = Option("onto", str, "Map of the same runtime whose other layers are kept; of copies only.")

RowsOf = Callable[[Path], Mapping[int, Row]]
"""Reads the slots of the layers of a map, by the model's numbers of these layers."""


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
    split
        What becomes of a plan whose tokens are not shared out evenly over copies; None if they are.
    """

    rows: list[Row]
    experts: int
    hidden: tuple[int, ...]
    all_layers: int
    devices: int
    notes: dict[str, object]
    keeps_all: bool
    split: str | None = None

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


def by_device(row: Row, devices: int) -> list[Row]:
    """Return the experts of a layer's slots, device by device."""
    each = len(row) // devices
    return [row[first : first + each] for first in range(0, len(row), each)]


def slot_map(job: Job, rows_of: RowsOf) -> SlotMap:
    """Return the slots of a job's plan.

    On one device the experts that a placement has on the GPU have the first slots. On several its
    tokens decide: the copies, and which experts share a device, are those that leave the fullest
    device least to do (problem replication). A plan of copies is one layer's; other layers hold
    what they hold in the map of the option `onto`, or the experts in turn.

    Parameters
    ----------
    rows_of
        Reads the map of that option.
    """
    if job.instance.problem == "replication":
        return _slots_of_copies(job, rows_of)
    if job.text("onto") is not None:
        raise InputError("is for plans of copies; a placement has all layers", field="--onto")
    plan = placed(job)
    devices = job.number("ep_size") or 1
    copies = _copies(job, plan.experts, devices)
    if devices == 1:
        rows, notes = [slots_of(own, plan.experts, copies) for own in plan.gpu], plan.notes()
    else:
        rows, balance = _rows_by_load(job, plan.experts, devices, copies)
        notes = plan.notes() | {"gpu": [list(own) for own in plan.gpu], "balance": balance}
    return SlotMap(
        rows=rows,
        experts=plan.experts,
        hidden=plan.hidden,
        all_layers=plan.all_layers,
        devices=devices,
        notes=notes,
        keeps_all=not plan.off_gpu,
    )


def _copies(job: Job, experts: int, devices: int) -> int:
    """Return how many copies each layer gets."""
    asked = job.number("redundant_experts")
    if asked is None:
        return redundant(experts, devices)
    if (experts + asked) % devices:
        total = f"{experts} experts and {asked} copies"
        raise InputError(
            f"{total} do not divide evenly over {devices}", field="--redundant-experts"
        )
    if experts + asked > experts * devices:
        raise InputError(f"must be at most {experts * (devices - 1)}", field="--redundant-experts")
    return asked


def _rows_by_load(
    job: Job, experts: int, devices: int, copies: int
) -> tuple[list[Row], list[dict[str, float]]]:
    """Return each layer's slots, and in tokens what the fullest device gets and the mean."""
    rows, balance = [], []
    instance = job.given(Placement)
    limits = job.limits
    if limits.work is None:  # without limits of the caller's the wall decides nothing
        asked = limits.seconds < DEFAULT_TIME_LIMIT_S
        limits = replace(limits, work=MAP_WORK) if asked else Limits(work=MAP_WORK)
    limits = limits.part(1 / instance.layers)
    for tokens in instance.tokens.tolist():
        slots = (experts + copies) // devices
        held, peak, bound = by_load(tokens, devices, slots, limits)
        rows.append([expert for own in held for expert in own])
        mean = sum(tokens) / devices
        balance.append({"fullest": round(peak, 3), "mean": mean, "bound": round(bound, 3)})
    return rows, balance


def _slots_of_copies(job: Job, rows_of: RowsOf) -> SlotMap:
    instance, solution = job.given(Instance), job.plan(Solution)
    if job.number("ep_size") not in (None, instance.devices):
        raise InputError(f"the plan is for {instance.devices} devices", field="--ep-size")
    if job.number("redundant_experts") is not None:
        raise InputError("the plan says how many slots there are", field="--redundant-experts")
    shape, experts = known_shape(job), instance.experts
    hidden = hidden_layers(job, len(shape.moe_layers), experts)
    chosen = ((instance.provenance or {}).get("options") or {}).get("layer", 0)
    if type(chosen) is not int or not 0 <= chosen < len(hidden):
        raise InputError(
            f"{shown(chosen)} of the provenance is none of {shape.name}'s", field="layer"
        )
    own = [expert for held in full_slots(instance, solution) for expert in held]
    rows = {layer: [slot % experts for slot in range(len(own))] for layer in hidden}
    if (onto := job.text("onto")) is not None:
        rows |= _kept(Path(onto), rows_of, rows, experts)
    rows[hidden[chosen]] = own
    notes: dict[str, object] = {
        "moe_layers": list(hidden),
        "per_layer": [experts] * shape.layers,
        "decided_layer": hidden[chosen],
    }
    peaks = _peaks(instance, own)
    if instance.work == "kernel":
        notes["slowest_ns"] = peaks
    else:
        notes["balance"] = {
            "fullest": [peak / instance.units_per_token for peak in peaks],
            "mean": [sum(window.loads) / instance.devices for window in instance.windows],
        }
    listed = [rows[layer] for layer in hidden]
    return SlotMap(
        rows=listed,
        experts=experts,
        hidden=hidden,
        all_layers=shape.layers,
        devices=instance.devices,
        notes=notes,
        keeps_all=True,
        split=_split_lost(instance, solution, peaks),
    )


def _split_lost(instance: Instance, solution: Solution, peaks: Sequence[int]) -> str | None:
    """Return what sharing tokens out evenly costs, where the plan does it as suits each window."""
    if instance.split == "even":
        return None
    asked = peaks_units(instance, solution)
    had = sum(window.weight * peak for window, peak in zip(instance.windows, peaks, strict=True))
    more = f"{100 * (had - asked) / asked:+.1f} %" if asked else "not 0 any more"
    return f"the fullest devices have {had} instead of the plan's {asked} ({more})"


def _peaks(instance: Instance, row: Row) -> list[int]:
    """Return the units of the fullest device in each window, by the slots as they are written.

    Tokens are shared out evenly over copies, as the runtimes of such maps do.
    """
    copies = copies_of(by_device(row, instance.devices), instance.experts)
    solution = Solution(instance=instance.name, copies=copies)
    even = instance.model_copy(update={"split": "even"})
    return [max(loads) for loads in device_loads(even, solution)]


def _kept(file: Path, rows_of: RowsOf, rows: Mapping[int, Row], experts: int) -> dict[int, Row]:
    """Return the rows of a map that another layer is written into."""
    found = rows_of(file)
    for layer, row in rows.items():
        kept = found.get(layer)
        if kept is None or len(kept) != len(row) or set(kept) != set(range(experts)):
            need = f"{len(row)} slots with all of {experts} experts"
            raise InputError(f"{file}: layer {layer}: must have {need}", field="--onto")
    return {layer: found[layer] for layer in rows}


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


def not_followed(name: str, found: SlotMap) -> tuple[str, ...]:
    """Return what of a plan a runtime of such maps does not do: experts off the GPU, shares."""
    said = []
    if not found.keeps_all:
        takes = "the order of slots" if found.devices == 1 else "how many tokens each expert has"
        ignored = f"{name} keeps all experts on GPUs: of this plan it takes {takes} only"
        said.append(f"{ignored}; which experts are the GPU's stands in the notes")
    if found.split is not None:
        evenly = f"{name} shares an expert's tokens out evenly over its copies, the plan does not"
        said.append(f"{evenly}: {found.split}")
    return tuple(said)


def read_rows(data: object, where: str) -> list[Row]:
    """Return a list of equally long lists of integers as it stands in a file."""
    if not isinstance(data, list) or not data or not all(map(experts_in, data)):
        raise InputError("must be lists of experts", where=where)
    if len(set(map(len, data))) > 1:
        raise InputError("must have equally many slots in every layer", where=where)
    return data


def experts_in(row: object) -> TypeGuard[Row]:
    """Tell whether what a file has is a list of experts, at least one."""
    return isinstance(row, list) and bool(row) and all(type(e) is int and e >= 0 for e in row)


def as_json(data: object) -> bytes:
    """Return JSON, compact, on one line."""
    return (json.dumps(data) + "\n").encode()
