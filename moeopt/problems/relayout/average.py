"""The bound by weighted averages over the devices, with prices on what limits migrations."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .instance import STRIPED, Instance
from .options import link_moves_allowed, prefetch_allowed

SCALE = 2**16
ROUNDS_AT_REST, ROUNDS = 20, 60

USES = 7
"""What an option uses: GPU, CPU, every DIMM, its DIMM today, another DIMM, DIMM-Link, a slot."""
GPU, CPU, EVERY, OWN, OTHER, LINK, SLOT = range(USES)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def average_load_ns(instance: Instance) -> int:
    """Return the bound by weighted averages, the weights improved step by step.

    Proof. Let w >= 0 be weights over the devices, p >= 0 a price per ns of DIMM-Link and q >= 0 a
    price per prefetch, W the DIMM-Link window and S the number of prefetches that slots and PCIe
    window allow. Any valid solution keeps to both limits, so sum_r w[r] T is at least
    sum_r w[r] load[r] + p (link time - W) + q (prefetches - S), which is a sum over experts minus
    p W + q S. Each expert takes one of its options, and none costs less than its cheapest: the sum
    of those minima, less p W + q S, divided by sum_r w[r], bounds T. A host copy that goes to
    another DIMM costs least on the one of least weight. Weights and prices are found in floats by
    multiplicative updates; the value returned is computed in integers from rounded ones.
    """
    options = _Options.of(instance)
    prices = _Prices(instance, options)
    prices.improve(ROUNDS_AT_REST, options.without_migrations())
    prices.improve(ROUNDS, options)
    return prices.exact_value(options)


@dataclass(frozen=True)
class _Options:
    """What each option of each active expert uses, of shape (options, experts, `USES`)."""

    uses: Ints
    able: NDArray[np.bool_]
    dimm: Ints

    @classmethod
    def of(cls, instance: Instance) -> "_Options":
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
        for option, (_, used) in enumerate(table):
            for what, amount in used.items():
                uses[option, :, what] = amount
        return cls(uses, np.stack([able for able, _ in table]), dimm)

    def without_migrations(self) -> "_Options":
        """Return only the options that need no migration, or a free one."""
        free = (self.uses[:, :, LINK] == 0) & (self.uses[:, :, SLOT] == 0)
        return _Options(self.uses, self.able & free, self.dimm)


class _Prices:
    """Weights of the devices, then of the link's window and of the slots, and the best so far."""

    def __init__(self, instance: Instance, options: _Options) -> None:
        self.dimms = instance.dimms
        self.log_w = np.zeros(2 + self.dimms + 2)
        self.limit = np.array([instance.dimm_link_window_ns, prefetch_allowed(instance)])
        self.best = -np.inf, np.ones(2 + self.dimms), np.zeros(2)
        self.span = 1.0  # what the makespan may come to: makes limits comparable to it
        self.rows = np.arange(len(options.dimm))

    def improve(self, rounds: int, options: _Options) -> None:
        """Raise the weights of whatever the cheapest options overload.

        The best of these rounds replaces what was known: with more options bounds are lower.
        """
        self.best = -np.inf, *self.best[1:]
        for step in range(rounds):
            w = np.exp(self.log_w - self.log_w.max())
            devices, extra = w[:-2] / w[:-2].sum(), w[-2:] / w[:-2].sum()
            prices = extra * self.span / np.maximum(self.limit, 1)
            other = _lightest_other(devices[2:], options.dimm)
            per_use = _per_use(devices, prices, options.dimm, other)
            values = np.where(options.able, (options.uses * per_use).sum(axis=2), np.inf)
            choice = values.argmin(axis=0)
            value = float(values[choice, self.rows].sum() - prices @ self.limit)
            if value > self.best[0]:
                self.best = value, devices, prices
            used = options.uses[choice, self.rows]
            ratio = self._ratios(used, options.dimm, other)
            self.log_w += ratio / max(ratio.max(), 1e-9) / (1 + step) ** 0.5
        self.span = max(self.best[0], 1.0)

    def _ratios(self, used: Ints, dimm: Ints, other: Ints) -> Floats:
        """Return how full each device (against the span) and each limit is."""
        own = np.bincount(np.maximum(dimm, 0), used[:, OWN], self.dimms)
        own += np.bincount(other, used[:, OTHER], self.dimms) + used[:, EVERY].sum()
        loads = np.concatenate([used[:, [GPU, CPU]].sum(axis=0), own])
        full = used[:, [LINK, SLOT]].sum(axis=0) / np.maximum(self.limit, 1)
        return np.concatenate([loads / self.span, full])

    def exact_value(self, options: _Options) -> int:
        """Return the best bound, computed in integers."""
        _, devices, prices = self.best
        weights = np.array([round(w * SCALE) for w in devices.tolist()], dtype=object)
        whole = np.array([round(p * SCALE) for p in prices.tolist()], dtype=object)
        other = _lightest_other(np.array(weights[2:], dtype=np.float64), options.dimm)
        per_use = _per_use(weights, whole, options.dimm, other)
        values = (options.uses.astype(object) * per_use).sum(axis=2)
        total = -(whole @ self.limit.astype(object))  # Python integers do not overflow
        for expert in range(len(options.dimm)):
            total += min(values[options.able[:, expert], expert])
        bound: int = -(-total // weights.sum())
        return max(bound, 0)


def _lightest_other(w: Floats, dimm: Ints) -> Ints:
    """Return the DIMM of least weight that the expert does not lie on (0 if there is none)."""
    order = np.argsort(w, kind="stable")
    second = order[min(1, len(order) - 1)]
    return np.asarray(np.where(dimm == order[0], second, order[0]))


def _per_use(weights: NDArray[Any], prices: NDArray[Any], dimm: Ints, other: Ints) -> NDArray[Any]:
    """Return the price of each use to each expert, of shape (experts, `USES`)."""
    priced = np.empty((len(dimm), USES), dtype=weights.dtype)
    priced[:, GPU], priced[:, CPU] = weights[0], weights[1]
    priced[:, EVERY] = weights[2:].sum()
    priced[:, OWN] = weights[2:][np.maximum(dimm, 0)]
    priced[:, OTHER] = weights[2:][other]
    priced[:, LINK], priced[:, SLOT] = prices
    return priced
