"""Decisions one expert after the other, as they are described: what the fast ones must equal."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tests.rooms.core import split_name
from tests.rooms.sim import Migration
from tests.rooms.systems import (
    CPU,
    GPU,
    NOWHERE,
    Decider,
    Integers,
    Loads,
    Offer,
    Policy,
    StepWork,
    Transfer,
    per_layer,
)
from tests.rooms.tri_domain import DOMAINS, HEURISTICS, STRIPED, Expert, Instance

COLUMNS = ("tokens", "resident", "dimm", "gpu_ns", "cpu_ns", "ndp_ns")
COLUMNS += ("gpu_dram_ns", "cpu_dram_ns")


class Lru:
    """The cache of one layer: a list, the least recent expert first."""

    def __init__(self, ways: int) -> None:
        self.ways = ways
        self._experts: dict[int, None] = {}

    def access(self, experts: Sequence[int]) -> list[int]:
        """Return the hits among `experts`, which differ, and remember them all."""
        hits = [expert for expert in experts if expert in self._experts]
        for expert in experts:
            self._experts.pop(expert, None)
            self._experts[expert] = None
        while len(self._experts) > self.ways:
            del self._experts[next(iter(self._experts))]
        return hits


def heuristic_policy(name: str, assumed: Mapping[str, str] | None = None) -> Policy:
    """Return a tri_domain heuristic, with its assumptions, as a policy: one instance per layer."""
    heuristic = partial(HEURISTICS[name], **(assumed or {}))

    def policy(offer: Offer) -> Integers:
        choice = np.full(offer.tokens.shape, GPU)
        for layer in range(len(choice)):
            active = np.flatnonzero(offer.tokens[layer])
            if len(active):
                assignment = heuristic(layer_instance(offer, layer)).assignment
                choice[layer, active] = [DOMAINS.index(d) for d in assignment if d is not None]
        return choice

    return policy


def layer_instance(offer: Offer, layer: int) -> Instance:
    """Return one layer's active experts as an instance of tri_domain."""
    experts = []
    for expert in np.flatnonzero(offer.tokens[layer]).tolist():
        row: dict[str, Any] = {name: getattr(offer, name)[layer, expert].item() for name in COLUMNS}
        if row["dimm"] == STRIPED:
            row |= {"dimm": None, "ndp_ns": None}
        experts.append(Expert.model_construct(expert=expert, **row))
    return Instance.model_construct(
        name=f"layer {layer}", dimms=offer.dimms, experts=tuple(experts)
    )


def listed(loads: Loads, step: int, layer: int) -> list[int]:
    """Return the active experts of a layer, by first mention or by number."""
    if loads.ids is None:
        return [int(expert) for expert in np.flatnonzero(loads.counts[step, layer])]
    mentioned = dict.fromkeys(loads.ids[step][:, layer].ravel().tolist())
    return [int(expert) for expert in mentioned if expert >= 0]


class SlowDecider(Decider):
    """Decides like `Decider`, by lists and loops."""

    def __init__(self, plan: Any, costs: Any, loads: Loads, dimms: int, times: Any) -> None:
        super().__init__(plan, costs, loads, dimms, times)
        name, assumed = split_name(plan.policy)
        if name in HEURISTICS:
            self._policy = heuristic_policy(name, assumed)
        self._lists = [Lru(ways) for ways in per_layer(plan.cache_ways, self._layers)]

    def _migrated(
        self, entries: list[tuple[int, Migration]], layer: int, resident: Any
    ) -> list[Transfer]:
        """Move one expert after the other, while each link has time."""
        moves, dimm, used = self.migrations, self._dimm[layer], dict[str, int]()
        made: list[Transfer] = []
        for row, entry in entries:
            if moves._is_so(entry, row, resident, dimm):
                moves.needless += 1
                continue
            width = int(self._width[layer, entry.expert])
            transfers = moves._transfers(entry, int(dimm[entry.expert]), width)
            if not moves._fit(transfers, used, layer):
                moves.missed += 1
                continue
            for transfer in transfers:
                used[transfer.link] = used.get(transfer.link, 0) + transfer.duration_ns
            made += transfers
            moves.done += 1
            if entry.kind == "prefetch":
                resident[entry.expert] = True
            else:
                dimm[entry.expert] = STRIPED if entry.dimm is None else entry.dimm
        return made

    def decide(self, step: int) -> StepWork:
        """Return what happens in a step."""
        counts, resident = self._loads.counts[step], self._resident.copy()
        transfers = []
        for layer in range(self._layers):
            entries = [
                (row, entry)
                for row, entry in enumerate(self._plan.migrations)
                if entry.layer == layer and entry.step in (None, step)
            ]
            transfers.append(self._migrated(entries, layer, resident[layer]))
        missed, hits = self._asked(step, resident)
        offer = self._offer(counts, resident)
        domain = np.where(counts > 0, self._policy(offer), NOWHERE)
        self._fix(step, domain, offer)
        cost, dram = self._costs_of(step, domain, offer)
        fetched, order = np.zeros_like(resident), np.zeros_like(domain)
        for layer, of_layer in enumerate(missed):
            wanted = [expert for expert in of_layer if domain[layer, expert] != GPU]
            fetched[layer, wanted] = True
            order[layer, wanted] = np.arange(len(wanted))
        return StepWork(
            domain=domain,
            cost_ns=cost,
            dram_ns=dram,
            dimm=self._dimm.copy(),
            deferred=self._late(step, domain, counts),
            transfers=transfers,
            fetched=fetched,
            fetch_ns=self._costs.fetch_ns[self._width],
            order=order,
            hits=hits,
            misses=sum(map(len, missed)),
        )

    def _asked(self, step: int, resident: Any) -> tuple[list[list[int]], int]:
        """Ask the caches; hits count as resident. Return the misses per layer, and the hits."""
        missed: list[list[int]] = [[] for _ in range(self._layers)]
        hits = 0
        for layer, cache in enumerate(self._lists):
            if cache.ways:
                asked = [e for e in listed(self._loads, step, layer) if not resident[layer, e]]
                found = cache.access(asked)
                hits += len(found)
                missed[layer] = [expert for expert in asked if expert not in set(found)]
                resident[layer, found] = True
        return missed, hits

    def _late(self, step: int, domain: Integers, counts: Integers) -> Any:
        deferred = np.zeros(domain.shape, dtype=np.bool_)
        for layer, count in enumerate(self._deferred[:-1]):
            if count:
                on_cpu = [e for e in listed(self._loads, step, layer) if domain[layer, e] == CPU]
                on_cpu.sort(key=lambda expert: -int(counts[layer, expert]))
                deferred[layer, on_cpu[max(0, len(on_cpu) - count) :]] = True
        return deferred
