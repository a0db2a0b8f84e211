"""Where nothing may be deferred: all columns of each layer, and a knapsack over the layers.

Then the CPU is done with a layer before the attention of the next one starts. So a layer takes
max(S + G, [2 s + I]) after its attention, whatever the others do, and a plan's time is a sum over
layers (shared experts S, a hand-over s, experts on GPU and CPU G and I, [] if there are any on the
CPU). A *column* is one choice of a layer: ways, residents, and the experts' widths. With few
experts all of them are listed, each with its time under the best dispatch, what its cache copies,
and its share of the budgets; what a cache finds depends on ways and residents alone. A context is a
choice of one more group. What is left is a multiple-choice knapsack:

    min max(sum of times, sum of copies)   with   GPU, loss and host within their limits,
    one column of each group.

1. A column that another one is nowhere above is left out: any plan with it is no worse with the
   other.
2. *Bound.* The linear relaxation, by HiGHS, says what the resources cost. With any prices p >= 0 a
   plan of time T has (p_time + p_copies) T >= sum over the groups of the least p uses - p limits;
   that is computed in integers, and no tolerance of the solver enters.
3. *Plans.* CP-SAT looks for plans up to a time a little above the bound; if there are none, the
   bound rises to it, and the time is raised. A column is left out where, in 2., its price above the
   least of its group is more than what is left of the time: no such plan has it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from moeopt.algorithms.labels import undominated, whole_prices
from moeopt.core.clock import spend
from moeopt.core.cpsat import Answer, Run
from moeopt.core.formulation import IntVar, LinearExpr, cp_model
from moeopt.core.objective import Objective
from moeopt.core.rounding import rounded
from moeopt.core.rows import take_out_divisor
from moeopt.core.search import Search
from moeopt.problems.joint.instance import Instance

from .arrays import Arrays, Choice, cost, fits, solution_of
from .gpu_memory import BITS, FEW_EXPERTS
from .kernels import Flags, Floats, Ints

MOST_COLUMNS = 2**20
"""Of a layer; three widths of eight experts are more."""

SUMS, COLUMNS, ROW_WORK = 1.2e8, 6e6, 1e-4
"""Times added to columns, and columns compared, in a unit of work; units that a row takes besides.
"""

PRICED = 1.2e5
"""Columns in a linear relaxation that takes a unit of work."""

EXPECTED = 0.5
"""Part of the time left that columns may be expected to take, and that each run of CP-SAT gets."""

ABOVE = (0.003, 0.03)
"""Plans are looked for up to so far above the bound, then up to the incumbent."""

TIME, COPIES, GPU, LOSS, HOST = range(5)
TIMED, BUDGETS = [TIME, COPIES], [GPU, LOSS, HOST]


@dataclass(frozen=True)
class Columns:
    """Choices of a layer, or the contexts.

    Attributes
    ----------
    uses
        Times and copies in ns, bytes of the GPU, loss, bytes of the host; shape (columns, 5). What
        has no limit is 0.
    number
        Of each, (ways x sets + residents) x widths + widths of the experts as digits.
    """

    uses: Ints
    number: Ints

    def only(self, kept: Ints) -> "Columns":
        """Return some of them."""
        return Columns(self.uses[kept], self.number[kept])

    def undominated(self) -> "Columns":
        """Return those that no other one is equal to or below."""
        return self.only(undominated(self.uses[:, self.uses.any(axis=0)]))


def suits(instance: Instance) -> bool:
    """Tell whether nothing may be deferred, and layers have few columns."""
    deferrable = max(map(max, map(instance.deferrable, range(instance.layers))))
    longest = int(np.diff(instance.rows.start).max(initial=0))
    few = instance.experts <= FEW_EXPERTS and _columns(instance) <= MOST_COLUMNS
    return deferrable == 0 and few and (3 * len(instance.bits)) ** longest <= MOST_COLUMNS


def _columns(instance: Instance) -> int:
    return int((instance.max_ways + 1) * (2 * len(instance.bits)) ** instance.experts)


def solve_by_columns(instance: Instance, search: Search) -> None:
    """Find the best plan and prove it, or as much of it as there is time for."""
    sums = _columns(instance) * len(instance.steps)
    work = ROW_WORK * len(instance.steps) + sums / SUMS + _columns(instance) / COLUMNS
    if instance.layers * work > EXPECTED * search.remaining_s:
        return
    arrays = Arrays.of(instance)
    groups = [_contexts(instance)]
    for layer in range(instance.layers):
        if search.stopped:
            return
        spend(work)
        groups.append(layer_columns(arrays, layer).undominated())
    if min(len(group.number) for group in groups):
        _Knapsack(arrays, groups, search).solve()


def _limit(instance: Instance) -> Ints:
    """Return the budgets; 0 where there is none, which nothing uses."""
    return np.array([instance.gpu_bytes, instance.max_loss or 0, instance.host_bytes or 0])


def _contexts(instance: Instance) -> Columns:
    steps = len(instance.steps)
    uses = [
        (
            steps * (of.step_ns + sum(of.attention_ns)),
            0,
            of.kv_bytes,
            0 if instance.max_loss is None else of.kv_loss,
            0,
        )
        for of in instance.contexts
    ]
    return Columns(np.array(uses, dtype=np.int64), np.arange(len(uses)))


def layer_columns(arrays: Arrays, layer: int) -> Columns:
    """Return all choices of a layer that fit by themselves."""
    i = arrays.instance
    experts, widths, ways = np.arange(i.experts), len(i.bits), np.arange(i.max_ways + 1)
    residents, number = np.arange(1 << i.experts), np.arange(widths**i.experts)
    held = (residents[:, None] >> experts & 1).astype(np.bool_)
    width = _digits(number, widths, i.experts)
    size = arrays.size[width]
    widest = np.zeros((len(held), len(width)), dtype=np.int64)
    for e in experts:
        np.maximum(widest, np.outer(~held[:, e], size[:, e]), out=widest)
    time_ns, missed = _times(arrays, layer, held, width)
    uses = np.zeros((*time_ns.shape, 5), dtype=np.int64)
    uses[..., TIME] = time_ns
    for e in experts:
        own_ns = np.array(i.copy_ns)[width[:, e]]
        uses[..., COPIES] += missed[:, :, e, None] * own_ns
    uses[..., GPU] = held @ size.T + ways[:, None, None] * widest
    if i.max_loss is not None:
        uses[..., LOSS] = arrays.loss[layer][experts, width].sum(axis=1)
    if i.host_bytes is not None:
        uses[..., HOST] = size.sum(axis=1) if i.host_copy else ~held @ size.T
    uses = uses.reshape(-1, 5)
    fitting = np.flatnonzero((uses[:, BUDGETS] <= _limit(i)).all(axis=1))
    return Columns(uses[fitting], fitting)


def _digits(numbers: Ints, base: int, count: int) -> Ints:
    """Return the digits of numbers, the first of the highest place; shape (numbers, count)."""
    return np.asarray(numbers[:, None] // base ** np.arange(count)[::-1] % base)


def _times(arrays: Arrays, layer: int, held: Flags, width: Ints) -> tuple[Ints, Ints]:
    """Return a layer's times with the best dispatch, and how often each expert is copied.

    Returns
    -------
    array, array
        Shape (ways, sets of residents, widths), and (ways, sets of residents, experts).
    """
    i, steps = arrays.instance, arrays.steps
    ways, sets = np.arange(i.max_ways + 1)[:, None, None], np.arange(len(held))[:, None]
    time_ns = np.zeros((len(ways), len(held), len(width)), dtype=np.int64)
    missed = np.zeros((len(ways), *held.shape), dtype=np.int64)
    for row in range(layer, len(steps.start) - 1, i.layers):
        entries = np.arange(steps.start[row], steps.start[row + 1])
        expert, others = steps.expert[entries], steps.others[entries]
        found = (others >= 0) & (BITS[np.maximum(others, 0) & ~sets] < ways) & ~held[:, expert]
        missed[:, :, expert] += ~found & ~held[:, expert] & (ways > 0)
        where = np.where(found | held[:, expert] & i.host_copy, EITHER, held[:, expert] * ON_GPU)
        places = 3 ** np.arange(len(entries))[::-1]
        own = width[:, expert] @ len(i.bits) ** np.arange(len(entries))[::-1]
        time_ns += _row_times(arrays, layer, entries)[where @ places][:, :, own]
    return time_ns, missed


ON_CPU, ON_GPU, EITHER = range(3)
"""Where an expert of a row may run."""


def _row_times(arrays: Arrays, layer: int, entries: Ints) -> Ints:
    """Return a row's times by where its experts may run, and by widths, each as digits."""
    i, steps, count = arrays.instance, arrays.steps, len(entries)
    shared_ns, hand_over_ns = i.shared_ns[layer], i.hand_over_ns
    on_gpu = _digits(np.arange(1 << count), 2, count)
    own = _digits(np.arange(len(i.bits) ** count), len(i.bits), count)
    gpu_ns = shared_ns + on_gpu @ steps.gpu_ns[entries, own].T
    cpu_ns = 2 * hand_over_ns + (1 - on_gpu) @ steps.cpu_ns[entries, own].T
    alone = (on_gpu.sum(axis=1) == count)[:, None]
    table = np.where(alone, gpu_ns, np.maximum(gpu_ns, cpu_ns)).reshape(*[2] * count, len(own))
    for axis in range(count):
        off, on = np.moveaxis(table, axis, 0)
        table = np.stack([off, on, np.minimum(off, on)], axis)
    return table.reshape(-1, len(own))


class _Knapsack:
    """One column of each group, within the budgets, in the least time."""

    def __init__(self, arrays: Arrays, groups: Sequence[Columns], search: Search) -> None:
        self.arrays, self.groups, self.search = arrays, groups, search
        most = sum(group.uses.max(axis=0) for group in groups)
        self.limit = np.minimum(_limit(arrays.instance), most[BUDGETS])
        timed = np.concatenate([group.uses[:, TIMED].ravel() for group in groups])
        self.unit_ns = int(np.gcd.reduce(timed)) or 1
        self.price = whole_prices(self._prices(most), most)
        self.price[TIME] = max(self.price[TIME], 1)
        self.value = [group.uses @ self.price for group in groups]

    def solve(self) -> None:
        """Raise the bound to the least time of all, as far as there is time."""
        search = self.search
        per_ns = int(self.price[TIMED].sum())
        least = sum(int(value.min()) for value in self.value) - int(self._priced_limits())
        self._prove(-(-least // per_ns))
        for above in (*ABOVE, np.inf):
            if search.closed or search.stopped:
                return
            most_ns = self._most_ns(above)
            spare = most_ns * per_ns - least
            open_ones = [np.flatnonzero(of - of.min() <= spare) for of in self.value]
            answer = self._plans(open_ones, most_ns) if all(map(len, open_ones)) else None
            if answer is not None and answer.status in ("feasible", "unknown", "optimal"):
                self._prove((answer.bound or 0) * self.unit_ns)
                return
            if search.objective is not None or above < np.inf:
                self._prove(most_ns + 1)

    def _most_ns(self, above: float) -> int:
        """Return the longest time of plans to look for: above the bound, below the incumbent."""
        bound, best = _ns(self.search.bound), self.search.objective
        most = sum(int(group.uses[:, TIMED].max()) for group in self.groups)
        if best is not None:
            most = min(most, _ns(best) - 1)
        return most if above == np.inf else min(most, bound + int(above * bound))

    def _prove(self, bound_ns: int) -> None:
        """Report a bound: times are multiples of the unit, and the incumbent's is one of them."""
        bound_ns = -(-bound_ns // self.unit_ns) * self.unit_ns
        best = self.search.objective
        self.search.prove(bound_ns if best is None else min(bound_ns, _ns(best)))

    def _priced_limits(self) -> int:
        return int(self.price[BUDGETS] @ self.limit)

    def _prices(self, most: Ints) -> Floats:
        """Return what resources cost in the linear relaxation, in ns of the plan; 0: unknown."""
        uses = np.concatenate([group.uses for group in self.groups])
        group = np.repeat(np.arange(len(self.groups)), [len(of.number) for of in self.groups])
        spend(len(uses) / PRICED)
        scale = np.maximum(most, 1).astype(np.float64)
        scale[TIMED] = scale[TIMED].max()
        total = np.array([[-1.0] * len(TIMED) + [0.0] * len(BUDGETS)])
        once = (np.ones(len(uses)), (group, np.arange(len(uses))))
        found: Any = linprog(  # type: ignore[call-overload]  # sparse arrays are missing in its types
            np.append(np.zeros(len(uses)), 1.0),
            A_ub=np.hstack([(uses / scale).T, total.T]),
            b_ub=np.append([0.0, 0.0], self.limit / scale[BUDGETS]),
            A_eq=csr_array(once, shape=(len(self.groups), len(uses) + 1)),
            b_eq=np.ones(len(self.groups)),
            method="highs",
        )
        if found.x is None:
            return np.zeros(len(most))
        return rounded(np.maximum(0.0, -found.ineqlin.marginals) * scale[TIME] / scale)

    def _plans(self, open_ones: Sequence[Ints], most_ns: int) -> Answer:
        """Ask for the best plan of these columns up to a time, and offer what is found."""
        model = cp_model.CpModel()
        flags = [[model.new_bool_var("") for _ in of] for of in open_ones]
        kept = [group.only(of) for group, of in zip(self.groups, open_ones, strict=True)]
        for of in flags:
            model.add_exactly_one(of)
        total = model.new_int_var(0, most_ns // self.unit_ns, "")
        every = [flag for of in flags for flag in of]
        uses = np.concatenate([group.uses for group in kept])
        for resource in TIMED:
            model.add(_dot(every, uses[:, resource] // self.unit_ns) <= total)
        for resource, limit in zip(BUDGETS, self.limit.tolist(), strict=True):
            take_out_divisor(model.add(_dot(every, uses[:, resource]) <= limit))
        model.minimize(total)
        answer = Run(model, EXPECTED * self.search.remaining_s, seed=self.search.seed).solve()
        if answer.found:
            chosen = [next(n for n, flag in enumerate(of) if answer.value(flag)) for of in flags]
            self._offer([int(g.number[n]) for g, n in zip(kept, chosen, strict=True)])
        return answer

    def _offer(self, numbers: Sequence[int]) -> None:
        """Offer the plan of a context and a column of each layer."""
        i = self.arrays.instance
        columns = np.array(numbers[1:])
        rest, width = np.divmod(columns, len(i.bits) ** i.experts)
        ways, residents = np.divmod(rest, 1 << i.experts)
        plan = Choice(
            context=numbers[0],
            held=(residents[:, None] >> np.arange(i.experts) & 1).astype(np.bool_),
            width=_digits(width, len(i.bits), i.experts),
            ways=ways,
            deferred=np.zeros(i.layers, dtype=np.int64),
        )
        found = cost(self.arrays, plan)
        if fits(self.arrays, found):
            self.search.offer(solution_of(self.arrays, plan, found), found.total_ns)


def _ns(objective: Objective | None) -> int:
    """Return a time that is there: one whole number."""
    if not isinstance(objective, int):
        raise TypeError(f"not a time: {objective}")
    return objective


def _dot(flags: Sequence[IntVar], values: Ints) -> LinearExpr:
    return cp_model.LinearExpr.weighted_sum(flags, values.tolist())
