"""The CP-SAT model: one method per constraint ID (`formulations/relayout/spec.md`)."""

from collections.abc import Callable, Iterator
from typing import ClassVar

from moeopt.core.formulation import Formulation, IntVar, LinearExpr, cp_model
from moeopt.core.rows import take_out_divisor
from moeopt.problems.three_domains import RunMode

from .bounds import objective_grid
from .instance import (
    DOMAINS,
    IN_MEMORY,
    STRIPED,
    Domain,
    Instance,
    Migration,
    Solution,
    longest_ns,
    modes_of,
)


class Variables:
    """Binaries for one active expert, made by the model's own `new`.

    Attributes
    ----------
    hit
        It runs on the GPU from the GPU's memory. A non-resident expert is prefetched for that, and
        only for that: a prefetch is of no use to an expert that runs elsewhere.
    runs
        By (domain, place): it runs there while its host copy lies on that DIMM, or striped. On the
        GPU this is a miss, which a resident expert does not have.
    stripe
        Its host copy is striped by a migration; None for an expert that is striped already.
    localize, rebalance
        Its host copy is brought to that DIMM, by DIMM; no entry for the DIMM it lies on.
    """

    def __init__(self, instance: Instance, row: int, new: Callable[[str], IntVar]) -> None:
        expert = instance.experts[row]
        self.row, self.expert = row, expert
        self.now = STRIPED if expert.dimm is None else expert.dimm
        places = [STRIPED, *range(instance.dimms)]
        able = [domain for domain in DOMAINS if not (domain == "gpu" and expert.resident)]
        self.hit = new(f"hit_{row}")
        self.runs: dict[tuple[Domain, int], IntVar] = {
            (domain, place): new(f"{domain}_{row}_{'s' if place == STRIPED else place}")
            for place in places
            for domain in able
        }
        self.stripe = None if self.now == STRIPED else new(f"stripe_{row}")
        elsewhere = [dimm for dimm in range(instance.dimms) if dimm != self.now]
        self.localize = {dimm: new(f"localize_{row}_{dimm}") for dimm in elsewhere}
        self.rebalance = {dimm: new(f"rebalance_{row}_{dimm}") for dimm in elsewhere}

    @property
    def prefetch(self) -> LinearExpr:
        """The variable of its prefetch; None for a resident expert."""
        return None if self.expert.resident else self.hit

    @property
    def relayouts(self) -> list[IntVar]:
        """The variables of its migrations between the layouts."""
        return [*([] if self.stripe is None else [self.stripe]), *self.localize.values()]

    @property
    def rebalances(self) -> list[IntVar]:
        """The variables of its migrations between DIMMs."""
        return list(self.rebalance.values())

    def of(self, mode: RunMode) -> IntVar:
        """Return the variable of a mode of `modes_of`."""
        return self.hit if mode.copy == IN_MEMORY else self.runs[mode.path, mode.copy]

    def at(self, *places: int) -> list[IntVar]:
        """Return the variables of its runs while its host copy lies on one of `places`."""
        return [run for (_, place), run in self.runs.items() if place in places]

    def leaves(self) -> list[IntVar]:
        """Return the variables of its migrations to a DIMM that it does not lie on."""
        return [*self.localize.values(), *self.rebalance.values()]

    def migrations(self, value: Callable[[IntVar], int]) -> Iterator[Migration]:
        """Yield its migrations, in an order in which they end where it runs.

        Only with a rule left out there are several: then it is striped before it is localized.
        """
        number = self.expert.expert
        if self.prefetch is not None and value(self.prefetch):
            yield Migration(expert=number, kind="prefetch")
        if self.stripe is not None and value(self.stripe):
            yield Migration(expert=number, kind="stripe")
        for dimm in self.localize:
            if value(self.localize[dimm]):
                yield Migration(expert=number, kind="localize", dimm=dimm)
            if value(self.rebalance[dimm]):
                yield Migration(expert=number, kind="rebalance", dimm=dimm)

    def domain(self, value: Callable[[IntVar], int]) -> Domain | None:
        """Return where it runs, or None if nowhere: a rule may have been left out."""
        if value(self.hit):
            return "gpu"
        return next((domain for (domain, _), run in self.runs.items() if value(run)), None)


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

    whole = ("relayouts",)

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = objective_grid(instance)
        self.model = cp_model.CpModel()
        new = self.model.new_bool_var
        rows = [row for row, expert in enumerate(instance.experts) if expert.tokens]
        self.active = [Variables(instance, row, new) for row in rows]
        self.modes = modes_of(instance)
        modes = zip(self.modes.owner.tolist(), self.modes.label, strict=True)
        self.chosen = [self.active[number].of(mode) for number, mode in modes]
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
        take_out_divisor(self.model.add(need <= self.instance.pcie_window_ns))

    def re_c7_dimm_link_window(self) -> None:
        """Post RE-C7: layout changes and moves fit into the window of the one link."""
        if self.instance.relayout_share_ns is not None:
            return
        relayouts = cp_model.LinearExpr.sum([v for of in self.active for v in of.relayouts])
        rebalances = cp_model.LinearExpr.sum([v for of in self.active for v in of.rebalances])
        need = relayouts * self.instance.relayout_ns + rebalances * self.instance.rebalance_ns
        take_out_divisor(self.model.add(need <= self.instance.dimm_link_window_ns))

    def re_c8_gpu_is_serial(self) -> None:
        """Post RE-C8: the GPU's costs sum to at most the makespan."""
        self._serial("gpu")

    def re_c9_cpu_is_serial(self) -> None:
        """Post RE-C9: the CPU's costs sum to at most the makespan."""
        self._serial("cpu")

    def re_c10_dimms_serve_ndp_and_hosts(self) -> None:
        """Post RE-C10: each DIMM's NDP work and host reads sum to at most the makespan.

        Reads of striped experts load every DIMM alike, so they are summed once, in a variable.
        """
        self._serial("dimm", every="striped_reads")

    def re_c11_channels_serve_hosts(self) -> None:
        """Post RE-C11: each memory channel's host reads sum to at most the makespan."""
        self._serial("channel")

    def re_c12_pcie_is_serial(self) -> None:
        """Post RE-C12: transfers of the experts run on the GPU sum to at most the makespan."""
        self._serial("pcie")

    def re_c13_own_links(self) -> None:
        """Post RE-C13: layout changes and moves fit into the window of each DIMM's own link."""
        i, share = self.instance, self.instance.relayout_share_ns
        if share is None:
            return
        relayouts = cp_model.LinearExpr.sum([v for of in self.active for v in of.relayouts])
        total = self.model.new_int_var(0, 2 * len(self.active), "relayouts")
        self.model.add(total == relayouts)
        for dimm in range(i.dimms):
            to = [of for of in self.active if of.now != dimm]
            here = [of for of in self.active if of.now == dimm]
            changes = [of.localize[dimm] for of in to] + [of.stripe for of in here]
            moves = [of.rebalance[dimm] for of in to]
            moves += [move for of in here for move in of.rebalances]
            ends = cp_model.LinearExpr.sum(changes) * (i.relayout_ns - share)
            ends += cp_model.LinearExpr.sum(moves) * i.rebalance_ns
            take_out_divisor(self.model.add(total * share + ends <= i.dimm_link_window_ns))

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.model.add(self.makespan <= objective // self.objective_unit)

    def decode(self, value: Callable[[IntVar], int]) -> Solution:
        """Read the decision off the solver's values; an expert that runs nowhere gets None."""
        assignment: list[Domain | None] = [None] * len(self.instance.experts)
        migrations: list[Migration] = []
        for of in self.active:
            assignment[of.row] = of.domain(value)
            migrations += of.migrations(value)
        return Solution(
            instance=self.instance.name,
            migrations=tuple(migrations),
            assignment=tuple(assignment),
        )

    def _prefetches(self) -> LinearExpr:
        chosen = [of.prefetch for of in self.active if of.prefetch is not None]
        return cp_model.LinearExpr.sum(chosen)

    def _serial(self, name: str, every: str = "") -> None:
        """Post the rows of a group of devices, see `ModeTable.add_serial`."""
        self.modes.add_serial(
            *(self.model, name, self.chosen, self.makespan, self.objective_unit),
            *(self.horizon, every),
        )
