"""Lower bounds that need no solver, each with its proof.

The best is that of the Lagrangian relaxation of the memory rows: what is left is a shortest path
over the layers.

Rows. A device's parts take at most its room (`paths.Paths.room`). So do, for every whole q, the
parts counted in q-ths of the room and rounded down: sum over parts of floor(q bytes / room) <= q
(Chvatal and Gomory; Fekete and Schepers call the rounding a dual feasible function). With a large q
that is the memory row itself, with q = floor(room / bytes of the experts of a layer) it says how
many layers' experts fit. All numbers are integers.

Proof. Every valid split keeps all rows. For integers m >= 0, in units of 1 / SCALE ns, adding
m x (left side - right side) of each row changes no valid split's objective upwards; without the
rows what is left is a shortest path with m x rounded bytes added to each part's time, which
`paths.completions` solves exactly. So its length less the sum of m x q, over SCALE and rounded up,
is a lower bound, whatever the multipliers are. How they are found, in floating point, does not
matter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from moeopt.algorithms.lagrangian import Averages, Pace, Volume, stride
from moeopt.core.clock import spend

from .instance import Instance
from .paths import FAR, Ints, Paths, cheapest, completions, paths_of

SCALE_BITS = 10
"""Most bits that a ns is divided into for multipliers."""

MOST_SIZES = 3
"""Rounded rows of a device are of so many sizes of parts, the most frequent ones."""

FINE = 2**20
"""The q of the memory rows themselves."""

MOST_WEIGHT = 2.0**57
"""Largest multiplier of a row times its right side: a part counts in up to 1 + 2 MOST_SIZES."""

STEPS_PER_UNIT = 150_000_000
"""Inner steps of `completions` and `cheapest` per unit of work: layers x devices^2."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """Rounded memory rows.

    Attributes
    ----------
    device, q
        Shape (rows,).
    attention, experts
        What each layer's part counts in a row, shape (rows, layers).
    """

    device: Ints
    q: Ints
    attention: Ints
    experts: Ints


@dataclass(frozen=True)
class Relaxed:
    """The relaxation at some multipliers.

    Attributes
    ----------
    bound
        The lower bound, in ns.
    multipliers
        Shape (rows,), in 1 / `scale` ns.
    homes
        Its cheapest path, shape (2, layers).
    """

    bound: int
    multipliers: Ints
    homes: Ints


def rows_of(paths: Paths) -> Rows:
    """Return the memory rows and the rounded ones of the parts' most frequent sizes."""
    chosen: list[tuple[int, int]] = []
    for device, room in enumerate(paths.room.tolist()):
        if room <= 0:
            continue
        qs = [FINE]
        for sizes in (paths.experts_bytes, paths.attention_bytes):
            found, counts = np.unique(sizes[(sizes > 0) & (sizes <= room)], return_counts=True)
            often = np.argsort(-counts, kind="stable")[:MOST_SIZES]
            qs += [room // int(size) for size in found[often]]
        chosen += [(device, q) for q in dict.fromkeys(qs)]
    counted = []
    for sizes in (paths.attention_bytes, paths.experts_bytes):
        table = [
            [min(FAR >> 20, q * int(size) // int(paths.room[d])) for size in sizes]
            for d, q in chosen
        ]
        counted.append(np.array(table, dtype=np.int64).reshape(len(chosen), len(sizes)))
    of, whole = (np.array([row[n] for row in chosen], dtype=np.int64) for n in range(2))
    return Rows(of, whole, counted[0], counted[1])


def fitting(paths: Paths) -> Paths:
    """Return the paths without homes that a part alone does not fit into."""
    tables = []
    for times, sizes in (
        (paths.attention, paths.attention_bytes),
        (paths.experts, paths.experts_bytes),
    ):
        tables.append(np.where(sizes[:, None] <= paths.room[None, :], times, FAR))
    tables[1] = np.where(paths.has[:, None] > 0, tables[1], 0)
    return Paths(**{**vars(paths), "attention": tables[0], "experts": tables[1]})


def relaxed(paths: Paths, rows: Rows, multipliers: Ints, scale: int) -> Relaxed | None:
    """Return the relaxation at some multipliers; None if even without memory there is no way."""
    priced = []
    for times, counted in ((paths.attention, rows.attention), (paths.experts, rows.experts)):
        more = np.zeros_like(times)
        for device in range(times.shape[1]):
            own = rows.device == device
            more[:, device] = multipliers[own] @ counted[own]
        priced.append(np.where(times < FAR, times * scale + more, FAR))
    at = (priced[0], priced[1], paths.hop * scale, paths.has, paths.place, paths.source)
    table = completions(*at)
    spend(2 * paths.attention.size * paths.attention.shape[1] / STEPS_PER_UNIT)
    first = int(np.argmin(paths.place))
    value = int(table[0, first, paths.source])
    if value >= FAR:
        return None
    of_rows = sum(m * q for m, q in zip(multipliers.tolist(), rows.q.tolist(), strict=True))
    bound = -((of_rows - value) // scale)
    return Relaxed(bound, multipliers, cheapest(*at, table))


def scale_of(paths: Paths, largest: int) -> int:
    """Return the largest power of two in which sums with multipliers stay far below `FAR`."""
    bits = 59 - max(1, largest).bit_length() - 4
    return 1 << max(0, min(SCALE_BITS, bits))


def overuse(rows: Rows, homes: Ints) -> Floats:
    """Return by how much each row is exceeded, as a share of its right side; negative: spare."""
    found = np.empty(len(rows.q))
    for row, device in enumerate(rows.device):
        left = rows.attention[row][homes[0] == device].sum()
        left += rows.experts[row][homes[1] == device].sum()
        found[row] = left / rows.q[row] - 1.0
    return found


PACE = Pace(longest=1.0, shortest=1e-3, shorter=0.625, patience=8, share=0.5)
"""Steps of the volume algorithm: long ones, since prices begin at 0."""


class Rooms:
    """The dual of the memory rows: their prices in ns, times their right sides.

    Parameters
    ----------
    largest
        No objective is above it.
    """

    def __init__(self, paths: Paths, rows: Rows, largest: int) -> None:
        self.paths, self.rows = paths, rows
        self.scale = scale_of(paths, largest)
        # A device's memory is worth no more than everything; and all its rows stay below FAR.
        self.limit = min((4.0 * largest + 4.0) * self.scale, MOST_WEIGHT) / self.scale

    def first(self) -> Relaxed | None:
        """Return the relaxation without prices; None if there is no way at all."""
        return relaxed(self.paths, self.rows, np.zeros(len(self.rows.q), np.int64), self.scale)

    def evaluate(self, at: Floats) -> Relaxed:
        """Return the relaxation at some prices."""
        whole = np.rint(at * self.scale / self.rows.q).astype(np.int64)
        found = relaxed(self.paths, self.rows, whole, self.scale)
        return found or Relaxed(-FAR, whole, np.full((2, len(self.paths.has)), -1))

    def seen(self, value: Relaxed) -> Averages:
        """Return by how much rows are exceeded."""
        return {"over": overuse(self.rows, value.homes)}

    def moved(self, now: Relaxed, mean: Averages, step: float, gap: float) -> Floats | None:
        """Return prices a step along the mean; one of 0 does not fall."""
        at = now.multipliers * self.rows.q / self.scale
        upward = np.where((at <= 0) & (mean["over"] < 0), 0.0, mean["over"])
        factor = stride(step, max(1.0, gap), upward)
        return np.clip(at + factor * upward, 0.0, self.limit) if factor else None


def ascend(
    paths: Paths,
    rows: Rows,
    largest: int,
    target: int | None,
    steps: int,
    seen: Callable[[Relaxed], bool],
) -> Relaxed | None:
    """Raise the bound by the volume algorithm (`moeopt.algorithms.lagrangian`).

    Parameters
    ----------
    largest
        No objective is above it.
    target
        An objective that is known to be reached; None: none is known.
    steps
        How many prices are tried at most.
    seen
        Told of each relaxation; returns whether to stop.

    Returns
    -------
    Relaxed or None
        The best; None if there is no way at all.
    """
    dual = Rooms(paths, rows, largest)
    first = dual.first()
    if first is None or seen(first) or not len(rows.q):
        return first
    volume = Volume(dual, first, PACE)
    for _ in range(steps):
        volume.iterate(target, 1, lambda: False)
        if volume.converged or seen(volume.now):
            break
    return volume.best


STEPS = 50
"""Multipliers that the quick bound tries."""


def objective_grid(instance: Instance) -> int:
    """Return a number that every objective is a multiple of: all times' common divisor."""
    found = 0
    for weight, prompt, hops in instance.kinds:
        times = [time for row in hops or () for time in row]
        for layer in instance.layers:
            for part in ("attention", "experts"):
                times += [t for t in getattr(layer, f"{prompt}{part}_ns") or () if t is not None]
        found = gcd(found, weight * gcd(*times))
    return found or 1


def lower_bound(instance: Instance) -> int:
    """Return the bound of the Lagrangian relaxation of the memory rows.

    Proof. Where a device holds anything, its parts take at most its memory without its buffer
    (SP-C2, SP-C3); where it holds nothing they take 0, which is no more if the buffer fits. If the
    buffer does not fit, nothing can lie there. So the buffer's condition is a plain memory row. The
    rest is the proof above. An instance without a path at all is infeasible; the bound is
    then above every objective.
    """
    paths = fitting(paths_of(instance))
    best = ascend(paths, rows_of(paths), instance.largest, None, STEPS, lambda _: False)
    if best is None:
        return instance.largest + 1
    grid = objective_grid(instance)
    return max(0, -(-best.bound // grid) * grid)
