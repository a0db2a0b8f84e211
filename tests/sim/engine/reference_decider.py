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


class Entry:
    """An expert in a cache: when its weights are there; nobody knows before the copy is queued."""

    def __init__(self, expert: int) -> None:
        self.expert = expert
        self.there: int | None = None


class Cache:
    """The cache of one layer: a list, the least recent expert first."""

    def __init__(self, ways: int) -> None:
        self.ways = ways
        self.entries: list[Entry] = []

    def access(self, experts: Sequence[int], now: int) -> tuple[list[int], list[int]]:
        """Return the hits, and what is to be copied; all become most recent, one by one."""
        before = {entry.expert: entry for entry in self.entries}
        hits = []
        for expert in experts:
            entry = before.get(expert) or Entry(expert)
            if entry.there is not None and entry.there <= now:
                hits.append(expert)
            self.entries = [one for one in self.entries if one is not entry] + [entry]
        place = 0
        while len(self.entries) > self.ways:
            entry = self.entries[place]
            coming = entry.expert in before and (entry.there is None or entry.there > now)
            if coming:
                place += 1
            else:
                del self.entries[place]
        return hits, [one.expert for one in self.entries if one.expert not in before]

    def arrives(self, expert: int, there: int) -> None:
        [entry] = [one for one in self.entries if one.expert == expert]
        entry.there = there


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
        self._lists = [Cache(ways) for ways in per_layer(plan.cache_ways, self.layers)]

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

    def begin(self, step: int) -> None:
        """Migrate."""
        self._step, self._there = step, self._resident.copy()
        self._transfers = []
        for layer in range(self.layers):
            entries = [
                (row, entry)
                for row, entry in enumerate(self._plan.migrations)
                if entry.layer == layer and entry.step in (None, step)
            ]
            self._transfers.append(self._migrated(entries, layer, self._there[layer]))

    def decide(self, rows: slice, now_ns: int = 0) -> StepWork:
        """Return what happens in some layers."""
        layers = range(self.layers)[rows]
        counts, resident = self._loads.counts[self._step][layers], self._there[layers]
        hits, missed, let_in = 0, 0, list[list[int]]()
        for at, layer in enumerate(layers):
            asked = listed(self._loads, self._step, layer) if self._lists[layer].ways else []
            asked = [expert for expert in asked if not resident[at, expert]]
            found, new = self._lists[layer].access(asked, now_ns)
            hits, missed = hits + len(found), missed + len(asked) - len(found)
            resident[at, found] = True
            let_in.append(new)
        offer = self._offer(rows, counts, resident)
        domain = np.where(counts > 0, self._policy(offer), NOWHERE)
        self._fix(rows, domain, offer)
        cost, upload, dram = self._costs_of(rows, domain, offer)
        copies = []
        for at, layer in enumerate(layers):
            copies.append([])
            for expert in let_in[at]:
                if domain[at, expert] == GPU:
                    self._lists[layer].arrives(expert, now_ns)
                else:
                    width = self._width[layer, expert]
                    copies[-1].append((expert, int(self._costs.fetch_ns[width])))
        return StepWork(
            domain=domain,
            tokens=counts,
            cost_ns=cost,
            upload_ns=upload,
            dram_ns=dram,
            dimm=self._dimm[layers].copy(),
            deferred=self._late(layers, domain, counts),
            transfers=[self._transfers[layer] for layer in layers],
            copies=copies,
            hits=hits,
            misses=missed,
        )

    def copied(self, layer: int, ends_ns: Mapping[int, int]) -> None:
        for expert, end in ends_ns.items():
            self._lists[layer].arrives(expert, end)

    def _late(self, layers: range, domain: Integers, counts: Integers) -> Any:
        deferred = np.zeros(domain.shape, dtype=np.bool_)
        for at, layer in enumerate(layers):
            count = self._deferred[layer] if layer + 1 < self.layers else 0
            if count:
                asked = listed(self._loads, self._step, layer)
                on_cpu = [e for e in asked if domain[at, e] == CPU]
                on_cpu.sort(key=lambda expert: -int(counts[at, expert]))
                deferred[at, on_cpu[max(0, len(on_cpu) - count) :]] = True
        return deferred
