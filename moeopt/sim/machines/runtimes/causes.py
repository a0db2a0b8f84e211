"""Causes of a measured speed that is not the predicted one, and what decides that was assumed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from moeopt.core.units import GIB
from moeopt.sim.machines.cores import NumaMode
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.memory import Use, is_stated, uses
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.machines.runtimes.speeds import Speed, four_digits

SpeedOf = Callable[[Setting], float]
"""Setting -> predicted tokens/s with everything where it lies now."""

DISK_GB_S = 3.0
"""Rate at which pages of a model come from an NVMe disk, in random order; assumed."""

LEAST_EXPLAINED = 0.1
MOST_CAUSES = 6
DECIDES = 0.05
"""A quantity decides if a fifth more or less of it changes the speed by this."""

STEPS = 30

RATES = ("gb_s", "measured_gb_s", "dimms.speed_mt_s")
"""Fields of a memory that say how fast it is."""


@dataclass(frozen=True)
class Cause:
    """Something that may be otherwise than was taken, and the speed that it would give."""

    name: str
    text: str
    tokens_per_s: float


@dataclass(frozen=True)
class Explained:
    """A measured speed beside the predicted one.

    Attributes
    ----------
    tokens_per_s
        Measured.
    speed
        Predicted, with its interval.
    causes
        Each by itself, those first that explain most; none if it is inside.
    """

    tokens_per_s: float
    speed: Speed
    causes: tuple[Cause, ...]

    @property
    def inside(self) -> bool:
        """Whether it lies in the 80 % interval."""
        low, high = self.speed.low, self.speed.high
        return low is not None and high is not None and low <= self.tokens_per_s <= high

    def share(self, cause: Cause) -> float:
        """Return how much of the difference a cause explains: of its logarithm, 1 at most."""
        return _share(cause.tokens_per_s, self.speed.decode, self.tokens_per_s)

    def in_words(self) -> Iterator[str]:
        """Yield the lines for a page."""
        said = f"measured {self.tokens_per_s:g} tokens/s:"
        if self.inside:
            yield f"{said} inside the interval of {self.speed.within}; nothing to explain"
            return
        ways = self.speed.decode / self.tokens_per_s
        more = "slower" if ways > 1 else "faster"
        yield f"{said} {max(ways, 1 / ways):.2f} times {more} than predicted, outside the interval"
        for one in self.causes:
            yield f"  {100 * self.share(one):3.0f} % of it: {one.text} ({one.tokens_per_s:g})"
        if not self.causes:
            yield "  nothing that is predicted explains a tenth of it"

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        return {
            "tokens_per_s": self.tokens_per_s,
            "inside": self.inside,
            "causes": [
                {
                    "cause": one.name,
                    "says": one.text,
                    "tokens_per_s": one.tokens_per_s,
                    "explains": round(self.share(one), 3),
                }
                for one in self.causes
            ],
        }


def told_of(
    setting: Setting,
    calls: Sequence[float],
    threads: int | None,
    speed_of: SpeedOf,
    speed: Speed,
    measured: float | None,
) -> tuple[tuple[str, ...], Explained | None]:
    """Return what a prediction asks for, and what explains a measured speed, if there is one.

    Parameters
    ----------
    calls
        Of each layer with experts, the share of calls on the host.
    threads
        As given; None: assumed.
    speed_of
        The speed of another setting, with everything where it lies now.
    speed
        Predicted at the setting's depth.
    """
    model = setting.shape
    read = sum(calls) * model.top_k * model.expert_bytes
    asks = asked_for(setting, threads, speed_of) if read else ()
    if measured is None:
        return asks, None
    host = uses(setting, calls)[-1] if read else None
    return asks, explained(setting, speed, measured, speed_of, host, read)


def explained(
    setting: Setting,
    speed: Speed,
    measured: float,
    speed_of: SpeedOf,
    host: Use | None,
    host_bytes: float,
) -> Explained:
    """Return by what a measured speed may differ from the predicted one.

    Parameters
    ----------
    speed
        Predicted at the setting's depth.
    host
        What the host's memory goes to; None if nothing lies there.
    host_bytes
        Bytes of experts that a token reads of it.
    """
    found = Explained(measured, speed, ())
    if found.inside:
        return found
    causes = [
        *_memory(setting, measured, speed_of),
        *_threads(setting, measured, speed_of),
        *_sockets(setting, speed_of),
        *_depth(setting, measured, speed_of),
        *_paging(speed.decode, measured, host if _may_page(setting, host) else None, host_bytes),
    ]
    causes = [replace(one, tokens_per_s=four_digits(one.tokens_per_s)) for one in causes]
    causes = [one for one in causes if found.share(one) >= LEAST_EXPLAINED]
    causes.sort(key=lambda one: -found.share(one))
    return replace(found, causes=tuple(causes[:MOST_CAUSES]))


def asked_for(setting: Setting, threads: int | None, speed_of: SpeedOf) -> tuple[str, ...]:
    """Return what decides the speed and was assumed, each with the option that says it.

    Parameters
    ----------
    threads
        As given; None: assumed.
    """
    machine, now = setting.machine, speed_of(setting)
    found = []
    if machine.nodes and not _is_known(machine):
        other = speed_of(replace(setting, machine=_with_rate(machine, 1.2)))
        if abs(other / now - 1.0) >= DECIDES:
            path = "dram.speed_mt_s or dram.triad_gb_s"
            found.append(
                f"host memory's speed; a fifth more makes {100 * (other / now - 1):+.0f} %"
                f" (moeopt machine set, {path})"
            )
    cores = _cores(machine)
    if threads is None and cores > 1 and setting.threads:
        fewer = max(1, round(setting.threads / 1.5))
        other = speed_of(replace(setting, threads=fewer))
        if abs(other / now - 1.0) >= DECIDES:
            found.append(
                f"{setting.threads} threads; {fewer} make {100 * (other / now - 1):+.0f} %"
                " (--threads)"
            )
    return tuple(found)


def _share(there: float, here: float, measured: float) -> float:
    whole = np.log(measured / here)
    moved = np.log(there / here)
    return float(np.clip(1.0 - abs(whole - moved) / abs(whole), 0.0, 1.0))


def _is_known(machine: Machine) -> bool:
    """Return whether somebody measured or stated the rate of the host's memory."""
    if all(node.memory.measured_gb_s is not None for node in machine.nodes):
        return True
    told = ("given by the user", "measured", "detected")
    paths = [f"devices.{node.id}.memory.{field}" for node in machine.nodes for field in RATES]
    return any(machine.sources.get(path, "").startswith(told) for path in paths)


def _with_rate(machine: Machine, times: float) -> Machine:
    """Return the machine with so many times the rate of its host's memory."""
    nodes = []
    for node in machine.nodes:
        memory = node.memory
        own = memory.measured_gb_s
        changed = node.with_memory(
            gb_s=times * memory.gb_s, measured_gb_s=None if own is None else times * own
        )
        most = node.only("cpu").most_gb_s
        nodes.append(changed if most is None else changed.with_part("cpu", most_gb_s=times * most))
    return machine.with_devices(*nodes)


def _cores(machine: Machine) -> int:
    return sum(node.only("cpu").cores or 0 for node in machine.nodes)


def _nearest(speeds: Sequence[tuple[float, float]], measured: float) -> float:
    """Return the value whose speed is nearest, of pairs of a value and its speed."""
    return min(speeds, key=lambda pair: abs(float(np.log(pair[1] / measured))))[0]


def _memory(setting: Setting, measured: float, speed_of: SpeedOf) -> Iterator[Cause]:
    machine = setting.machine
    if not machine.nodes or machine.unified:
        return

    def at(times: float) -> float:
        return speed_of(replace(setting, machine=_with_rate(machine, times)))

    dimms = machine.nodes[0].memory.dimms
    channels = None if dimms is None else dimms.channels or dimms.count
    if channels is not None and channels > 1:
        tried = [(float(n), at(n / channels)) for n in range(1, channels)]
        best = _nearest(tried, measured)
        text = f"{best:.0f} of {channels} memory channels are filled"
        yield Cause("channels", text, at(best / channels))
    speeds = [(times, at(times)) for times in np.linspace(0.5, 1.5, STEPS + 1).tolist()]
    times = _nearest(speeds, measured)
    rate = "" if dimms is None or dimms.speed_mt_s is None else f" of {dimms.speed_mt_s:g} MT/s"
    yield Cause("memory speed", f"host memory is read at {times:.2f} of its rate{rate}", at(times))


def _threads(setting: Setting, measured: float, speed_of: SpeedOf) -> Iterator[Cause]:
    cores = _cores(setting.machine)
    now = setting.threads or cores
    tried = sorted({max(1, round(cores * part)) for part in np.linspace(1 / 16, 1.0, 16)} - {now})
    if cores and tried:
        speeds = [(float(n), speed_of(replace(setting, threads=n))) for n in tried]
        best = int(_nearest(speeds, measured))
        few = "1 thread computes" if best == 1 else f"{best} threads compute"
        yield Cause("threads", f"{few}, not {now}", dict(speeds)[float(best)])


def _sockets(setting: Setting, speed_of: SpeedOf) -> Iterator[Cause]:
    if len(setting.machine.nodes) < 2:
        return
    for mode in get_args(NumaMode):
        if mode not in (setting.numa, "nodes"):
            text = f"several sockets: --numa {mode}, not {setting.numa}"
            yield Cause("sockets", text, speed_of(replace(setting, numa=mode)))


def _depth(setting: Setting, measured: float, speed_of: SpeedOf) -> Iterator[Cause]:
    depth, room = setting.context.depth, setting.context.allocated
    most = max(room, depth)
    tried = sorted({0, *np.linspace(0, most, 9).astype(int).tolist()} - {depth})
    if tried:
        at = {n: speed_of(replace(setting, context=Context(n, most))) for n in tried}
        best = int(_nearest([(float(n), speed) for n, speed in at.items()], measured))
        yield Cause("depth", f"{best:,} tokens are in the cache, not {depth:,}", at[best])


TIGHT = 0.8
"""Where the memory is stated, pages are read from the disk only if so much of it is needed."""


def _may_page(setting: Setting, host: Use | None) -> bool:
    if host is None or host.total is None or not is_stated(setting.machine):
        return True
    return host.needed > TIGHT * host.total


def _paging(
    predicted: float, measured: float, host: Use | None, host_bytes: float
) -> Iterator[Cause]:
    """Yield the share of experts that would have to come from the disk."""
    if host is None or not host_bytes or measured >= predicted:
        return
    from_disk = host_bytes / (DISK_GB_S * 1e9)
    share = min(1.0, (1.0 / measured - 1.0 / predicted) / from_disk)
    room = "" if host.total is None else f" of {host.total / GIB:.0f}"
    text = (
        f"{100 * share:.0f} % of the experts that the CPU calls are read from the disk at"
        f" {DISK_GB_S:g} GB/s: {host.needed / GIB:.0f}{room} GiB are needed"
    )
    yield Cause("paging", text, 1.0 / (1.0 / predicted + share * from_disk))
