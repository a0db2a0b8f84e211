"""The feasibility subproblem of one makespan and one number of striped reads, put to CP-SAT.

The model has no target DIMMs (`formulations/relayout/spec.md`, "Decomposition by striped reads").
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event, Thread

from moeopt.core.clock import counts_work, spend
from moeopt.core.cpsat import Run
from moeopt.core.formulation import IntVar, LinearExpr, cp_model
from moeopt.core.search import Feasibility, Search
from moeopt.problems.relayout.instance import Domain, Kind, Migration, Solution
from moeopt.problems.relayout.migrations import link_use
from moeopt.problems.relayout.modes import Mode, Modes

POLL_S = 0.05

BUILD = 1e-5
"""Units of work for each expert and DIMM of a model, to build and to load it."""

FIRST_EFFORT = 0.03
FIRST_PASS = {"max_presolve_iterations": 1}
"""CP-SAT's effort and options for a first pass: it decides most subproblems, at half the cost."""

OPTIONS = {
    "linearization_level": 2,
    "symmetry_level": 0,  # looking for symmetries takes longer than most proofs
}


class Dimm:
    """The active experts (`rows`) that lie on one DIMM."""

    def __init__(self, modes: Modes, dimm: int) -> None:
        read, experts = modes.localized_read, modes.instance.experts
        self.rows = [row for row in modes.rows if modes.dimm[row] == dimm]
        stays = {
            mode.row: mode.stays
            for row in self.rows
            for mode in modes.of[row]
            if mode.domain == "ndp" and mode.kind is None
        }
        floors = (min(stays[row], read) for row in self.rows if not experts[row].resident)
        self._floors = sorted(floors, reverse=True)

    def least_leavers(self, capacity: int) -> int:
        """Return how many experts that are not resident must leave before `capacity` is enough."""
        load, leavers = sum(self._floors), 0
        while load > capacity:
            load -= self._floors[leavers]
            leavers += 1
        return leavers


@dataclass(frozen=True)
class Arrival:
    """What a DIMM sees of an expert that is brought to it.

    Attributes
    ----------
    length
        How long it keeps the DIMM busy, in steps.
    read, kind
        Whether a host reads it there, told apart only if there are channels, and by which kind of
        migration it came, only if every DIMM has its own link.
    """

    length: int
    read: bool
    kind: Kind | None


class Subproblem:
    """The model for one makespan and one number of striped reads.

    Parameters
    ----------
    modes, dimms
        The instance, and its DIMMs.
    makespan, reads
        In steps; how many experts the hosts read striped.
    """

    def __init__(self, modes: Modes, dimms: list[Dimm], makespan: int, reads: int) -> None:
        self.modes, self.makespan, self.reads = modes, makespan, reads
        self.capacity = makespan - reads * modes.striped_read
        self.effort_spent = 0.0
        self.model = cp_model.CpModel()
        self.chosen: dict[int, list[tuple[Mode, IntVar]]] = {}
        self.arrivals: dict[Arrival, list[IntVar]] = {}
        self._choose()
        self._fill_hosts()
        self._limit_migrations()
        self._bring_arrivals()
        self._fill_channels()
        self._fill_own_links()
        for number, dimm in enumerate(dimms):
            self._fill_dimm(number)
            self._let_leave(dimm)

    def solve(self, search: Search, effort: float) -> Feasibility:
        """Decide with at most `effort` of CP-SAT's deterministic time after the first pass."""
        feasibility = self._solve(search, FIRST_EFFORT, OPTIONS | FIRST_PASS)
        if feasibility == Feasibility.UNKNOWN and not search.stopped:
            feasibility = self._solve(search, effort, OPTIONS)
        return feasibility

    def _solve(self, search: Search, effort: float, options: Mapping[str, object]) -> Feasibility:
        run = Run(
            self.model,
            search.remaining_s,
            seed=search.seed,
            workers=search.workers,
            effort=effort,
            options=options,
        )
        ended = Event()
        watch = Thread(target=_stop_in_time, args=(run, search, ended), daemon=True)
        if not counts_work():  # its own limit ends it then
            watch.start()
        try:
            answer = run.solve(proves="infeasibility")
        finally:
            ended.set()
            if watch.is_alive():
                watch.join()
        self._value = answer.value
        self.effort_spent += answer.effort
        spend(BUILD * len(self.modes.rows) * self.modes.dimms)
        if answer.status == "infeasible":
            return Feasibility.INFEASIBLE
        return Feasibility.FEASIBLE if answer.found else Feasibility.UNKNOWN

    def decode(self) -> Solution:
        """Return the solution of a subproblem that was found feasible.

        The counts of arrivals on each DIMM are dealt out among the experts of that kind. One
        that is dealt its own DIMM does not migrate.
        """
        instance = self.modes.instance
        places = {
            arrival: [d for d, count in enumerate(counts) for _ in range(self._value(count))]
            for arrival, counts in self.arrivals.items()
        }
        migrations = []
        assignment: list[Domain | None] = [None] * len(instance.experts)
        for row, pairs in self.chosen.items():
            mode = next(mode for mode, variable in pairs if self._value(variable))
            assignment[row] = mode.domain
            place = None if mode.arrives is None else places[self._arrival(mode)].pop()
            if mode.kind is not None and (place is None or place != self.modes.dimm[row]):
                expert = instance.experts[row].expert
                migrations.append(Migration(expert=expert, kind=mode.kind, dimm=place))
        return Solution(
            instance=instance.name, migrations=tuple(migrations), assignment=tuple(assignment)
        )

    def _choose(self) -> None:
        """One mode per expert, of those that fit alone (RE-C1 to RE-C4)."""
        for row, modes in self.modes.of.items():
            self.chosen[row] = [
                (mode, self.model.new_bool_var(f"{row},{mode.domain},{mode.kind}"))
                for mode in modes
                if max(mode.gpu, mode.cpu) <= self.makespan
                and max(mode.stays, mode.arrives or 0) <= self.capacity
            ]
            self.model.add_exactly_one(variable for _, variable in self.chosen[row])

    def _fill_hosts(self) -> None:
        """Let GPU, CPU and PCIe end by the makespan (RE-C8, RE-C9, RE-C12), with so many reads."""
        self.model.add(self._sum(lambda c: c.gpu) + self.modes.base <= self.makespan)
        self.model.add(self._sum(lambda c: c.cpu) <= self.makespan)
        self.model.add(self._sum(lambda c: c.pcie) <= self.makespan)
        self.model.add(self._sum(lambda c: c.reads) == self.reads)

    def _limit_migrations(self) -> None:
        """Keep to the links' windows, summed (RE-C7), and to slots and PCIe's (RE-C5, RE-C6)."""
        window = link_use(self.modes.instance).window_ns
        self.model.add(self._sum(self.modes.link_ns) <= window)
        prefetches = self._sum(lambda c: c.kind == "prefetch")
        self.model.add(prefetches <= self.modes.prefetches)

    def _arrival(self, mode: Mode) -> Arrival:
        """Return what of a mode matters to the DIMM to which it brings its expert."""
        instance = self.modes.instance
        return Arrival(
            length=mode.arrives or 0,
            read=mode.on_channel and instance.channels is not None,
            kind=mode.kind if instance.relayout_share_ns is not None else None,
        )

    def _bring_arrivals(self) -> None:
        """Count arrivals by kind and DIMM; experts that arrive alike are all the same to it."""
        brought = defaultdict(list)
        for pairs in self.chosen.values():
            for mode, variable in pairs:
                if mode.arrives is not None:
                    brought[self._arrival(mode)].append(variable)
        for arrival, variables in brought.items():
            most, length = len(variables), arrival.length
            if length:
                most = min(most, self.capacity // length)
            self.arrivals[arrival] = [
                self.model.new_int_var(0, most, f"{arrival} to {d}")
                for d in range(self.modes.dimms)
            ]
            self.model.add(sum(self.arrivals[arrival]) == sum(variables))

    def _fill_dimm(self, dimm: int) -> None:
        """Let what stays and what arrives fit beside the striped reads (RE-C10)."""
        load = [mode.stays * variable for mode, variable in self._today_on([dimm]) if mode.stays]
        load += [arrival.length * counts[dimm] for arrival, counts in self.arrivals.items()]
        self.model.add(sum(load) <= self.capacity)

    def _fill_channels(self) -> None:
        """Let hosts' reads from a channel's DIMMs fit beside the striped reads (RE-C11)."""
        channels = self.modes.instance.channels or ()
        left = self.makespan - self.reads * self.modes.channel_read
        for channel in sorted(set(channels)):
            dimms = [dimm for dimm, of in enumerate(channels) if of == channel]
            reads = [
                variable
                for mode, variable in self._today_on(dimms)
                if mode.on_channel and mode.kind is None
            ]
            reads += [
                counts[dimm]
                for arrival, counts in self.arrivals.items()
                for dimm in dimms
                if arrival.read
            ]
            self.model.add(self.modes.localized_read * sum(reads) <= left)

    def _fill_own_links(self) -> None:
        """Let migrations fit into the window of each DIMM's own link (RE-C13)."""
        instance, share = self.modes.instance, self.modes.instance.relayout_share_ns
        if share is None:
            return
        changes = self._sum(lambda c: c.kind in ("stripe", "localize"))
        whole: dict[Kind | None, int] = {
            "stripe": instance.relayout_ns - share,
            "localize": instance.relayout_ns - share,
            "rebalance": instance.rebalance_ns,
        }
        for dimm in range(self.modes.dimms):
            busy = [share * changes]
            busy += [
                whole[mode.kind] * variable
                for mode, variable in self._today_on([dimm])
                if mode.kind in ("stripe", "rebalance")
            ]
            busy += [
                whole[arrival.kind] * counts[dimm] for arrival, counts in self.arrivals.items()
            ]
            self.model.add(sum(busy) <= instance.dimm_link_window_ns)

    def _today_on(self, dimms: Sequence[int]) -> Iterator[tuple[Mode, IntVar]]:
        """Yield the modes of the experts that lie on these DIMMs before the migrations."""
        for row, pairs in self.chosen.items():
            if self.modes.dimm[row] in dimms:
                yield from pairs

    def _let_leave(self, dimm: Dimm) -> None:
        """Post what is implied: so many experts leave a DIMM before its load fits."""
        if leavers := dimm.least_leavers(self.capacity):
            gone = [
                variable
                for row in dimm.rows
                for mode, variable in self.chosen[row]
                if mode.kind is not None
                or (mode.domain == "gpu" and self.modes.instance.experts[row].resident)
            ]
            self.model.add(sum(gone) >= leavers)

    def _sum(self, weight: Callable[[Mode], int]) -> LinearExpr:
        """Return the sum of a weight over the modes taken."""
        terms = [
            (variable, int(weight(mode)))
            for pairs in self.chosen.values()
            for mode, variable in pairs
            if weight(mode)
        ]
        return cp_model.LinearExpr.weighted_sum(*zip(*terms, strict=True)) if terms else 0


def _stop_in_time(run: Run, search: Search, ended: Event) -> None:
    """Stop CP-SAT when the search is told to stop."""
    while not ended.wait(POLL_S):
        if search.stopped:
            run.stop()
