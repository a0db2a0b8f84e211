"""The step that runs: migrations executed on its loads, futures of them, and a decision for these.

Method ``robust`` is a two-stage program: the migrations come first and must fit their windows on
today's layout (RE-C3 to RE-C7, RE-C13), then the loads are known and the layer gets its best
schedule. What is minimised is the mean, or a quantile, of the makespans over a fixed sample of
futures.

The search adds, exchanges and drops migrations, steepest descent first, then from kicked local
optima. Thousands of candidates are told apart by a schedule that is built in some microseconds, on
a few of the futures first. The best of thousands on one sample is partly luck: so local optima, and
each without its last migrations, are compared on a second sample, with the best schedules. What is
reported has its value there, and doing nothing is among what is compared.

What a layout costs on sampled futures is the second stage, in compiled loops. All futures of a
layer differ in loads and costs only, so a layout (who is in the GPU's memory, and where each host
copy lies) is turned into a table of `moeopt.problems.device_loads` per future.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import checkpoint, spend
from moeopt.core.compiled import compiled, inner
from moeopt.core.futures import Draw, Futures, drawn_from
from moeopt.core.problem import EXACT, Run, Schedule
from moeopt.core.search import Search
from moeopt.problems.device_loads import (
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
from moeopt.problems.tri_domain.fixed_layout import scheduled
from moeopt.problems.tri_domain.threshold import NO_CUTOFF, Bracket
from moeopt.problems.tri_domain.threshold.incumbent import first_schedule
from moeopt.sim.traces.popularity import CostCurve, Forecast, fit

from .check import link_time_ns
from .fixed_layout import after_migrations
from .instance import COSTS, IN_MEMORY, STRIPED, TWO_PARTS, Expert, Instance, Migration, Solution
from .migrations import prefetch_allowed

EFFORT = 2**18
"""Labels that one future's best schedule may take: some milliseconds."""


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


@inner
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


@dataclass(frozen=True)
class ExecutedMigrations:
    """A layer run after some migrations.

    Attributes
    ----------
    solution
        Valid for the instance that it was run on: migrations of experts without tokens, which
        change nothing and which the checker does not allow, are left out.
    makespan_ns
        Its objective.
    proven
        Whether no schedule is shorter after these migrations; a rule proves nothing.
    """

    solution: Solution
    makespan_ns: int
    proven: bool


def execute(
    instance: Instance, migrations: Iterable[Migration], schedule: Schedule = EXACT
) -> ExecutedMigrations:
    """Run a layer after migrations that were decided on other loads.

    Parameters
    ----------
    instance
        The loads that came, on the layout before the migrations.
    migrations
        As decided, e.g. on the instance of the predicted loads.
    schedule
        Decides what runs where, on the loads that came: "exact", "trimoe" or a function of a
        tri_domain instance.

    Raises
    ------
    InputError
        If a migration names an expert that the instance does not have, or if there is no such
        schedule.
    """
    decided = tuple(migrations)
    run = scheduled(after_migrations(instance, decided), schedule)
    kept = tuple(migration for migration in decided if migration.expert in run.domains)
    assignment = tuple(run.domains.get(expert.expert) for expert in instance.experts)
    solution = Solution(instance=instance.name, migrations=kept, assignment=assignment)
    return ExecutedMigrations(solution, run.makespan_ns, run.proven)


def run(instance: Instance, decision: Solution, schedule: Schedule) -> Run:
    """Return what a decision's migrations cost on the loads of `instance`; see `execute`."""
    executed = execute(instance, decision.migrations, schedule)
    return Run(executed.makespan_ns, unproven=int(schedule == EXACT and not executed.proven))


def adopted(instance: Instance, decision: Solution, schedule: Schedule) -> Solution:
    """Return a decision's migrations with a schedule for `instance`; see `execute`."""
    return execute(instance, decision.migrations, schedule).solution


def draw(instance: Instance, futures: Futures, seed: int) -> Draw:
    """Return what draws loads of the step that runs: a tuple of instances, one per future.

    An instance has the loads of one step, so that several futures are several instances.

    Parameters
    ----------
    instance
        Its `observed_tokens` are what the forecast is fitted to, or its own tokens, as if they were
        the step before, where it has none.
    futures
        Its horizon plays no part: migrations are decided for one step.
    seed
        The same seed draws the same loads.
    """
    del futures
    own = np.array([[expert.tokens for expert in instance.experts]], dtype=np.int64)
    seen = own if instance.observed_tokens is None else np.array(instance.observed_tokens)
    return draw_from(fit(seen if seen.any() else own, 1), instance, seed)


DRAWN_PER_UNIT = 1e5
"""Experts of a future that are drawn in a second of one core."""


def draw_from(forecast: Forecast, instance: Instance, seed: int) -> Draw:
    """Return what draws loads of the step that runs from a given forecast; see `draw`."""
    own = np.array([[expert.tokens for expert in instance.experts]], dtype=np.int64)
    names = (*COSTS, *(TWO_PARTS if instance.two_parts else ()))
    curves = {
        name: CostCurve.of(own, [[getattr(e, name) for e in instance.experts]], instance.quantum_ns)
        for name in names
    }

    def drawn(number: int, stream: int) -> tuple[Instance, ...]:
        tokens = forecast.sample(number, np.random.default_rng([seed, stream]))
        costs = {name: curve(tokens) for name, curve in curves.items()}
        for part, paths in TWO_PARTS.items() if instance.two_parts else ():
            costs[part] = np.minimum.reduce([costs[part], *(costs[path] for path in paths)])
        return tuple(
            drawn_from(
                instance,
                f"future{n}",
                seed,
                stream,
                experts=_loaded(instance, tokens[n], {k: of[n] for k, of in costs.items()}),
            )
            for n in range(number)
        )

    return drawn


def _loaded(instance: Instance, tokens: Ints, costs: dict[str, Ints]) -> tuple[Expert, ...]:
    """Return the experts where they lie, with other tokens and costs."""
    checkpoint(len(instance.experts) / DRAWN_PER_UNIT)
    rows = zip(tokens.tolist(), *(of.tolist() for of in costs.values()), strict=True)
    return tuple(
        Expert.model_construct(
            **{**expert.__dict__, "tokens": own, **dict(zip(costs, of, strict=True))}
        )
        for expert, (own, *of) in zip(instance.experts, rows, strict=True)
    )


TRAIN, VALIDATE = 0, 1
"""Streams of futures: those that are searched on, and those that tell how good a plan is."""

ROUNDS = ((4, 32), (16, 8))
"""On how many futures candidates are tried first, and how many are left; then on all futures."""

FEW = 512
"""Where no more plans than this fit the windows, each of them is tried with its best schedules."""

KICKS = 2
"""Local optima that are left again by exchanging two migrations at random."""


def decide(observed: Instance, draw: Draw, search: Search, futures: Futures) -> None:
    """Report migrations whose value over sampled futures falls.

    Parameters
    ----------
    observed
        Today's layout and windows; its loads only say which experts may migrate (RE-C4).
    draw
        Gives instances with sampled loads, in all else like `observed`.
    search, futures
        Where to report to, and what is minimised.
    """
    plans = _Plans(observed, Layouts(draw(futures.samples, TRAIN)), futures)
    others = Layouts(draw(futures.samples, VALIDATE))
    rng = np.random.default_rng(search.seed)

    def report(plan: list[int]) -> None:
        search.offer(plans.solution(plan), futures.value(others.best_ns(*plans.after(plan))))

    report([])
    few = list(islice(plans.all(), FEW + 1))
    if len(few) <= FEW:
        for plan in few:
            if not search.stopped:
                report(plan)
        search.note = "EVERY PLAN TRIED"
        return
    best, best_value = plans.descent([], search)
    found = [best]
    for _ in range(KICKS):
        if search.stopped or not best:
            break
        plan, value = plans.descent(plans.kicked(best, rng), search)
        found.append(plan)
        if value < best_value:
            best, best_value = plan, value
    for number, plan in enumerate(found):
        for size in range(len(plan), 0, -1):
            if search.stopped and (number or size < len(plan)):
                return
            report(plan[:size])
    search.note = "LOCAL OPTIMUM"


class _Plans:
    """Sets of migrations, by their numbers in a list of all that any may contain.

    Attributes
    ----------
    rows, to
        Which expert each migration brings where: `IN_MEMORY`, `STRIPED` or a DIMM.
    """

    def __init__(self, observed: Instance, layouts: Layouts, futures: Futures) -> None:
        self.instance, self.layouts, self.futures = observed, layouts, futures
        c = observed.columns
        self.resident, self.dimm = c.resident, c.dimm
        found = [
            (row, to)
            for row in np.flatnonzero(c.tokens).tolist()
            for to in (IN_MEMORY, STRIPED, *range(observed.dimms))
            if (not c.resident[row] if to == IN_MEMORY else to != c.dimm[row])
        ]
        self.rows = np.array([row for row, _ in found], dtype=np.int64)
        self.to = np.array([to for _, to in found], dtype=np.int64)
        links = 1 if observed.relayout_share_ns is None else observed.dimms
        self._link_ns = np.array(
            [
                link_time_ns(observed, self.migration(n), observed.experts[row].dimm)
                for n, (row, _) in enumerate(found)
            ],
            dtype=np.int64,
        ).reshape(len(found), links)
        self._slots = prefetch_allowed(observed)
        size = len(layouts)
        self._all = np.arange(size)
        self._shortlist: set[int] = set()

    def migration(self, number: int) -> Migration:
        """Return a migration by its number."""
        row, to = int(self.rows[number]), int(self.to[number])
        expert = self.instance.experts[row]
        if to == IN_MEMORY:
            return Migration(expert=expert.expert, kind="prefetch")
        if to == STRIPED:
            return Migration(expert=expert.expert, kind="stripe")
        kind = "localize" if expert.dimm is None else "rebalance"
        return Migration(expert=expert.expert, kind=kind, dimm=to)

    def all(self, plan: tuple[int, ...] = ()) -> Iterator[list[int]]:
        """Yield every plan that fits and begins with these migrations, by rising number."""
        yield list(plan)
        for number in self._able(list(plan)).tolist():
            if not plan or number > plan[-1]:
                yield from self.all((*plan, number))

    def solution(self, plan: list[int]) -> Solution:
        """Return a plan as a solution; what runs where is decided when the loads are known."""
        return Solution(
            instance=self.instance.name,
            migrations=tuple(self.migration(number) for number in plan),
            assignment=(None,) * len(self.instance.experts),
        )

    def descent(self, plan: list[int], search: Search) -> tuple[list[int], int]:
        """Return a local optimum and its value by quick schedules.

        A migration is added as long as that helps, out of all the first time and out of the
        shortlist later; then the first one is exchanged or dropped for which that helps.
        """
        broad = not plan
        value = self._quick_value(plan)
        while not search.stopped:
            after, least = self._best_addition(plan, broad)
            if least >= value:
                broad = False
                for leaving in plan:
                    kept = [number for number in plan if number != leaving]
                    after, least = self._best_addition(kept, broad, or_none=True)
                    if least < value:
                        break
            if least >= value:
                break
            plan, value = after, least
        return plan, value

    def kicked(self, plan: list[int], rng: np.random.Generator) -> list[int]:
        """Return a plan without two of its migrations, with two others at random that fit."""
        kept = list(plan)
        for _ in range(min(2, len(kept))):
            kept.pop(int(rng.integers(len(kept))))
        for _ in range(2):
            able = self._able(kept, broad=False)
            if len(able):
                kept.append(int(able[rng.integers(len(able))]))
        return kept

    def _best_addition(
        self, plan: list[int], broad: bool, or_none: bool = False
    ) -> tuple[list[int], int]:
        """Return the best plan with one more migration, and its value."""
        able = self._able(plan, broad)
        if len(able) == 0:
            return plan, self._quick_value(plan)
        layout = self.after(plan)
        for tried, left in ROUNDS:
            if len(able) > left and len(self._all) > tried:
                some = self._all[:tried]
                spans = self.layouts.quick_ns(*layout, self.rows[able], self.to[able], some)
                able = able[np.argsort(self._values(spans), kind="stable")[:left]]
            if tried == ROUNDS[0][0] and broad:
                self._shortlist.update(able.tolist())
        spans = self.layouts.quick_ns(*layout, self.rows[able], self.to[able], self._all)
        values = self._values(spans)
        at = int(values.argmin())
        if or_none and (alone := self._quick_value(plan)) <= values[at]:
            return plan, alone
        return [*plan, int(able[at])], int(values[at])

    def _able(self, plan: list[int], broad: bool = True) -> Ints:
        """Return the migrations that fit besides those of a plan."""
        chosen = np.array(plan, dtype=np.int64)
        left = self.instance.dimm_link_window_ns - self._link_ns[chosen].sum(axis=0)
        slots = self._slots - int((self.to[chosen] == IN_MEMORY).sum())
        able = (self._link_ns <= left).all(axis=1) & ~np.isin(self.rows, self.rows[chosen])
        able &= (self.to != IN_MEMORY) | (slots > 0)
        if not broad:
            listed = np.zeros(len(able), np.bool_)
            listed[list(self._shortlist)] = True
            able &= listed
        return np.flatnonzero(able)

    def after(self, plan: list[int]) -> tuple[NDArray[np.bool_], Ints]:
        """Return the layout that a plan leads to."""
        resident, dimm = self.resident.copy(), self.dimm.copy()
        for row, to in zip(self.rows[plan].tolist(), self.to[plan].tolist(), strict=True):
            if to == IN_MEMORY:
                resident[row] = True
            else:
                dimm[row] = to
        return resident, dimm

    def _quick_value(self, plan: list[int]) -> int:
        nothing = np.array([-1], dtype=np.int64)
        spans = self.layouts.quick_ns(*self.after(plan), nothing, nothing, self._all)
        return self.futures.value(spans[0])

    def _values(self, spans: Ints) -> Ints:
        """Return what is minimised, of each row."""
        return np.array([self.futures.value(row) for row in spans], dtype=np.int64)
