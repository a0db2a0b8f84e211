"""Lower bounds on the makespan that need no solver, each with its proof.

A mode of an expert is a migration or none, and a domain. Each mode keeps the GPU, the CPU and
every DIMM, channel and PCIe busy for known times, those of the layout it leads to (RE-C8 to
RE-C12). `modes.Modes` leaves out only modes that another one replaces: the least over the others
is the least over all. Times are in steps of the costs' greatest common divisor.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.algorithms.lagrangian import multiplicative_weights

from .instance import Instance
from .migrations import link_use
from .modes import Modes
from .modes import objective_grid as objective_grid

SCALE = 2**32
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
    modes = Modes(instance)
    uses = _Uses.of(modes, _Rows.of(instance))
    multipliers = _Multipliers(modes, uses)
    multipliers.improve(ROUNDS_AT_REST, uses.without_migrations())
    multipliers.improve(ROUNDS, uses)
    return multipliers.exact_value(uses) * modes.step_ns


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
class _Uses:
    """What each mode of each active expert uses, of shape (modes, experts, `USES`)."""

    rows: _Rows
    uses: Ints
    able: NDArray[np.bool_]
    dimm: Ints

    @classmethod
    def of(cls, modes: Modes, on: _Rows) -> "_Uses":
        shape = max(map(len, modes.of.values())), len(modes.of)
        uses, able = np.zeros((*shape, USES), dtype=np.int64), np.zeros(shape, dtype=np.bool_)
        for expert, of in enumerate(modes.of.values()):
            able[: len(of), expert] = True
            for number, mode in enumerate(of):
                read = modes.localized_read if mode.on_channel else 0
                at_home, elsewhere = (0, read) if mode.kind else (read, 0)
                uses[number, expert] = [
                    *(mode.gpu, mode.cpu),
                    *(mode.reads * modes.striped_read, mode.stays, mode.arrives or 0),
                    *(mode.reads * modes.channel_read, at_home, elsewhere),
                    *(mode.pcie, modes.link_ns(mode), mode.kind == "prefetch"),
                ]
        return cls(on, uses, able, np.array([modes.dimm[row] for row in modes.of]))

    def without_migrations(self) -> "_Uses":
        """Return only the modes that need no migration, or a free one."""
        free = (self.uses[:, :, LINK] == 0) & (self.uses[:, :, SLOT] == 0)
        return _Uses(self.rows, self.uses, self.able & free, self.dimm)


class _Multipliers:
    """Multipliers of the devices, of the links' windows and of the slots, and the best so far."""

    def __init__(self, modes: Modes, uses: _Uses) -> None:
        self.on = uses.rows
        self.logarithms = np.zeros(self.on.count + 2)
        self.limit = np.array([link_use(modes.instance).window_ns, modes.prefetches])
        self.base = modes.base
        self.best = np.ones(self.on.count), np.zeros(2)
        self.span = 1.0  # what the makespan may come to: makes limits comparable to it
        self.experts = np.arange(len(uses.dimm))

    def improve(self, rounds: int, modes: _Uses) -> None:
        """Raise the multipliers of whatever the cheapest modes overload.

        The best of these rounds replaces what was known: with more modes bounds are lower.
        """

        def dual(weights: Floats) -> tuple[float, Floats]:
            devices, on_limits = self._multipliers(weights)
            other = self._lightest_other(devices, modes.dimm)
            per_use = self.on.per_use(devices, on_limits, modes.dimm, other)
            values = np.where(modes.able, (modes.uses * per_use).sum(axis=2), np.inf)
            choice = values.argmin(axis=0)
            value = float(values[choice, self.experts].sum() - on_limits @ self.limit)
            used = modes.uses[choice, self.experts]
            loads = self.on.loads(used, modes.dimm, other)
            loads[0] += self.base
            full = used[:, [LINK, SLOT]].sum(axis=0) / np.maximum(self.limit, 1)
            return value + devices[0] * self.base, np.concatenate([loads / self.span, full])

        found = multiplicative_weights(dual, self.logarithms, rounds)
        self.logarithms, self.best = found.logarithms, self._multipliers(found.weights)
        self.span = max(found.value, 1.0)

    def _multipliers(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the multipliers of devices, which sum to 1, and of windows and slots."""
        total = weights[:-2].sum()
        return weights[:-2] / total, weights[-2:] / total * self.span / np.maximum(self.limit, 1)

    def exact_value(self, modes: _Uses) -> int:
        """Return the best bound, computed in integers."""
        devices, on_limits = self.best
        weights = np.array([round(w * SCALE) for w in devices.tolist()], dtype=object)
        whole = np.array([round(p * SCALE) for p in on_limits.tolist()], dtype=object)
        other = self._lightest_other(np.array(weights, dtype=np.float64), modes.dimm)
        per_use = self.on.per_use(weights, whole, modes.dimm, other)
        values = (modes.uses.astype(object) * per_use).sum(axis=2)
        total = weights[0] * self.base - whole @ self.limit.astype(object)
        for expert in range(len(modes.dimm)):  # Python integers do not overflow
            total += min(values[modes.able[:, expert], expert])
        bound: int = -(-total // weights.sum())
        return max(bound, 0)

    def _lightest_other(self, w: Floats, dimm: Ints) -> Ints:
        """Return the DIMM of least multiplier that is not the expert's; 0 if there is none."""
        order = np.argsort(w[2 : 2 + self.on.dimms], kind="stable")
        second = order[min(1, len(order) - 1)]
        return np.asarray(np.where(dimm == order[0], second, order[0]))
