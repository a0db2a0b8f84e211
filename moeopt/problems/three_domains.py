"""TriMoE's machine as one table: each way to run an expert, and what it keeps busy for how long.

A *mode* is a way to run an expert: a path (GPU, CPU or NDP), from one of its copies, perhaps after
a migration. Its *entries* say for how many ns it keeps a resource busy: one member of a group of
alike devices, or all of them (`ALL`), as the read of a striped expert does. Groups are the GPU, the
CPU, the DIMMs, the PCIe link and the memory channels; each member is serial (TriMoE Eq. 5 and 6),
and the makespan is the busiest member's time (Eq. 7). What only must not run out, such as a
migration's window, is a *budget*: its entries count against a limit and not in the makespan.

Channels, a base load, runs in two parts and further copies are more entries and more modes. Loads,
rows of CP-SAT, the Lagrangian bound, tasks of an execution and bars of a picture all read this
table. Checkers, GMPL models and second checkers do not: they judge what is made of it. Loops that
take microseconds read the same numbers in columns (`moeopt.problems.device_loads`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.algorithms.lagrangian import multiplicative_weights
from moeopt.problems.device_loads import (
    CHANNEL,
    DRAM,
    GPU,
    NDP,
    OWN,
    PCIE,
    PLACE,
    READ,
    STRIPED_READS,
)
from moeopt.problems.host_memory import HostMemory

if TYPE_CHECKING:
    from moeopt.core.formulation import IntVar, LinearExpr, cp_model

ALL = -1
"""In the place of a member: every member of the group."""

ROUNDS = 20
"""Updates of the multipliers."""

SCALE = 4096
"""Multipliers are rounded to this resolution before the bound is computed in integers."""

SMOOTHING = 0.05
"""Weight of the members' mean square against the makespan in a descent."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Path = Literal["gpu", "cpu", "ndp"]
Kind = Literal["work", "read", "transfer"]

PATHS: tuple[Path, ...] = ("gpu", "cpu", "ndp")
"""In the order that breaks ties."""


class RunMode(NamedTuple):
    """The path of a mode, which copy or place it is run from, and the migration before."""

    path: Path
    copy: int = 0
    migration: object = None


@dataclass(frozen=True)
class Group:
    """Serial devices that are alike: their names, and for how long each is busy before any expert.

    `base` is in ns, of shape (members,).
    """

    name: str
    members: tuple[str, ...]
    base: Ints


@dataclass(frozen=True)
class Budget:
    """What entries use up, by member: the sum is at most `limit`, of shape (members,)."""

    name: str
    members: tuple[str, ...]
    limit: Ints


class ModeEntry(NamedTuple):
    """One entry of a mode in words: `member` is one that it keeps busy, by its name."""

    member: str
    ns: int
    kind: Kind


@dataclass(frozen=True)
class ModeTable:
    """All modes of some experts, and their entries.

    Attributes
    ----------
    groups, budgets
        The resources: entries count them in this order, the groups first.
    owner
        Of each mode, the expert that it runs: rising numbers from 0. A solution has one mode each.
    label
        What each mode stands for.
    start, resource, member, ns
        Mode m has the entries ``start[m]`` to ``start[m + 1]``: number of the resource, of its
        member (or `ALL`), and ns.
    """

    groups: tuple[Group, ...]
    budgets: tuple[Budget, ...]
    owner: Ints
    label: tuple[RunMode, ...]
    start: Ints
    resource: Ints
    member: Ints
    ns: Ints

    @cached_property
    def experts(self) -> int:
        """How many experts have modes."""
        return int(self.owner[-1]) + 1 if len(self.owner) else 0

    @cached_property
    def first(self) -> Ints:
        """The first mode of each expert."""
        return np.flatnonzero(np.diff(self.owner, prepend=-1))

    def loads(self, chosen: Ints) -> list[Ints]:
        """Return for how long each member of each group is busy, and what budgets are used.

        Parameters
        ----------
        chosen
            Modes that are taken, in any order, as numbers.
        """
        taken = np.zeros(len(self.owner), np.int64)
        np.add.at(taken, chosen, 1)
        return self._split(self._busy(taken))

    def makespan(self, chosen: Ints) -> int:
        """Return when the busiest device is done (Eq. 7), in ns."""
        return max(int(load.max(initial=0)) for load in self.loads(chosen)[: len(self.groups)])

    @cached_property
    def grid(self) -> int:
        """What every load, and so every makespan, is a multiple of: the times' common divisor."""
        timed = self.ns[self.resource < len(self.groups)]
        bases = [int(base) for group in self.groups for base in group.base]
        return gcd(int(np.gcd.reduce(timed)) if len(timed) else 0, *bases) or 1

    @cached_property
    def longest(self) -> int:
        """The sum over the experts of the longest that each may keep some device busy, in ns."""
        most = np.zeros(self.experts, np.int64)
        np.maximum.at(most, self.owner[self._mode_of], self.ns)
        return int(most.sum())

    def entries(self, mode: int) -> Iterator[ModeEntry]:
        """Yield what a mode keeps busy, member by member.

        On a device of its own path it is work, on the PCIe link a transfer, else a host's read.
        """
        path = self.label[mode].path
        for at in range(int(self.start[mode]), int(self.start[mode + 1])):
            group = self.groups[self.resource[at]]
            on_path = group.name == path or (path == "ndp" and group.name == "dimm")
            kind: Kind = "work" if on_path else "transfer" if group.name == "pcie" else "read"
            member = int(self.member[at])
            for name in group.members if member == ALL else group.members[member : member + 1]:
                yield ModeEntry(name, int(self.ns[at]), kind)

    def sum(
        self, name: str, members: Sequence[int], variables: Sequence["IntVar"], unit: int
    ) -> "LinearExpr":
        """Return what the modes that are taken keep busy or use up, as an expression.

        Parameters
        ----------
        name, members
            A group or budget, and for which of its members entries are summed; `ALL` for those of
            all of them at once.
        variables
            One for each mode.
        unit
            A divisor of all the entries: the sum counts in steps of it.
        """
        from moeopt.core.formulation import cp_model  # CP-SAT is imported by who has a model

        wanted = np.flatnonzero(
            (self.resource == self._number(name)) & np.isin(self.member, members)
        )
        modes, steps = self._mode_of[wanted].tolist(), (self.ns[wanted] // unit).tolist()
        chosen = [variables[mode] for mode in modes]
        return cp_model.LinearExpr.weighted_sum([0, *chosen], [0, *steps])

    def add_serial(
        self,
        model: "cp_model.CpModel",
        name: str,
        variables: Sequence["IntVar"],
        makespan: "IntVar",
        unit: int,
        horizon: int,
        every: str = "",
    ) -> None:
        """Post that each member of a group is busy for at most the makespan.

        Parameters
        ----------
        variables
            One for each mode; a group without members has no row.
        unit
            A divisor of all times: the rows count in steps of it.
        horizon
            No sum is more, in such steps.
        every
            Name of a variable for the sum of what keeps all members busy alike, so that CP-SAT
            adds it up once; "" for a sum in each row.
        """
        group = self.groups[self._number(name)]
        base = (group.base // unit).tolist()
        if not every:
            for member in range(len(group.members)):
                busy = self.sum(name, (ALL, member), variables, unit)
                model.add(base[member] + busy <= makespan)
            return
        common = model.new_int_var(0, horizon, every)
        model.add(common == self.sum(name, (ALL,), variables, unit))
        for member in range(len(group.members)):
            model.add(
                common + self.sum(name, (member,), variables, unit) + base[member] <= makespan
            )

    def longest_expert(self) -> int:
        """Return the largest over the experts of the least that each keeps some device busy, in ns.

        That is a lower bound on the makespan; on a device with a base load, that comes on top.
        """
        busy = np.zeros(len(self.owner), np.int64)
        timed = self.resource < len(self.groups)
        base = np.concatenate([self._base, np.zeros(len(self._sizes), np.int64)])[self._place]
        np.maximum.at(busy, self._mode_of[timed], (base + self.ns)[timed])
        return int(np.minimum.reduceat(busy, self.first).max())

    def unavoidable(self, name: str) -> int:
        """Return the most that some member of a group is busy at least, in ns; 0 without members.

        Each expert keeps a member busy for at least the least over its modes. Loads are sums, so
        the sum of these is a lower bound on the member's load, and on the makespan.
        """
        group, number = self.groups[self._number(name)], self._number(name)
        size = len(group.members)
        if not size:
            return 0
        busy = np.zeros((len(self.owner), size + 1), np.int64)  # the last for all members
        mine = self.resource == number
        np.add.at(busy, (self._mode_of[mine], self.member[mine]), self.ns[mine])
        least = np.minimum.reduceat(busy[:, :-1] + busy[:, -1:], self.first)
        return int((group.base + least.sum(axis=0)).max())

    def descended(self, chosen: Ints) -> Ints:
        """Return the modes to which steepest descent leads, one for each expert as in `chosen`.

        Each time the one change of mode is made that lowers most the makespan plus `SMOOTHING`
        times the members' mean square over it: relief counts before it shows.
        """
        size, chosen = sum(len(group.members) for group in self.groups), chosen.copy()
        busy = np.zeros((len(self.owner), int(self._offset[-1]) + len(self._sizes)), np.int64)
        np.add.at(busy, (self._mode_of, self._place), self.ns)
        own, every = np.split(busy, self._offset[-1:], axis=1)
        adds = (own + np.repeat(every, self._sizes, axis=1))[:, :size].astype(np.float64)
        load = self._base[:size] + adds[chosen].sum(axis=0)
        while True:
            after = load - adds[chosen][self.owner] + adds
            span = np.maximum(after.max(axis=1), 1.0)
            value = span + SMOOTHING * (after**2).mean(axis=1) / span
            best = int(value.argmin())
            if value[best] >= value[chosen[0]] * (1 - 1e-9):  # which changes nothing
                return chosen
            load = after[best]
            chosen[self.owner[best]] = best

    def lagrangian_bound(
        self, phases: Sequence[tuple[int, Flags | None]] = ((ROUNDS, None),), scale: int = SCALE
    ) -> int:
        """Return a lower bound on the makespan: the rows of all resources relaxed.

        Proof. For any multipliers w >= 0 of the groups' members and p >= 0 of the budgets', the
        makespan T of a solution is at least each member's load, and each budget's limit at least
        its use. So T sum(w) >= w base + sum over experts of the price of its mode - p limit, where
        a mode's price is the sum of its entries times their multipliers, those of all members for
        `ALL`. Each expert takes one of its modes, and none is cheaper than its cheapest. Any
        multipliers give a valid bound; the best ones give the linear relaxation. Multiplicative
        updates raise those of what the cheapest modes overload. They run in floats; the value
        returned is computed in integers from multipliers rounded to integers.

        Parameters
        ----------
        phases
            Rounds of updates, and which modes may be taken meanwhile (None: all; each expert has
            one). The bound holds for solutions of the last phase's modes.
        scale
            Multipliers are rounded to this resolution.
        """
        ascent, able = _Ascent(self), np.ones(len(self.owner), np.bool_)
        for rounds, only in phases:
            able = np.ones(len(self.owner), np.bool_) if only is None else only
            ascent.improve(rounds, able)
        return ascent.bound(able, scale)

    def limited(
        self, budgets: Sequence[Budget], migrations: Sequence[object], uses: Ints
    ) -> "ModeTable":
        """Return the table with budgets of one member each, and what each mode uses of them.

        Parameters
        ----------
        migrations
            For the modes' labels: the migration before each.
        uses
            Shape (modes, budgets).
        """
        modes, number = np.nonzero(uses)
        mode = np.concatenate([self._mode_of, modes])
        order = np.argsort(mode, kind="stable")
        label = [of._replace(migration=by) for of, by in zip(self.label, migrations, strict=True)]
        counts = np.bincount(mode, minlength=len(self.owner))
        resources = np.concatenate([self.resource, len(self.groups) + number])
        return replace(
            self,
            budgets=tuple(budgets),
            label=tuple(label),
            start=np.concatenate([[0], counts.cumsum()]),
            resource=resources[order],
            member=np.concatenate([self.member, np.zeros_like(number)])[order],
            ns=np.concatenate([self.ns, uses[modes, number]])[order],
        )

    @cached_property
    def _mode_of(self) -> Ints:
        """The mode of each entry."""
        return np.repeat(np.arange(len(self.owner)), np.diff(self.start))

    @property
    def _resources(self) -> tuple[Group | Budget, ...]:
        return (*self.groups, *self.budgets)

    @cached_property
    def _sizes(self) -> Ints:
        return np.array([len(of.members) for of in self._resources])

    @cached_property
    def _offset(self) -> Ints:
        """Where each resource's members begin in an array of all members."""
        return np.concatenate([[0], self._sizes.cumsum()])

    @cached_property
    def _place(self) -> Ints:
        """Where each entry's member is in such an array; of `ALL`, its resource behind the end."""
        own = self._offset[self.resource] + self.member
        return np.where(self.member == ALL, self._offset[-1] + self.resource, own)

    @cached_property
    def _base(self) -> Ints:
        """What every member is busy for before any expert; 0 of budgets."""
        limits = [np.zeros_like(budget.limit) for budget in self.budgets]
        return np.concatenate([*(group.base for group in self.groups), *limits])

    def _number(self, name: str) -> int:
        return [of.name for of in self._resources].index(name)

    def _busy(self, taken: Ints) -> Ints:
        """Return the load of every member if each mode is taken so often."""
        size = int(self._offset[-1])
        busy, of_mode = np.zeros(size + len(self._sizes), np.int64), taken[self._mode_of]
        used = np.flatnonzero(of_mode)
        np.add.at(busy, self._place[used], self.ns[used] * of_mode[used])
        return np.asarray(self._base + busy[:size] + np.repeat(busy[size:], self._sizes))

    def _split(self, busy: Ints) -> list[Ints]:
        return np.split(busy, self._offset[1:-1])

    def _prices(self, weights: NDArray[Any]) -> NDArray[Any]:
        """Return each mode's price if a ns of each member costs so much."""
        of_all = [weights[a:b].sum() for a, b in pairwise(self._offset.tolist())]
        priced = self.ns * np.concatenate([weights, of_all])[self._place]
        if priced.dtype != object:
            return np.bincount(self._mode_of, priced, len(self.owner))
        prices = np.zeros(len(self.owner), object)
        np.add.at(prices, self._mode_of, priced)
        return prices


def table_of(
    memory: HostMemory,
    dimms: int,
    columns: Ints,
    owner: Ints,
    copies: Sequence[int],
    two_parts: bool,
    able: Flags | None = None,
) -> ModeTable:
    """Return the modes of experts whose costs are at hand in columns: one per copy of an expert.

    Parameters
    ----------
    memory
        The instance, or whatever has its channels and base load.
    columns
        As `moeopt.problems.device_loads.table_for` returns them; a column of the base load, if any,
        is left out.
    owner, copies
        Of each column, the expert (numbers from 0, rising), and which of its copies it is.
    two_parts
        Whether transfers to the GPU are resources of their own.
    able
        Which of GPU, CPU and NDP each column may be run by, shape (columns, 3). None: all.

    Returns
    -------
    ModeTable
        Of each column the modes on GPU, CPU and, where it is localized, NDP. Groups are "gpu",
        "cpu", "dimm"; then "pcie" and "channel", with members where the instance has them.
    """
    size, newer = len(owner), len(columns) > PCIE
    columns = columns[:, :size]
    striped = columns[PLACE] == STRIPED_READS
    on_dimm = np.where(striped, ALL, columns[PLACE] - OWN)
    nothing = np.zeros(size, np.int64)
    on_channel = columns[CHANNEL] - 1 if newer else nothing  # 0 there stands for all of them
    resources, members, times = [], [], []
    for path in range(3):
        host = path != NDP
        resources.append([path if host else 0, 2, 3, 4])
        members.append([nothing, on_dimm, nothing, on_channel])
        times.append(
            [
                columns[path] if host else nothing,
                columns[DRAM + path],
                columns[PCIE] if newer and path == GPU else nothing,
                columns[READ + path] if newer and host else nothing,
            ]
        )
    there = np.stack([np.ones(size, np.bool_), np.ones(size, np.bool_), ~striped], axis=1)
    there = there if able is None else there & able
    ns, member = (np.array(of).transpose(2, 0, 1)[there] for of in (times, members))
    resource = np.broadcast_to(np.array(resources), (size, 3, 4))[there]
    kept = ns > 0
    column, run = np.nonzero(there)
    names = sorted(set(memory.channels or ()))
    base = np.array([memory.base_ns])
    return ModeTable(
        groups=(
            Group("gpu", ("GPU",), base),
            Group("cpu", ("CPU",), np.zeros(1, np.int64)),
            _free("dimm", [f"DIMM {number}" for number in range(dimms)]),
            _free("pcie", ["PCIe"] if two_parts else []),
            _free("channel", [f"channel {name}" for name in names]),
        ),
        budgets=(),
        owner=owner[column],
        label=tuple(
            RunMode(PATHS[to], copies[at])
            for at, to in zip(column.tolist(), run.tolist(), strict=True)
        ),
        start=np.concatenate([[0], kept.sum(axis=1).cumsum()]),
        resource=resource[kept],
        member=member[kept],
        ns=ns[kept],
    )


def _free(name: str, members: Sequence[str]) -> Group:
    """Return a group of devices that nothing keeps busy before the experts."""
    return Group(name, tuple(members), np.zeros(len(members), np.int64))


class _Ascent:
    """Multipliers of a table's members, and the best so far.

    Those of devices sum to 1; those of budgets are counted in what the makespan may come to, per
    unit of their limits.
    """

    def __init__(self, table: ModeTable) -> None:
        self.table = table
        self.devices = sum(len(group.members) for group in table.groups)
        size = int(table._offset[-1])
        self.log_w = np.zeros(size)
        limits = [budget.limit for budget in table.budgets]
        self.limit = np.concatenate([np.zeros(self.devices, np.int64), *limits])
        self.span = 1.0
        self.best = -np.inf, (np.arange(size) < self.devices).astype(np.float64)

    def improve(self, rounds: int, able: Flags) -> None:
        """Raise the multipliers of whatever the cheapest modes that may be taken overload.

        The best of these rounds replaces what was known: with more modes bounds are lower.
        """
        table, devices = self.table, self.devices
        room = np.maximum(self.limit, 1).astype(np.float64)
        room[:devices] = self.span

        def multipliers(weights: Floats) -> Floats:
            w: Floats = weights / weights[:devices].sum()
            w[devices:] *= self.span / room[devices:]
            return w

        def dual(weights: Floats) -> tuple[float, Floats]:
            w = multipliers(weights)
            prices = np.where(able, table._prices(w), np.inf)
            least = np.minimum.reduceat(prices, table.first)
            at = np.flatnonzero(prices == least[table.owner])  # of equally cheap modes the first
            chosen = np.zeros(len(prices), np.int64)
            chosen[at[np.unique(table.owner[at], return_index=True)[1]]] = 1
            value = float(least.sum() + w @ (table._base - self.limit))
            return value, table._busy(chosen) / room

        found = multiplicative_weights(dual, self.log_w, rounds)
        self.log_w, self.best = found.logarithms, (found.value, multipliers(found.weights))
        self.span = max(found.value, 1.0)

    def bound(self, able: Flags, scale: int) -> int:
        """Return the best bound, computed in Python's integers, which do not overflow."""
        table = self.table
        w = np.array([round(x * scale) for x in self.best[1].tolist()], dtype=object)
        prices = table._prices(w)
        prices[~able] = prices.max() + 1
        least = np.minimum.reduceat(prices, table.first).sum()
        total = least + w @ (table._base.astype(object) - self.limit.astype(object))
        return max(int(-(-total // w[: self.devices].sum())), 0)
