"""Copies of experts over devices: the experts in a layer's slots, by a plan or by load.

Runtimes leave no slot empty: `full_slots` fills those that a plan does not use, each with the copy
that leaves the least peak.
"""

from collections.abc import Sequence

from moeopt.core.errors import InputError
from moeopt.problems.replication.bounds import lower_bound
from moeopt.problems.replication.check import objective
from moeopt.problems.replication.heuristics import eplb
from moeopt.problems.replication.instance import MAX_COPIES, Copies, Instance, Solution
from moeopt.solvers.arguments import Limits
from moeopt.solvers.run import solve

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
        raise InputError(f"--ep-size: no placement on {devices} devices of {slots} slots")
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
        raise InputError(f"copies: device {device} has a slot that no further copy may fill")
    return best[1]
