"""Deciding a step from the plan and the loads that come: everything but the timing.

Timing has no say here: a policy sees loads and layout, the cache its accesses, and migrations fit
by the sum of their times. So both ways of timing a step start from the same decisions.
"""

import numpy as np

from moeopt.errors import InputError
from moeopt.sim.engine.decode.costs import UNAVAILABLE_NS, CostTable
from moeopt.sim.engine.decode.loads import Loads
from moeopt.sim.engine.decode.lru import Lru
from moeopt.sim.engine.decode.migrations import (
    DIMM_LINK,
    PCIE,
    Migrations,
    Transfer,
)
from moeopt.sim.engine.decode.policies import CPU, GPU, NDP, NOWHERE, Offer, get_policy
from moeopt.sim.engine.decode.work import Flags, Integers, LayerTimes, StepWork, per_layer
from moeopt.sim.layout_rule import STRIPED
from moeopt.sim.plan.schema import Plan

DOMAIN_NAMES = {"gpu": GPU, "cpu": CPU, "ndp": NDP}


class Decider:
    """Decides one step after the other; layout and caches carry over.

    Parameters
    ----------
    plan
        Fits the loads and the machine.
    costs
        Its widths are the sorted different numbers in ``plan.bits``, if there are any.
    dimms
        Number of DIMMs.
    """

    def __init__(
        self, plan: Plan, costs: CostTable, loads: Loads, dimms: int, times: LayerTimes
    ) -> None:
        self._plan, self._costs, self._loads, self._dimms = plan, costs, loads, dimms
        _, layers, experts = loads.counts.shape
        self._layers = layers
        self._policy = get_policy(plan.policy)
        self._dimm = _layout(plan, layers, experts)
        self._resident = _residents(plan, layers, experts)
        self._width = _widths(plan, layers, experts)
        self._deferred = per_layer(plan.deferred, layers)
        self._caches = [Lru(ways) for ways in per_layer(plan.cache_ways, layers)]
        window = [a + o for a, o in zip(times.attention_ns, times.other_ns, strict=True)]
        given = {PCIE: plan.pcie_window_ns, DIMM_LINK: plan.dimm_link_window_ns}
        windows = {
            link: [given[link]] * layers if plan.window == "given" else window for link in given
        }
        self.migrations = Migrations(plan, costs, windows)

    def decide(self, step: int) -> StepWork:
        """Return what happens in a step, and remember what it changes."""
        counts = self._loads.counts[step]
        resident = self._resident.copy()
        transfers = [
            self.migrations.before_layer(
                step, layer, resident[layer], self._dimm[layer], self._width[layer]
            )
            for layer in range(self._layers)
        ]
        missed, hits = self._look_up(step, resident)
        offer = self._offer(counts, resident)
        domain = np.where(counts > 0, self._policy(offer), NOWHERE)
        self._fix(step, domain, offer)
        cost, dram = self._costs_of(step, domain, offer)
        return StepWork(
            domain=domain,
            cost_ns=cost,
            dram_ns=dram,
            dimm=self._dimm.copy() if self._plan.migrations else self._dimm,
            deferred=self._defer(step, domain, counts),
            transfers=transfers,
            fetches=[self._fetch(layer, missed[layer], domain) for layer in range(self._layers)],
            hits=hits,
            misses=sum(map(len, missed)),
        )

    def _look_up(self, step: int, resident: Flags) -> tuple[list[list[int]], int]:
        """Ask the caches; hits count as resident. Return the misses per layer, and the hits."""
        missed: list[list[int]] = [[] for _ in range(self._layers)]
        hits = 0
        for layer, cache in enumerate(self._caches):
            if cache.ways:
                asked = [e for e in self._loads.order(step, layer) if not resident[layer, e]]
                found = cache.access(asked)
                hits += len(found)
                missed[layer] = [expert for expert in asked if expert not in set(found)]
                resident[layer, found] = True
        return missed, hits

    def _offer(self, counts: Integers, resident: Flags) -> Offer:
        width, striped = self._width, self._dimm == STRIPED

        def cost(path: str) -> Integers:
            table = self._costs.path_ns[path]
            return np.asarray(table[0][counts] if len(table) == 1 else table[width, counts])

        def by_layout(path: str) -> Integers:
            if striped.all():
                return cost(f"{path}_striped")
            return np.where(striped, cost(f"{path}_striped"), cost(f"{path}_localized"))

        read = self._costs.read_ns
        dram = np.where(striped, read["striped"][width], read["localized"][width])
        return Offer(
            dimms=self._dimms,
            tokens=counts,
            resident=resident,
            dimm=self._dimm,
            gpu_ns=np.where(resident, cost("gpu_hit"), by_layout("gpu_miss")),
            cpu_ns=by_layout("cpu"),
            ndp_ns=cost("ndp"),
            gpu_dram_ns=np.where(resident, 0, dram),
            cpu_dram_ns=dram,
        )

    def _fix(self, step: int, domain: Integers, offer: Offer) -> None:
        for entry in self._plan.assignments:
            if entry.step in (None, step):
                for name, number in DOMAIN_NAMES.items():
                    ids = np.array(getattr(entry, name), dtype=np.int64)
                    active = ids[offer.tokens[entry.layer, ids] > 0]
                    domain[entry.layer, active] = number

    def _costs_of(self, step: int, domain: Integers, offer: Offer) -> tuple[Integers, Integers]:
        """Return device times and host reads, or say why there is none."""
        active = domain != NOWHERE
        striped_ndp = (domain == NDP) & (offer.dimm == STRIPED)
        if striped_ndp.any():
            layer, expert = np.argwhere(striped_ndp)[0].tolist()
            where = f"step {step}, layer {layer}: expert {expert}"
            raise InputError(f"plan: {where} is striped and cannot run on NDP")
        cost = np.select(
            [domain == GPU, domain == CPU, domain == NDP],
            [offer.gpu_ns, offer.cpu_ns, offer.ndp_ns],
            0,
        )
        dram = np.select([domain == GPU, domain == CPU], [offer.gpu_dram_ns, offer.cpu_dram_ns], 0)
        if self._costs.missing and (cost[active].max(initial=0) >= UNAVAILABLE_NS):
            at = np.argwhere(active & (cost >= UNAVAILABLE_NS))[0].tolist()
            self._say_what_is_missing(int(domain[at[0], at[1]]), offer, at[0], at[1])
        return cost, dram

    def _say_what_is_missing(self, domain: int, offer: Offer, layer: int, expert: int) -> None:
        layout = "striped" if offer.dimm[layer, expert] == STRIPED else "localized"
        if domain == NDP:
            self._costs.require("ndp")
        elif domain == CPU:
            self._costs.require(f"cpu_{layout}")
        elif not offer.resident[layer, expert]:
            self._costs.require(f"gpu_miss_{layout}")
        self._costs.require("gpu_hit")

    def _defer(self, step: int, domain: Integers, counts: Integers) -> Flags:
        """Defer each layer's CPU experts of least tokens; among equals the last in order."""
        deferred = np.zeros(domain.shape, dtype=np.bool_)
        for layer, count in enumerate(self._deferred[:-1]):
            if count:
                on_cpu = [e for e in self._loads.order(step, layer) if domain[layer, e] == CPU]
                on_cpu.sort(key=lambda expert: -int(counts[layer, expert]))
                deferred[layer, on_cpu[max(0, len(on_cpu) - count) :]] = True
        return deferred

    def _fetch(self, layer: int, missed: list[int], domain: Integers) -> list[Transfer]:
        """Fetch the misses that the GPU did not load to compute them."""
        wanted = [expert for expert in missed if domain[layer, expert] != GPU]
        if wanted:
            self._costs.require("pcie")
        return [
            Transfer(PCIE, int(self._costs.fetch_ns[self._width[layer, e]]), "fetch", e)
            for e in wanted
        ]


def _layout(plan: Plan, layers: int, experts: int) -> Integers:
    if plan.layout is None:
        return np.full((layers, experts), STRIPED)
    rows = [[STRIPED if dimm is None else dimm for dimm in row] for row in plan.layout]
    return np.array(np.broadcast_to(np.array(rows, dtype=np.int64), (layers, experts)))


def _residents(plan: Plan, layers: int, experts: int) -> Flags:
    resident = np.zeros((layers, experts), dtype=np.bool_)
    rows = plan.resident or ((),)
    for layer in range(layers):
        resident[layer, list(rows[layer if len(rows) > 1 else 0])] = True
    return resident


def widths_of(plan: Plan) -> tuple[float, ...]:
    """Return the different widths that a plan names, rising."""
    return tuple(sorted({bits for row in plan.bits or () for bits in row}))


def _widths(plan: Plan, layers: int, experts: int) -> Integers:
    if plan.bits is None:
        return np.zeros((layers, experts), dtype=np.int64)
    known = widths_of(plan)
    rows = [np.broadcast_to(np.searchsorted(known, row), (experts,)) for row in plan.bits]
    return np.array(np.broadcast_to(np.array(rows), (layers, experts)))
