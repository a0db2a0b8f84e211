"""Lower bounds on the makespan that need no solver, each with its proof.

A mode of an expert is a migration or none, and a domain. Each mode keeps the GPU, the CPU and
every DIMM, channel and PCIe busy for known times, those of the layout it leads to (RE-C8 to
RE-C12).
"""

import numpy as np

from moeopt.problems.three_domains import Budget, ModeTable

from .instance import IN_MEMORY, STRIPED, Instance, Kind, modes_of
from .migrations import link_moves_allowed, link_use, prefetch_allowed
from .modes import objective_grid as objective_grid

SCALE = 2**32
"""Multipliers are rounded to this resolution before the bound is computed in integers."""

ROUNDS_AT_REST, ROUNDS = 20, 80
"""Updates of the multipliers, first without migrations, then with them."""


def lower_bound(instance: Instance) -> int:
    """Return the Lagrangian bound: RE-C5 to RE-C13 relaxed, see `ModeTable.lagrangian_bound`.

    Proof. A solution takes one mode of each expert, a place and a path there, with the migration
    that brings it there. It keeps two budgets: the time of all links' windows together (RE-C7,
    RE-C13; `link_use`), and the prefetches that slots and PCIe window allow (RE-C5, RE-C6). So its
    makespan is at least the bound of the table with these.
    """
    modes, grid = with_migrations(instance), objective_grid(instance)
    relayout, rebalance = link_moves_allowed(instance)
    fits: dict[object, bool] = {None: True, "rebalance": rebalance}
    fits["prefetch"] = prefetch_allowed(instance) > 0
    able = np.array([fits.get(mode.migration, relayout) for mode in modes.label])
    at_rest = able & np.array([mode.migration is None for mode in modes.label])
    bound = modes.lagrangian_bound([(ROUNDS_AT_REST, at_rest), (ROUNDS, able)], SCALE)
    return -(-bound // grid) * grid


def with_migrations(instance: Instance) -> ModeTable:
    """Return `modes_of` with the migration before each, and what it uses of windows and slots."""
    modes, use = modes_of(instance), link_use(instance)
    today, resident = instance.columns.dimm, instance.columns.resident
    rows = np.flatnonzero(instance.columns.tokens)[modes.owner]
    kinds = [
        kind_of(mode.copy, dimm, held)
        for mode, dimm, held in zip(
            modes.label, today[rows].tolist(), resident[rows].tolist(), strict=True
        )
    ]
    link = {None: 0, "prefetch": 0, "rebalance": use.rebalance_ns}
    uses = [(link.get(kind, use.relayout_ns), int(kind == "prefetch")) for kind in kinds]
    budgets = [
        Budget("window", ("DIMM-Link",), np.array([use.window_ns])),
        Budget("slots", ("slots",), np.array([prefetch_allowed(instance)])),
    ]
    return modes.limited(budgets, kinds, np.array(uses, np.int64).reshape(-1, 2))


def kind_of(place: int, today: int, resident: bool) -> Kind | None:
    """Return the migration after which an expert lies in a place, None if it lies there today."""
    if place == IN_MEMORY:
        return None if resident else "prefetch"
    if place == today:
        return None
    if place == STRIPED:
        return "stripe"
    return "localize" if today == STRIPED else "rebalance"
