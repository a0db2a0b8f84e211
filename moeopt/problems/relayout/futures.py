"""What a layout costs on sampled futures: the second stage of `robust`, in compiled loops.

All futures of a layer differ in loads and costs only, so a layout (who is in the GPU's memory, and
where each host copy lies) is turned into a table of `moeopt.core.device_loads` per future.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import checkpoint, spend
from moeopt.core.compiled import compiled
from moeopt.core.device_loads import (
    CHANNEL,
    CPU,
    GPU,
    OWN,
    PCIE,
    PLACE,
    STRIPED_READS,
    Ints,
    table_for,
)
from moeopt.problems.tri_domain.threshold import NO_CUTOFF, Bracket
from moeopt.problems.tri_domain.threshold.incumbent import first_schedule

from .expert import STRIPED
from .instance import Instance

EFFORT = 2**18
"""Labels that one future's best schedule may take: some milliseconds."""

IN_MEMORY = -2
"""Stands for the GPU's memory where a place is asked for; others are `STRIPED` or a DIMM."""


SCHEDULES_PER_UNIT = 150_000
"""Schedules that are built in a unit of work."""

TABLES = 2e-3
"""Units of work for the tables of one future."""


class Layouts:
    """Costs of layouts on the futures of one layer.

    Parameters
    ----------
    futures
        Instances of the same experts on the same machine; only tokens and costs may differ.

    Attributes
    ----------
    columns
        Of future f, expert i in kind k, its column of the table: int64 of shape (futures, 4, rows,
        columns). Kinds: ``2 * (host copy on one DIMM) + (in the GPU's memory)``. What runs nowhere
        has zeros. A last column may be the GPU's base load.
    active
        Whether an expert has tokens, shape (futures, experts).
    """

    def __init__(self, futures: Sequence[Instance]) -> None:
        first = futures[0]
        self.dimms, self.experts = first.dimms, len(first.experts)
        self.columns = np.stack([_columns(future) for future in futures])
        self.active = np.stack([future.columns.tokens > 0 for future in futures])
        self._plain = np.ascontiguousarray(self.columns[:, :, : PLACE + 1])
        if self.columns.shape[2] > PCIE:  # the base load is none that the CPU could take
            base = self._plain[:, :, :, self.experts :]
            base[:, :, CPU] = self._plain[:, :, :PLACE].sum(axis=(2, 3))[:, :, None]
        named = np.unique(first.channels or (0,) * self.dimms, return_inverse=True)[1]
        self._channel = (named + (first.channels is not None)).astype(np.int64)

    def __len__(self) -> int:
        """Return how many futures there are."""
        return len(self.columns)

    def best_ns(self, resident: NDArray[np.bool_], dimm: Ints) -> Ints:
        """Return the makespan of the best schedule of each future, shape (futures,).

        By threshold search: optimal but where its effort ends first, or where channels or a PCIe
        link, which it relaxes, bind.
        """
        localized, experts = dimm != STRIPED, np.arange(self.experts)
        spans = np.zeros(len(self), np.int64)
        for f, columns in enumerate(self.columns):
            table = columns[0].copy()
            table[:, experts] = columns[2 * localized + resident, :, experts].T
            table[PLACE, experts] = np.where(localized, OWN + dimm, STRIPED_READS)
            if len(table) > PCIE:
                table[CHANNEL, experts[localized]] = self._channel[dimm[localized]]
            base = np.arange(self.experts, table.shape[1])
            active = np.flatnonzero(self.active[f])
            if len(active) == 0:
                spans[f] = table[GPU, base].sum()
                continue
            kept = np.ascontiguousarray(table[:, np.append(active, base)])
            bracket = Bracket(kept, len(active), self.dimms)
            bracket.narrow(NO_CUTOFF, EFFORT)
            spans[f] = bracket.upper
        return spans

    def quick_ns(
        self, resident: NDArray[np.bool_], dimm: Ints, rows: Ints, to: Ints, futures: Ints
    ) -> Ints:
        """Return about what each change of a layout leads to, shape (changes, futures).

        A schedule built in a few microseconds instead of the best one; channels and PCIe are
        relaxed.

        Parameters
        ----------
        resident, dimm
            The layout, shape (experts,) each.
        rows, to
            Each change brings an expert somewhere, shape (changes,): `IN_MEMORY`, `STRIPED` or to a
            DIMM; row -1 changes nothing.
        futures
            The futures of interest.
        """
        out = np.empty((len(rows), len(futures)), np.int64)
        state = np.stack([resident.astype(np.int64), dimm])
        changes = np.stack([rows, to])
        for n, future in enumerate(futures.tolist()):
            out[:, n] = _spans(self._plain[future], state, changes, self.dimms)
        spend(out.size / SCHEDULES_PER_UNIT)
        return out


@compiled
def _spans(columns: Ints, state: Ints, changes: Ints, dimms: int) -> Ints:
    """Return the makespan of one future after each change of a layout, see `Layouts.quick_ns`."""
    size, experts = columns.shape[2], state.shape[1]
    table = np.empty((PLACE + 1, size), np.int64)
    for i in range(size):
        if i < experts:
            _put(table, columns, i, state[0, i], state[1, i])
        else:
            _put(table, columns, i, 0, -1)
    spans = np.empty(changes.shape[1], np.int64)
    for n in range(changes.shape[1]):
        i, to = changes[0, n], changes[1, n]
        if i >= 0:
            if to < -1:
                _put(table, columns, i, 1, state[1, i])
            else:
                _put(table, columns, i, state[0, i], to)
        spans[n] = first_schedule(table, dimms)[0]
        if i >= 0:
            _put(table, columns, i, state[0, i], state[1, i])
    return spans


@compiled
def _put(table: Ints, columns: Ints, i: int, resident: int, dimm: int) -> None:
    """Write an expert's column for where it is."""
    kind = resident
    if dimm >= 0:
        kind += 2
    for row in range(PLACE):
        table[row, i] = columns[kind, row, i]
    table[PLACE, i] = OWN + dimm if dimm >= 0 else STRIPED_READS


def _columns(future: Instance) -> Ints:
    """Return `Layouts.columns` of one future."""
    checkpoint(TABLES)
    c = future.columns
    tables = []
    for localized in (False, True):
        read = np.full(
            len(c.tokens), future.dram_localized_ns if localized else future.dram_striped_ns
        )
        miss = c.gpu_miss_localized_ns if localized else c.gpu_miss_striped_ns
        pcie = c.pcie_localized_ns if localized else c.pcie_striped_ns
        for resident in (False, True):
            gpu = c.gpu_hit_ns if resident else miss
            parts = (gpu, np.zeros_like(pcie) if resident else pcie) if future.two_parts else ()
            table = table_for(
                future,
                *(gpu, c.cpu_localized_ns if localized else c.cpu_striped_ns, c.ndp_ns),
                *(np.zeros_like(read) if resident else read, read),
                np.full(len(read), 0 if localized else STRIPED),
                *parts,
            )
            idle = np.append(c.tokens == 0, np.zeros(table.shape[1] - len(read), np.bool_))
            for row in range(len(table)):
                if row not in (PLACE, CHANNEL):
                    table[row, idle] = 0
            tables.append(table)
    return np.stack(tables)
