"""The MILP model in PuLP: one method per constraint ID (`formulations/relayout/spec.md`)."""

from collections.abc import Callable, Iterable
from typing import Any

import pulp

from moeopt.core.formulation import Formulation, float_unit

from .instance import STRIPED, Domain, Instance, Solution, longest_ns
from .variables import (
    Variables,
    channel_reads,
    dimm_ns,
    ends_on,
    hit_ns,
    host_ns,
    read_off,
    striped_reads,
    transfers,
    variables_of,
)
from .windows import link_threshold_ns, own_link_threshold_ns, prefetch_limit


class Model(Formulation):
    """Binaries of `Variables` and a continuous makespan, in microseconds or coarser units.

    Attributes
    ----------
    model
        The PuLP problem; its objective is in units of `objective_unit` ns.
    objective_unit
        ns per unit of the model's objective, as `float_unit` chooses it.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = float_unit(longest_ns(instance))
        self.model = pulp.LpProblem("relayout", pulp.LpMinimize)
        self.active = variables_of(
            instance, lambda name: self.model.add_variable(name, cat="Binary")
        )
        self.makespan = self.model.add_variable("makespan", lowBound=0)
        self.model.setObjective(self.makespan + 0)
        for of in self.active:
            self._host_copy_lies_where_migrations_bring_it(of)

    def _host_copy_lies_where_migrations_bring_it(self, of: Variables) -> None:
        """Tie runs to places: what the words of the decision mean, no rule of the problem."""
        for dimm in of.localize:
            brought = of.localize[dimm] + of.rebalance[dimm]
            self.model += pulp.lpSum(of.at(dimm)) <= brought, f"brought_{of.row}_{dimm}"
        if of.stripe is not None:
            self.model += pulp.lpSum(of.at(STRIPED)) <= of.stripe, f"striped_{of.row}"
            self.model += pulp.lpSum(of.at(of.now)) <= 1 - of.stripe, f"not_striped_{of.row}"
        stays = pulp.lpSum(of.at(STRIPED, of.now))
        self.model += stays + pulp.lpSum(of.leaves()) <= 1, f"one_place_{of.row}"

    def re_c1_one_domain(self) -> None:
        """Post RE-C1: each expert with tokens runs in exactly one domain."""
        for of in self.active:
            self.model += of.hit + pulp.lpSum(of.runs.values()) == 1, f"RE_C1_{of.row}"

    def re_c2_ndp_where_localized(self) -> None:
        """Post RE-C2: an expert that is striped after the migrations does not run on NDP."""
        for of in self.active:
            self.model += of.runs["ndp", STRIPED] <= 0, f"RE_C2_{of.row}"

    def re_c3_one_migration(self) -> None:
        """Post RE-C3: an expert migrates at most once."""
        for of in self.active:
            prefetch = [] if of.prefetch is None else [of.prefetch]
            migrations = [*prefetch, *of.relayouts, *of.rebalances]
            if migrations:
                self.model += pulp.lpSum(migrations) <= 1, f"RE_C3_{of.row}"

    def re_c4_migration_fits(self) -> None:
        """Post RE-C4: only striped experts are localized, only localized ones rebalanced.

        A localized expert would have to be striped before it is localized elsewhere, which RE-C3
        forbids. Migrations that change nothing have no variable.
        """
        for of in self.active:
            if not of.localize:  # the only DIMM there is holds it
                continue
            striped = 1 if of.stripe is None else of.stripe
            self.model += pulp.lpSum(of.localize.values()) <= striped, f"RE_C4_localize_{of.row}"
            self.model += pulp.lpSum(of.rebalances) <= 1 - striped, f"RE_C4_rebalance_{of.row}"

    def re_c5_free_slots(self) -> None:
        """Post RE-C5: prefetches take at most the free slots."""
        if prefetches := self._prefetches():
            self.model += pulp.lpSum(prefetches) <= self.instance.hbm_free_slots, "RE_C5"

    def re_c6_pcie_window(self) -> None:
        """Post RE-C6: prefetches fit into the PCIe window.

        All take equally long: as many as the window holds, which floats cannot blur.
        """
        if prefetches := self._prefetches():
            self.model += pulp.lpSum(prefetches) <= prefetch_limit(self.instance), "RE_C6"

    def re_c7_dimm_link_window(self) -> None:
        """Post RE-C7: layout changes and moves fit into the window of the one link.

        The right-hand side is half-way between the largest total that fits and the smallest that
        does not: the same rule, and floats cannot blur it.
        """
        i = self.instance
        if i.relayout_share_ns is not None:
            return
        unit = float_unit(len(self.active) * max(i.relayout_ns, i.rebalance_ns))
        relayouts = pulp.lpSum(v for of in self.active for v in of.relayouts)
        rebalances = pulp.lpSum(v for of in self.active for v in of.rebalances)
        need = i.relayout_ns / unit * relayouts + i.rebalance_ns / unit * rebalances
        if need:
            self.model += need <= link_threshold_ns(i) / unit, "RE_C7"

    def re_c8_gpu_is_serial(self) -> None:
        """Post RE-C8: the GPU's costs sum to at most the makespan."""
        hits = [(of.hit, hit_ns(of.expert)) for of in self.active]
        load = self._units([*hits, *self._host("gpu")])
        self.model += load + self.instance.base_ns / self.objective_unit <= self.makespan, "RE_C8"

    def re_c9_cpu_is_serial(self) -> None:
        """Post RE-C9: the CPU's costs sum to at most the makespan."""
        self.model += self._units(self._host("cpu")) <= self.makespan, "RE_C9"

    def re_c10_dimms_serve_ndp_and_hosts(self) -> None:
        """Post RE-C10: each DIMM's NDP work and host reads sum to at most the makespan.

        Reads of striped experts load every DIMM alike, so they are summed once, in a variable.
        """
        every_dimm = self.model.add_variable("striped_reads", lowBound=0)
        self.model += every_dimm == self._units(self._busy(STRIPED)), "RE_C10_striped"
        for dimm in range(self.instance.dimms):
            load = every_dimm + self._units(self._busy(dimm))
            self.model += load <= self.makespan, f"RE_C10_{dimm}"

    def re_c11_channels_serve_hosts(self) -> None:
        """Post RE-C11: each memory channel's host reads sum to at most the makespan."""
        read_ns = self.instance.dram_striped_ns
        striped = self._units((run, read_ns) for run in striped_reads(self.active))
        for channel in sorted(set(self.instance.channels or ())):
            own = self._units(channel_reads(self.instance, self.active, channel))
            self.model += striped + own <= self.makespan, f"RE_C11_{channel}"

    def re_c12_pcie_is_serial(self) -> None:
        """Post RE-C12: transfers of the experts run on the GPU sum to at most the makespan."""
        self.model += self._units(transfers(self.active)) <= self.makespan, "RE_C12"

    def re_c13_own_links(self) -> None:
        """Post RE-C13: layout changes and moves fit into the window of each DIMM's own link.

        The right-hand side is half-way between two totals, as in RE-C7.
        """
        i, share = self.instance, self.instance.relayout_share_ns
        if share is None:
            return
        unit = float_unit(2 * len(self.active) * max(i.relayout_ns, i.rebalance_ns))
        total = self.model.add_variable("relayouts", lowBound=0)
        relayouts = pulp.lpSum(v for of in self.active for v in of.relayouts)
        self.model += total == relayouts, "RE_C13_relayouts"
        for dimm in range(i.dimms):
            changes, moves = map(pulp.lpSum, ends_on(self.active, dimm))
            need = share / unit * total + (i.relayout_ns - share) / unit * changes
            need += i.rebalance_ns / unit * moves
            self.model += need <= own_link_threshold_ns(i) / unit, f"RE_C13_{dimm}"

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.makespan.upBound = objective / self.objective_unit

    def decode(self, value: Callable[[Any], int]) -> Solution:
        """Read the decision off the solver's values; an expert that runs nowhere gets None."""
        return read_off(self.instance, self.active, value)

    def _prefetches(self) -> list[Any]:
        return [of.prefetch for of in self.active if of.prefetch is not None]

    def _host(self, host: Domain) -> Iterable[tuple[Any, int]]:
        for of in self.active:
            for (domain, place), run in of.runs.items():
                if domain == host:
                    yield run, host_ns(of.expert, domain, place)

    def _busy(self, dimm: int) -> Iterable[tuple[Any, int]]:
        """Yield the runs of host copies on `dimm` (or `STRIPED`), and how long each loads it."""
        for of in self.active:
            for (domain, place), run in of.runs.items():
                if place == dimm:
                    yield run, dimm_ns(self.instance, of.expert, domain, place)

    def _units(self, terms: Iterable[tuple[Any, int]]) -> Any:
        return pulp.LpAffineExpression((run, cost / self.objective_unit) for run, cost in terms)
