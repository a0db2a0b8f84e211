"""Machines whose times deviate from their own: as measurements of one machine differ."""

import numpy as np

from moeopt.core.errors import InputError
from moeopt.sim.costs.quanta import NS_PER_S
from moeopt.sim.costs.step import step_costs
from moeopt.sim.machines.curve import TimeTable
from moeopt.sim.machines.machine import Kind, Machine
from moeopt.sim.models.model_shape import ModelShape

KINDS: tuple[Kind, ...] = ("gpu", "cpu", "ndp")

MAX_POINTS = 10_000
"""Longest time table."""


def with_table_noise(
    machine: Machine, model: ModelShape, tokens: int, noise: float, seed: int
) -> Machine:
    """Return the machine with a time table of `model` that is up to `noise` above its own times.

    Every device and token count gets its own factor between 1 and 1 + `noise`; more tokens never
    take less time. Reads and transfers stay as they are.

    Parameters
    ----------
    tokens
        The table reaches from 1 to this many tokens; a longer one begins as a shorter one does.
    noise
        Largest relative deviation.
    seed
        Draws the factors.

    Raises
    ------
    InputError
        If the table would be too long, or the machine lacks a device.
    """
    if tokens > MAX_POINTS:
        raise InputError(f"table_noise: works up to {MAX_POINTS} tokens, not {tokens}")
    counts = np.arange(1, max(tokens, 2) + 1)
    own = model.bits == 8.0 * model.bytes_per_weight
    tables = [table for table in machine.tables if table.model != model.name]
    for number, kind in enumerate(KINDS):
        factor = 1 + noise * np.random.default_rng([seed, number]).random(len(counts))
        ns = np.maximum.accumulate(
            step_costs(machine, model).computation_s(kind, counts) * NS_PER_S * factor
        )
        tables.append(
            TimeTable(
                model=model.name,
                at=(machine.require(kind).id, kind),
                points=tuple(zip(counts.astype(float).tolist(), ns.tolist(), strict=True)),
                source=f"times of {machine.name}, each up to {noise:g} longer, seed {seed}",
                bits_per_weight=None if own else model.bits,
            )
        )
    moved = [table for table in machine.tables if table.model == model.name and table.is_link]
    return machine.model_copy(update={"tables": (*tables, *moved)})
