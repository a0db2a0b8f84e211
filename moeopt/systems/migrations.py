"""Migrations of a step: which fit their window, and what they change (TriMoE 4.3)."""

from dataclasses import dataclass
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.problems.tri_domain.layout_rule import STRIPED
from moeopt.sim.plan import Migration, Plan
from moeopt.systems.cost_table import CostTable

PCIE = "PCIe"
DIMM_LINK = "DIMM-Link"


@dataclass(frozen=True)
class Transfer:
    """One expert's weights on one link.

    Attributes
    ----------
    dimm, read_ns
        The DIMM that is read or written meanwhile, `STRIPED` for all, and for how long.
    """

    link: str
    duration_ns: int
    kind: str
    expert: int
    dimm: int = STRIPED
    read_ns: int = 0


def link_names(plan: Plan, dimms: int) -> list[str]:
    """Return the names of the links that transfers may occupy, PCIe first."""
    if plan.dimm_links == "shared":
        return [PCIE, DIMM_LINK]
    return [PCIE, *(f"{DIMM_LINK} {dimm}" for dimm in range(dimms))]


class Migrations:
    """The plan's migrations, executed step by step on the layout.

    Attributes
    ----------
    done, missed, needless
        How many were made, did not fit their window, or asked for what was so already.
    """

    def __init__(self, plan: Plan, costs: CostTable, window_ns: dict[str, list[int]]) -> None:
        self._plan = plan
        self._costs = costs
        self._of_step: dict[int | None, dict[int, list[tuple[int, Migration]]]] = {}
        for row, entry in enumerate(plan.migrations):
            layer = self._of_step.setdefault(entry.step, {}).setdefault(entry.layer, [])
            layer.append((row, entry))
        self._window_ns = window_ns
        self.done = self.missed = self.needless = 0

    def before_layers(
        self,
        step: int,
        resident: NDArray[np.bool_],
        dimm: NDArray[np.int64],
        width: NDArray[np.int64],
    ) -> list[list[Transfer]]:
        """Execute what is planned in a step; returns each layer's transfers in order.

        Parameters
        ----------
        resident, dimm, width
            Shape (layers, experts). The first two are changed in place.
        """
        planned = [self._of_step.get(which, {}) for which in (None, step)]
        made: list[list[Transfer]] = [[] for _ in resident]
        for layer in sorted({layer for of in planned for layer in of}):
            entries = [entry for of in planned for entry in of.get(layer, ())]
            there, at, used = resident[layer], dimm[layer], dict[str, int]()
            for row, entry in sorted(entries, key=itemgetter(0)):
                if self._is_so(entry, row, there, at):
                    self.needless += 1
                    continue
                transfers = self._transfers(
                    entry, int(at[entry.expert]), int(width[layer, entry.expert])
                )
                if not self._fit(transfers, used, layer):
                    self.missed += 1
                    continue
                for transfer in transfers:
                    used[transfer.link] = used.get(transfer.link, 0) + transfer.duration_ns
                made[layer] += transfers
                self.done += 1
                if entry.kind == "prefetch":
                    there[entry.expert] = True
                else:
                    at[entry.expert] = STRIPED if entry.dimm is None else entry.dimm
        return made

    def _is_so(
        self, entry: Migration, row: int, resident: NDArray[np.bool_], dimm: NDArray[np.int64]
    ) -> bool:
        at = int(dimm[entry.expert])
        if entry.kind == "prefetch":
            return bool(resident[entry.expert])
        if entry.kind == "rebalance" and at == STRIPED:
            raise InputError(
                f"plan: migrations[{row}]: expert {entry.expert} is striped; localize it instead"
            )
        if entry.kind == "localize" and at not in (STRIPED, entry.dimm):
            raise InputError(
                f"plan: migrations[{row}]: expert {entry.expert} lies on DIMM {at};"
                " rebalance it instead"
            )
        return at == (STRIPED if entry.dimm is None else entry.dimm)

    def _transfers(self, entry: Migration, at: int, width: int) -> list[Transfer]:
        if entry.kind == "prefetch":
            self._costs.require("pcie")
            length = int(self._costs.fetch_ns[width])
            return [Transfer(PCIE, length, "prefetch", entry.expert)]
        self._costs.require("dimm_link")
        length = int(self._costs.move_ns[width])
        ends = [dimm for dimm in (at, entry.dimm) if dimm is not None and dimm != STRIPED]
        per_dimm = self._plan.dimm_links == "per-dimm"
        links = [f"{DIMM_LINK} {dimm}" for dimm in ends] if per_dimm else [DIMM_LINK]
        return [Transfer(link, length, entry.kind, entry.expert) for link in links]

    def _fit(self, transfers: list[Transfer], used: dict[str, int], layer: int) -> bool:
        if self._plan.window == "unlimited":
            return True
        for transfer in transfers:
            kind = PCIE if transfer.link == PCIE else DIMM_LINK
            total = used.get(transfer.link, 0) + transfer.duration_ns
            if total > self._window_ns[kind][layer]:
                return False
        return True
