"""Lower bounds on the makespan that need no solver, each with its proof.

A mode of an expert is a migration or none, and a domain. Each mode keeps the GPU, the CPU and
every DIMM, channel and PCIe busy for known times, those of the layout it leads to (RE-C8 to
RE-C12).
"""

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .instance import STRIPED, Instance, active_experts, costs_ns, reads_ns
from .migrations import link_moves_allowed, link_use, prefetch_allowed

SCALE = 2**16
"""Multipliers are rounded to this resolution before the bound is computed in integers."""

ROUNDS_AT_REST, ROUNDS = 20, 60
"""Updates of the multipliers, first without migrations, then with them."""

USES = 11
"""What a mode uses: GPU, CPU, every DIMM, its DIMM today, another DIMM, every channel, the channel
of its DIMM, another DIMM's channel, PCIe, DIMM-Link, a slot."""
GPU, CPU, EVERY, OWN, OTHER, EVERY_CHANNEL, OWN_CHANNEL, OTHER_CHANNEL, PCIE, LINK, SLOT = range(
    USES
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def lower_bound(instance: Instance) -> int:
    """Return the Lagrangian bound: RE-C5 to RE-C10 relaxed, multipliers improved step by step.

    Proof. Let w >= 0 be multipliers of the devices' rows (RE-C8 to RE-C12), p >= 0 one per ns of
    all links (RE-C7, RE-C13; `link_use`) and q >= 0 one per prefetch (RE-C5, RE-C6), W the links'
    windows and S the number of prefetches that slots and PCIe window allow. Any valid solution
    keeps to both limits, so sum_r w[r] T is at least sum_r w[r] load[r] + p (link time - W) +
    q (prefetches - S), which is the GPU's base load times its multiplier plus a sum over experts
    minus p W + q S. Each expert takes one of its modes, and none costs less than its cheapest: the
    base plus the sum of those minima, less p W + q S, divided by sum_r w[r], bounds T. A host copy
    that goes to another DIMM costs no less than on the DIMM of least multiplier, and its reads no
    less than on the channel of least multiplier. Any multipliers
    give a valid bound; they are found in floats by multiplicative updates, and the value returned
    is computed in integers from rounded ones.
    """
    modes = _Modes.of(instance, _Rows.of(instance))
    multipliers = _Multipliers(instance, modes)
    multipliers.improve(ROUNDS_AT_REST, modes.without_migrations())
    multipliers.improve(ROUNDS, modes)
    return multipliers.exact_value(modes)


def objective_grid(instance: Instance) -> int:
    """Return a number that every makespan is a multiple of: the costs' greatest common divisor."""
    costs = [cost for expert in active_experts(instance) for cost in costs_ns(expert)]
    return gcd(instance.base_ns, *reads_ns(instance), *costs) or 1


@dataclass(frozen=True)
class _Rows:
    """The devices' rows: GPU, CPU, each DIMM, each channel, PCIe if runs on the GPU use it.

    Attributes
    ----------
    channel
        The channel of each DIMM, counted from 0; all 0 where there are none.
    channels, pcie
        How many channels there are, and 1 if there is a row of PCIe, else 0.
    """

    dimms: int
    channel: Ints
    channels: int
    pcie: int

    @classmethod
    def of(cls, instance: Instance) -> "_Rows":
        named = sorted(set(instance.channels or ()))
        channel = [named.index(of) for of in instance.channels or [0] * instance.dimms if named]
        numbers = np.array(channel or [0] * instance.dimms, dtype=np.int64)
        return cls(instance.dimms, numbers, len(named), int(instance.two_parts))

    @property
    def count(self) -> int:
        """How many rows there are."""
        return 2 + self.dimms + self.channels + self.pcie

    def per_use(
        self, weights: NDArray[Any], on_limits: NDArray[Any], dimm: Ints, other: Ints
    ) -> NDArray[Any]:
        """Return the multiplier of each use by each expert, of shape (experts, `USES`)."""
        priced = np.zeros((len(dimm), USES), dtype=weights.dtype)
        on_dimm = weights[2 : 2 + self.dimms]
        priced[:, GPU], priced[:, CPU] = weights[0], weights[1]
        priced[:, EVERY] = on_dimm.sum()
        priced[:, OWN] = on_dimm[np.maximum(dimm, 0)]
        priced[:, OTHER] = on_dimm[other]
        if self.channels:
            on_channel = weights[2 + self.dimms :][: self.channels]
            priced[:, EVERY_CHANNEL] = on_channel.sum()
            priced[:, OWN_CHANNEL] = on_channel[self.channel[np.maximum(dimm, 0)]]
            priced[:, OTHER_CHANNEL] = on_channel.min()
        if self.pcie:
            priced[:, PCIE] = weights[-1]
        priced[:, LINK], priced[:, SLOT] = on_limits
        return priced

    def loads(self, used: Ints, dimm: Ints, other: Ints) -> Floats:
        """Return the load of each row; `used` has shape (experts, `USES`)."""
        own = np.bincount(np.maximum(dimm, 0), used[:, OWN], self.dimms)
        own += np.bincount(other, used[:, OTHER], self.dimms) + used[:, EVERY].sum()
        parts = [used[:, [GPU, CPU]].sum(axis=0), own]
        if self.channels:
            at = self.channel[np.maximum(dimm, 0)]
            read = np.bincount(at, used[:, OWN_CHANNEL], self.channels)
            read += np.bincount(self.channel[other], used[:, OTHER_CHANNEL], self.channels)
            parts.append(read + used[:, EVERY_CHANNEL].sum())
        if self.pcie:
            parts.append(used[:, [PCIE]].sum(axis=0))
        return np.concatenate(parts)


@dataclass(frozen=True)
class _Modes:
    """What each mode of each active expert uses, of shape (modes, experts, `USES`)."""

    rows: _Rows
    uses: Ints
    able: NDArray[np.bool_]
    dimm: Ints

    @classmethod
    def of(cls, instance: Instance, on: _Rows) -> "_Modes":
        c = instance.columns
        rows = np.flatnonzero(c.tokens)
        resident, dimm = c.resident[rows], c.dimm[rows]
        striped, miss = dimm == STRIPED, ~resident
        relayout, rebalance = link_moves_allowed(instance)
        to_stripes = striped | relayout
        elsewhere = np.where(striped, relayout, rebalance)
        link = link_use(instance)
        change = np.where(striped, 0, link.relayout_ns)
        move = np.where(striped, link.relayout_ns, link.rebalance_ns)
        read = instance.dram_localized_ns
        from_all: dict[int, Ints | int] = {
            EVERY: instance.striped_charge_ns(instance.dram_striped_ns),
            EVERY_CHANNEL: instance.dram_striped_ns,
        }
        from_own: dict[int, Ints | int] = {OWN: read, OWN_CHANNEL: read}
        from_other: dict[int, Ints | int] = {OTHER: read, OTHER_CHANNEL: read}
        table: list[tuple[NDArray[np.bool_], dict[int, Ints | int]]] = [
            (resident, {GPU: c.gpu_hit_ns[rows]}),
            (miss & bool(prefetch_allowed(instance)), {GPU: c.gpu_hit_ns[rows], SLOT: 1}),
        ]
        nothing = np.zeros(len(rows), dtype=np.int64)
        for host, able, (cost_striped, cost_localized), (pcie_striped, pcie_localized) in (
            (
                GPU,
                miss,
                (c.gpu_miss_striped_ns[rows], c.gpu_miss_localized_ns[rows]),
                (c.pcie_striped_ns[rows], c.pcie_localized_ns[rows]),
            ),
            (
                CPU,
                miss | resident,
                (c.cpu_striped_ns[rows], c.cpu_localized_ns[rows]),
                (nothing, nothing),
            ),
        ):
            localized: dict[int, Ints | int] = {host: cost_localized, PCIE: pcie_localized}
            table += [
                (
                    able & to_stripes,
                    from_all | {host: cost_striped, PCIE: pcie_striped, LINK: change},
                ),
                (able & ~striped, from_own | localized),
                (able & elsewhere, from_other | localized | {LINK: move}),
            ]
        table += [
            (~striped, {OWN: c.ndp_ns[rows]}),
            (elsewhere, {OTHER: c.ndp_ns[rows], LINK: move}),
        ]
        uses = np.zeros((len(table), len(rows), USES), dtype=np.int64)
        for mode, (_, used) in enumerate(table):
            for what, amount in used.items():
                uses[mode, :, what] = amount
        return cls(on, uses, np.stack([able for able, _ in table]), dimm)

    def without_migrations(self) -> "_Modes":
        """Return only the modes that need no migration, or a free one."""
        free = (self.uses[:, :, LINK] == 0) & (self.uses[:, :, SLOT] == 0)
        return _Modes(self.rows, self.uses, self.able & free, self.dimm)


class _Multipliers:
    """Multipliers of the devices, of the links' windows and of the slots, and the best so far."""

    def __init__(self, instance: Instance, modes: _Modes) -> None:
        self.on = modes.rows
        self.log_w = np.zeros(self.on.count + 2)
        self.limit = np.array([link_use(instance).window_ns, prefetch_allowed(instance)])
        self.base_ns = instance.base_ns
        self.best = -np.inf, np.ones(self.on.count), np.zeros(2)
        self.span = 1.0  # what the makespan may come to: makes limits comparable to it
        self.experts = np.arange(len(modes.dimm))

    def improve(self, rounds: int, modes: _Modes) -> None:
        """Raise the multipliers of whatever the cheapest modes overload.

        The best of these rounds replaces what was known: with more modes bounds are lower.
        """
        self.best = -np.inf, *self.best[1:]
        for step in range(rounds):
            w = np.exp(self.log_w - self.log_w.max())
            devices, extra = w[:-2] / w[:-2].sum(), w[-2:] / w[:-2].sum()
            on_limits = extra * self.span / np.maximum(self.limit, 1)
            other = self._lightest_other(devices, modes.dimm)
            per_use = self.on.per_use(devices, on_limits, modes.dimm, other)
            values = np.where(modes.able, (modes.uses * per_use).sum(axis=2), np.inf)
            choice = values.argmin(axis=0)
            value = float(values[choice, self.experts].sum() - on_limits @ self.limit)
            value += devices[0] * self.base_ns
            if value > self.best[0]:
                self.best = value, devices, on_limits
            used = modes.uses[choice, self.experts]
            loads = self.on.loads(used, modes.dimm, other)
            loads[0] += self.base_ns
            full = used[:, [LINK, SLOT]].sum(axis=0) / np.maximum(self.limit, 1)
            ratio = np.concatenate([loads / self.span, full])
            self.log_w += ratio / max(ratio.max(), 1e-9) / (1 + step) ** 0.5
        self.span = max(self.best[0], 1.0)

    def exact_value(self, modes: _Modes) -> int:
        """Return the best bound, computed in integers."""
        _, devices, on_limits = self.best
        weights = np.array([round(w * SCALE) for w in devices.tolist()], dtype=object)
        whole = np.array([round(p * SCALE) for p in on_limits.tolist()], dtype=object)
        other = self._lightest_other(np.array(weights, dtype=np.float64), modes.dimm)
        per_use = self.on.per_use(weights, whole, modes.dimm, other)
        values = (modes.uses.astype(object) * per_use).sum(axis=2)
        total = weights[0] * self.base_ns - whole @ self.limit.astype(object)
        for expert in range(len(modes.dimm)):  # Python integers do not overflow
            total += min(values[modes.able[:, expert], expert])
        bound: int = -(-total // weights.sum())
        return max(bound, 0)

    def _lightest_other(self, w: Floats, dimm: Ints) -> Ints:
        """Return the DIMM of least multiplier that is not the expert's; 0 if there is none."""
        order = np.argsort(w[2 : 2 + self.on.dimms], kind="stable")
        second = order[min(1, len(order) - 1)]
        return np.asarray(np.where(dimm == order[0], second, order[0]))
