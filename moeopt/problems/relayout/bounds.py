"""Lower bounds on the makespan that need no solver, each with its proof.

A mode of an expert is a migration or none, and a domain. Each mode keeps the GPU, the CPU and
every DIMM busy for known times, TD-C3 to TD-C5 of the layout it leads to (RE-C8 to RE-C10).
"""

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .expert import STRIPED, costs_ns
from .instance import Instance, active_experts
from .windows import link_moves_allowed, prefetch_allowed

SCALE = 2**16
"""Multipliers are rounded to this resolution before the bound is computed in integers."""

ROUNDS_AT_REST, ROUNDS = 20, 60
"""Updates of the multipliers, first without migrations, then with them."""

USES = 7
"""What a mode uses: GPU, CPU, every DIMM, its DIMM today, another DIMM, DIMM-Link, a slot."""
GPU, CPU, EVERY, OWN, OTHER, LINK, SLOT = range(USES)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def lower_bound(instance: Instance) -> int:
    """Return the best of this package's bounds."""
    return max(
        longest_expert_ns(instance), lagrangian_bound_ns(instance), eviction_bound_ns(instance)
    )


def objective_grid(instance: Instance) -> int:
    """Return a number that every makespan is a multiple of: the costs' greatest common divisor."""
    costs = [cost for expert in active_experts(instance) for cost in costs_ns(expert)]
    return gcd(instance.dram_striped_ns, instance.dram_localized_ns, *costs) or 1


def longest_expert_ns(instance: Instance) -> int:
    """Return the bound by the expert that is long whatever is done with it.

    Proof. In each of its modes an expert alone keeps some device busy for the longest of its
    times, and the makespan is at least that. It takes one of its modes, and none that needs a
    migration which does not fit into its window even alone. So the makespan is at least the least
    of them.
    """
    relayout, _ = link_moves_allowed(instance)
    prefetch = prefetch_allowed(instance)
    floors = []
    for expert in active_experts(instance):
        modes = []
        if expert.resident or prefetch:
            modes.append(expert.gpu_hit_ns)
        if expert.dimm is None or relayout:
            host = expert.cpu_striped_ns
            if not expert.resident:
                host = min(host, expert.gpu_miss_striped_ns)
            modes.append(max(host, instance.dram_striped_ns))
        if expert.dimm is not None or relayout:
            host = expert.cpu_localized_ns
            if not expert.resident:
                host = min(host, expert.gpu_miss_localized_ns)
            modes += [max(host, instance.dram_localized_ns), expert.ndp_ns]
        floors.append(min(modes))
    return max(floors)


def eviction_bound_ns(instance: Instance) -> int:
    """Return the least makespan left open by counting what RE-C5 to RE-C7 let migrate.

    Proof. Take a valid solution of makespan at most C, in which k of the r experts that are striped
    and not resident migrate. The other r - k are read by a host, whichever it is, and each read
    keeps every DIMM busy for dram_striped_ns. A localized expert that neither is resident nor
    migrates keeps its DIMM busy for at least min(ndp_ns, dram_localized_ns). So DIMM d, with these
    floors and (r - k) dram_striped_ns on it, must have lost enough experts to get down to C: at
    least as many as it takes if the largest floors go first. Whatever else lies on the DIMMs
    only adds. Each of these migrations is a prefetch or takes link time: one of the k at least
    relayout_ns, one that leaves a DIMM at least the lesser of relayout_ns and rebalance_ns. Link
    time is least if the prefetches allowed are spent on the k first. If that exceeds the window
    for every k, no valid solution has makespan C. A larger C needs no more evictions, so the least
    C that is not ruled out, found by bisection, is a lower bound.
    """
    return _Counting(instance).bound()


class _Counting:
    """Floors on each DIMM, and what migrations cost.

    Attributes
    ----------
    left
        Per DIMM, entry m: its floor after its m largest experts have left, negated so as to rise.
    k
        Every number of striped experts that can migrate.
    reads_ns
        For each k, how long the striped reads that are left keep every DIMM busy.
    """

    def __init__(self, instance: Instance) -> None:
        c = instance.columns
        counted = (c.tokens > 0) & ~c.resident
        floor = np.minimum(c.ndp_ns, instance.dram_localized_ns)
        self.left = []
        for dimm in range(instance.dimms):
            own = np.sort(floor[counted & (c.dimm == dimm)])[::-1]
            self.left.append(np.concatenate([[0], own.cumsum()]) - own.sum())
        striped = int((counted & (c.dimm == STRIPED)).sum())
        self.window = instance.dimm_link_window_ns
        self.prefetches = prefetch_allowed(instance)
        self.relayout_ns = instance.relayout_ns
        self.eviction_ns = instance.relayout_ns
        if instance.dimms > 1:
            self.eviction_ns = min(instance.relayout_ns, instance.rebalance_ns)
        self.k = np.arange(striped + 1)
        self.reads_ns = (striped - self.k) * instance.dram_striped_ns

    def bound(self) -> int:
        """Return the least makespan that is not ruled out."""
        low, high = 0, int(self.reads_ns[0] - min(left[0] for left in self.left))
        while low < high:
            middle = (low + high) // 2
            if self._possible(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _possible(self, makespan_ns: int) -> bool:
        """Return whether counting alone does not refute the makespan."""
        capacity = makespan_ns - self.reads_ns
        evictions: Ints = np.zeros_like(self.k)
        able = np.ones(len(self.k), dtype=np.bool_)
        for left in self.left:
            needed = np.searchsorted(left, -capacity, side="left")
            able &= needed < len(left)
            evictions += needed
        spare = np.maximum(self.prefetches - self.k, 0)
        link_ns = np.maximum(self.k - self.prefetches, 0) * self.relayout_ns
        link_ns += np.maximum(evictions - spare, 0) * self.eviction_ns
        return bool((able & (link_ns <= self.window)).any())


def lagrangian_bound_ns(instance: Instance) -> int:
    """Return the Lagrangian bound: RE-C5 to RE-C10 relaxed, multipliers improved step by step.

    Proof. Let w >= 0 be multipliers of the devices' rows (RE-C8 to RE-C10), p >= 0 one per ns of
    DIMM-Link (RE-C7) and q >= 0 one per prefetch (RE-C5, RE-C6), W the DIMM-Link window and S the
    number of prefetches that slots and PCIe window allow. Any valid solution keeps to both limits,
    so sum_r w[r] T is at least sum_r w[r] load[r] + p (link time - W) + q (prefetches - S), which
    is a sum over experts minus p W + q S. Each expert takes one of its modes, and none costs less
    than its cheapest: the sum of those minima, less p W + q S, divided by sum_r w[r], bounds T. A
    host copy that goes to another DIMM costs least on the one of least multiplier. Any multipliers
    give a valid bound; they are found in floats by multiplicative updates, and the value returned
    is computed in integers from rounded ones.
    """
    modes = _Modes.of(instance)
    multipliers = _Multipliers(instance, modes)
    multipliers.improve(ROUNDS_AT_REST, modes.without_migrations())
    multipliers.improve(ROUNDS, modes)
    return multipliers.exact_value(modes)


@dataclass(frozen=True)
class _Modes:
    """What each mode of each active expert uses, of shape (modes, experts, `USES`)."""

    uses: Ints
    able: NDArray[np.bool_]
    dimm: Ints

    @classmethod
    def of(cls, instance: Instance) -> "_Modes":
        c = instance.columns
        rows = np.flatnonzero(c.tokens)
        resident, dimm = c.resident[rows], c.dimm[rows]
        striped, miss = dimm == STRIPED, ~resident
        relayout, rebalance = link_moves_allowed(instance)
        to_stripes = striped | relayout
        elsewhere = np.where(striped, relayout, rebalance)
        change = np.where(striped, 0, instance.relayout_ns)
        move = np.where(striped, instance.relayout_ns, instance.rebalance_ns)
        reads, reads_own = instance.dram_striped_ns, instance.dram_localized_ns
        table: list[tuple[NDArray[np.bool_], dict[int, Ints | int]]] = [
            (resident, {GPU: c.gpu_hit_ns[rows]}),
            (miss & bool(prefetch_allowed(instance)), {GPU: c.gpu_hit_ns[rows], SLOT: 1}),
        ]
        for host, able, cost_striped, cost_localized in (
            (GPU, miss, c.gpu_miss_striped_ns[rows], c.gpu_miss_localized_ns[rows]),
            (CPU, miss | resident, c.cpu_striped_ns[rows], c.cpu_localized_ns[rows]),
        ):
            table += [
                (able & to_stripes, {host: cost_striped, EVERY: reads, LINK: change}),
                (able & ~striped, {host: cost_localized, OWN: reads_own}),
                (able & elsewhere, {host: cost_localized, OTHER: reads_own, LINK: move}),
            ]
        table += [
            (~striped, {OWN: c.ndp_ns[rows]}),
            (elsewhere, {OTHER: c.ndp_ns[rows], LINK: move}),
        ]
        uses = np.zeros((len(table), len(rows), USES), dtype=np.int64)
        for mode, (_, used) in enumerate(table):
            for what, amount in used.items():
                uses[mode, :, what] = amount
        return cls(uses, np.stack([able for able, _ in table]), dimm)

    def without_migrations(self) -> "_Modes":
        """Return only the modes that need no migration, or a free one."""
        free = (self.uses[:, :, LINK] == 0) & (self.uses[:, :, SLOT] == 0)
        return _Modes(self.uses, self.able & free, self.dimm)


class _Multipliers:
    """Multipliers of the devices, of the link's window and of the slots, and the best so far."""

    def __init__(self, instance: Instance, modes: _Modes) -> None:
        self.dimms = instance.dimms
        self.log_w = np.zeros(2 + self.dimms + 2)
        self.limit = np.array([instance.dimm_link_window_ns, prefetch_allowed(instance)])
        self.best = -np.inf, np.ones(2 + self.dimms), np.zeros(2)
        self.span = 1.0  # what the makespan may come to: makes limits comparable to it
        self.rows = np.arange(len(modes.dimm))

    def improve(self, rounds: int, modes: _Modes) -> None:
        """Raise the multipliers of whatever the cheapest modes overload.

        The best of these rounds replaces what was known: with more modes bounds are lower.
        """
        self.best = -np.inf, *self.best[1:]
        for step in range(rounds):
            w = np.exp(self.log_w - self.log_w.max())
            devices, extra = w[:-2] / w[:-2].sum(), w[-2:] / w[:-2].sum()
            on_limits = extra * self.span / np.maximum(self.limit, 1)
            other = _lightest_other(devices[2:], modes.dimm)
            per_use = _per_use(devices, on_limits, modes.dimm, other)
            values = np.where(modes.able, (modes.uses * per_use).sum(axis=2), np.inf)
            choice = values.argmin(axis=0)
            value = float(values[choice, self.rows].sum() - on_limits @ self.limit)
            if value > self.best[0]:
                self.best = value, devices, on_limits
            used = modes.uses[choice, self.rows]
            ratio = self._ratios(used, modes.dimm, other)
            self.log_w += ratio / max(ratio.max(), 1e-9) / (1 + step) ** 0.5
        self.span = max(self.best[0], 1.0)

    def _ratios(self, used: Ints, dimm: Ints, other: Ints) -> Floats:
        """Return how full each device (against the span) and each limit is."""
        own = np.bincount(np.maximum(dimm, 0), used[:, OWN], self.dimms)
        own += np.bincount(other, used[:, OTHER], self.dimms) + used[:, EVERY].sum()
        loads = np.concatenate([used[:, [GPU, CPU]].sum(axis=0), own])
        full = used[:, [LINK, SLOT]].sum(axis=0) / np.maximum(self.limit, 1)
        return np.concatenate([loads / self.span, full])

    def exact_value(self, modes: _Modes) -> int:
        """Return the best bound, computed in integers."""
        _, devices, on_limits = self.best
        weights = np.array([round(w * SCALE) for w in devices.tolist()], dtype=object)
        whole = np.array([round(p * SCALE) for p in on_limits.tolist()], dtype=object)
        other = _lightest_other(np.array(weights[2:], dtype=np.float64), modes.dimm)
        per_use = _per_use(weights, whole, modes.dimm, other)
        values = (modes.uses.astype(object) * per_use).sum(axis=2)
        total = -(whole @ self.limit.astype(object))  # Python integers do not overflow
        for expert in range(len(modes.dimm)):
            total += min(values[modes.able[:, expert], expert])
        bound: int = -(-total // weights.sum())
        return max(bound, 0)


def _lightest_other(w: Floats, dimm: Ints) -> Ints:
    """Return the DIMM of least multiplier that the expert does not lie on (0 if there is none)."""
    order = np.argsort(w, kind="stable")
    second = order[min(1, len(order) - 1)]
    return np.asarray(np.where(dimm == order[0], second, order[0]))


def _per_use(
    weights: NDArray[Any], on_limits: NDArray[Any], dimm: Ints, other: Ints
) -> NDArray[Any]:
    """Return the multiplier of each use by each expert, of shape (experts, `USES`)."""
    priced = np.empty((len(dimm), USES), dtype=weights.dtype)
    priced[:, GPU], priced[:, CPU] = weights[0], weights[1]
    priced[:, EVERY] = weights[2:].sum()
    priced[:, OWN] = weights[2:][np.maximum(dimm, 0)]
    priced[:, OTHER] = weights[2:][other]
    priced[:, LINK], priced[:, SLOT] = on_limits
    return priced
