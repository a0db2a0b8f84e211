"""The CP-SAT model: one method per constraint ID (`formulations/relayout/spec.md`)."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from ortools.sat.python import cp_model

from moeopt.core.formulation import Formulation

from .bounds import objective_grid
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


class Model(Formulation):
    """Booleans of `Variables` and the makespan, counted in steps of the costs' common divisor.

    Attributes
    ----------
    model
        The CP-SAT model; its objective is in units of `objective_unit` ns.
    objective_unit
        ns per unit of the model's objective.
    """

    # As in tri_domain: on one worker CP-SAT leaves rows of booleans out of its relaxation unless
    # told otherwise, and this relaxation is nearly tight.
    parameters: ClassVar = {"linearization_level": 2}

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = objective_grid(instance)
        self.model = cp_model.CpModel()
        self.active = variables_of(instance, self.model.new_bool_var)
        self.horizon = 3 * longest_ns(instance) // self.objective_unit
        self.makespan = self.model.new_int_var(0, self.horizon, "makespan")
        for of in self.active:
            self._host_copy_lies_where_migrations_bring_it(of)
        self.model.minimize(self.makespan)

    def _host_copy_lies_where_migrations_bring_it(self, of: Variables) -> None:
        """Tie runs to places: what the words of the decision mean, no rule of the problem."""
        for dimm in of.localize:
            brought = of.localize[dimm] + of.rebalance[dimm]
            self.model.add(cp_model.LinearExpr.sum(of.at(dimm)) <= brought)
        if of.stripe is not None:
            self.model.add(cp_model.LinearExpr.sum(of.at(STRIPED)) <= of.stripe)
            self.model.add_at_most_one([*of.at(of.now), of.stripe])
        self.model.add_at_most_one([*of.at(STRIPED, of.now), *of.leaves()])

    def re_c1_one_domain(self) -> None:
        """Post RE-C1: each expert with tokens runs in exactly one domain."""
        for of in self.active:
            self.model.add_exactly_one([of.hit, *of.runs.values()])

    def re_c2_ndp_where_localized(self) -> None:
        """Post RE-C2: an expert that is striped after the migrations does not run on NDP."""
        for of in self.active:
            self.model.add(of.runs["ndp", STRIPED] == 0)

    def re_c3_one_migration(self) -> None:
        """Post RE-C3: an expert migrates at most once."""
        for of in self.active:
            prefetch = [] if of.prefetch is None else [of.prefetch]
            self.model.add_at_most_one([*prefetch, *of.relayouts, *of.rebalances])

    def re_c4_migration_fits(self) -> None:
        """Post RE-C4: only striped experts are localized, only localized ones rebalanced.

        A localized expert would have to be striped before it is localized elsewhere, which RE-C3
        forbids. Migrations that change nothing have no variable.
        """
        for of in self.active:
            striped = 1 if of.stripe is None else of.stripe
            self.model.add(cp_model.LinearExpr.sum(list(of.localize.values())) <= striped)
            self.model.add(cp_model.LinearExpr.sum(of.rebalances) <= 1 - striped)

    def re_c5_free_slots(self) -> None:
        """Post RE-C5: prefetches take at most the free slots."""
        self.model.add(self._prefetches() <= self.instance.hbm_free_slots)

    def re_c6_pcie_window(self) -> None:
        """Post RE-C6: prefetches fit into the PCIe window."""
        need = self._prefetches() * self.instance.prefetch_ns
        self.model.add(need <= self.instance.pcie_window_ns)

    def re_c7_dimm_link_window(self) -> None:
        """Post RE-C7: layout changes and moves fit into the window of the one link."""
        if self.instance.relayout_share_ns is not None:
            return
        relayouts = cp_model.LinearExpr.sum([v for of in self.active for v in of.relayouts])
        rebalances = cp_model.LinearExpr.sum([v for of in self.active for v in of.rebalances])
        need = relayouts * self.instance.relayout_ns + rebalances * self.instance.rebalance_ns
        self.model.add(need <= self.instance.dimm_link_window_ns)

    def re_c8_gpu_is_serial(self) -> None:
        """Post RE-C8: the GPU's costs sum to at most the makespan."""
        hits = [(of.hit, hit_ns(of.expert)) for of in self.active]
        base = self.instance.base_ns // self.objective_unit
        self.model.add(self._steps([*hits, *self._host("gpu")]) + base <= self.makespan)

    def re_c9_cpu_is_serial(self) -> None:
        """Post RE-C9: the CPU's costs sum to at most the makespan."""
        self.model.add(self._steps(self._host("cpu")) <= self.makespan)

    def re_c10_dimms_serve_ndp_and_hosts(self) -> None:
        """Post RE-C10: each DIMM's NDP work and host reads sum to at most the makespan.

        Reads of striped experts load every DIMM alike, so they are summed once, in a variable.
        """
        every_dimm = self.model.new_int_var(0, self.horizon, "striped_reads")
        self.model.add(every_dimm == self._steps(self._busy(STRIPED)))
        for dimm in range(self.instance.dimms):
            self.model.add(every_dimm + self._steps(self._busy(dimm)) <= self.makespan)

    def re_c11_channels_serve_hosts(self) -> None:
        """Post RE-C11: each memory channel's host reads sum to at most the makespan."""
        read_ns = self.instance.dram_striped_ns
        striped = self._steps((run, read_ns) for run in striped_reads(self.active))
        for channel in sorted(set(self.instance.channels or ())):
            own = self._steps(channel_reads(self.instance, self.active, channel))
            self.model.add(striped + own <= self.makespan)

    def re_c12_pcie_is_serial(self) -> None:
        """Post RE-C12: transfers of the experts run on the GPU sum to at most the makespan."""
        self.model.add(self._steps(transfers(self.active)) <= self.makespan)

    def re_c13_own_links(self) -> None:
        """Post RE-C13: layout changes and moves fit into the window of each DIMM's own link."""
        i, share = self.instance, self.instance.relayout_share_ns
        if share is None:
            return
        relayouts = cp_model.LinearExpr.sum([v for of in self.active for v in of.relayouts])
        total = self.model.new_int_var(0, 2 * len(self.active), "relayouts")
        self.model.add(total == relayouts)
        for dimm in range(i.dimms):
            changes, moves = map(cp_model.LinearExpr.sum, ends_on(self.active, dimm))
            need = total * share + changes * (i.relayout_ns - share) + moves * i.rebalance_ns
            self.model.add(need <= i.dimm_link_window_ns)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.model.add(self.makespan <= objective // self.objective_unit)

    def decode(self, value: Callable[[Any], int]) -> Solution:
        """Read the decision off the solver's values; an expert that runs nowhere gets None."""
        return read_off(self.instance, self.active, value)

    def _prefetches(self) -> Any:
        chosen = [of.prefetch for of in self.active if of.prefetch is not None]
        return cp_model.LinearExpr.sum(chosen)

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

    def _steps(self, terms: Iterable[tuple[Any, int]]) -> Any:
        variables, steps = [0], [0]
        for variable, cost_ns in terms:
            variables.append(variable)
            steps.append(cost_ns // self.objective_unit)
        return cp_model.LinearExpr.weighted_sum(variables, steps)
