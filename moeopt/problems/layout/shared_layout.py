"""Several scenarios: bounds that see what one layout for all costs, DIMM by DIMM.

Branch on how many experts are striped, and on the makespans: a box of them says how much work of
its own a DIMM may have in each scenario, and so which sets of experts may share one. These sets,
the *patterns*, are the columns of a linear relaxation, generated as its dual values ask for them.
The linear program only guides: its dual values, rounded to integers, are multipliers of a
Lagrangian relaxation, which is computed in integers over all patterns. Proofs stand in
`formulations/layout/spec.md`, section "Several scenarios".
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp

from moeopt.core.clock import spend
from moeopt.core.compiled import compiled

from .bounds import unit_of
from .instance import Instance
from .paths import Path

PARTS = 10
"""The next target is above the bound by what is open divided by this."""

FEW, NODES, MOST = 30_000, 1_000_000, 4_000_000
"""Sets that a search for patterns looks at: first, if that finds none, in a box (a point: 16 x)."""

SMALL, FEWER = 0.75, 0.4
"""Share of the classes that are small at first, and what is left of them if that is too weak."""

WIDEST, STEPS, ROUNDS = 40, 20, 60
"""Members of a set, steps to the prices of rooms, programs of a box; each at most."""

MAX_SCALE = 2**24
MAX_SUM = 2**60
NEVER = 2**56
"""More than any multiplied time."""

TOLERANCE = 1e-6
"""Relative gain from which a column enters."""

PIVOT_WORK, COLUMN_WORK, SET_WORK = 1e-7, 2e-6, 1.4e-8
"""Units of work for a pivot by row, a column of a program, and, per window, a set looked at."""

Ints = NDArray[np.int64]


class Box(NamedTuple):
    """Solutions with `first` to `last` striped experts and makespans from `least` to `most`."""

    first: int
    last: int
    least: tuple[int, ...]
    most: tuple[int, ...]


class Room(NamedTuple):
    """Per window: a DIMM's time for its own work; hosts' reads of localized experts."""

    most: Ints
    reads: Ints


class Pattern(NamedTuple):
    """Classes of experts on one DIMM, or a small one anywhere; reads and loads per window."""

    counted: bool
    members: tuple[int, ...]
    reads: tuple[int, ...]
    loads: tuple[int, ...]


class Striped(NamedTuple):
    """A class of striped experts, and whether the GPU runs it in each window."""

    member: int
    by_gpu: tuple[bool, ...]


class Multipliers(NamedTuple):
    """Integers >= 0, but for `striped`: per window, both, per class; of striped ones, a DIMM."""

    dimm: Ints
    gpu: Ints
    cpu: Ints
    read: Ints
    work: Ints
    cover: Ints
    striped: int
    each: int


Entry = tuple[pywraplp.Constraint, float]
Column = Pattern | Striped
Start = tuple[Multipliers, list[Column]]
"""What the parts of a box begin with: multipliers, and the columns in use."""


class Relaxation:
    """Windows with one layout; all times in units of their common divisor.

    Experts alike up to the room of a DIMM are a class, and its cheapest reads are theirs.
    """

    def __init__(self, instance: Instance, windows: list[int], box: Box) -> None:
        times, self.largest = instance.path_times, max(1, *box.most)
        unit = unit_of(instance)
        active = times.active[windows]
        at = np.flatnonzero(active.any(axis=0))
        self.weight, self.base = times.weight[windows], times.base // unit
        self.dimms, self.slots = instance.dimms, instance.hbm_slots
        most = len(at) if instance.dimm_slots is None else instance.dimm_slots
        self.most_members = min(most, len(at))
        too_long = self.largest + 1  # in no solution of the box, however much longer it is
        reads = np.minimum(times.read[[Path.CPU_STRIPED, Path.CPU_LOCAL]] // unit, too_long)
        self.striped, self.local = reads.tolist()
        cost = np.where(active[:, at], times.cost[:, windows][:, :, at] // unit, 0)
        cost = np.minimum(cost, too_long)
        idle = (~active[:, at]).sum(axis=1)
        room = np.array(box.most) - self.striped * np.maximum(0, box.first - idle)
        ndp = np.minimum(cost[Path.NDP], np.maximum(room, 0)[:, None] + 1)
        alike = np.concatenate([ndp, active[:, at]])
        kinds, of, size = np.unique(alike, axis=1, return_inverse=True, return_counts=True)
        self.ndp, self.active = kinds[: len(windows)], kinds[len(windows) :].astype(np.bool_)
        self.size, of = size.astype(np.int64), of.ravel()
        least = np.stack([cost[:, :, of == k].min(axis=2) for k in range(len(size))], axis=2)
        self.gpu, self.cpu = least[[Path.GPU_STRIPED, Path.CPU_STRIPED]]
        local = np.where(self.active, least[[Path.GPU_LOCAL, Path.CPU_LOCAL]], NEVER)
        self.gpu_read, self.cpu_read = local.min(axis=2)
        self.idle = (~self.active * self.size).sum(axis=1)
        sums = int(self.weight.sum()) * self.largest * len(at) * max(16, 4 * len(windows))
        self.scale = min(MAX_SCALE, MAX_SUM // sums)
        self._enough = int(TOLERANCE * self.scale * self.largest)
        self._theta = np.zeros(len(windows))

    def room(self, box: Box) -> Room:
        """Return what a box leaves for patterns."""
        striped = np.maximum(0, box.first - self.idle)
        most = np.array(box.most) - self.striped * striped
        return Room(most, self._most_reads(box, striped))

    def _most_reads(self, box: Box, striped: Ints) -> Ints:
        """Return how many localized experts the hosts have time to read besides striped ones."""
        found, every = np.zeros(len(self.weight), dtype=np.int64), int(self.size.sum())
        gpu, cpu = (np.where(self.active, of, NEVER).min(axis=1) for of in (self.gpu, self.cpu))
        for s, (makespan, least) in enumerate(zip(box.most, striped, strict=True)):
            on_gpu = np.arange(least + 1)
            left = makespan - self.base - on_gpu * gpu[s], makespan - (least - on_gpu) * cpu[s]
            each = self.gpu_read[s], self.cpu_read[s]
            reads = [of // time if time else every for of, time in zip(left, each, strict=True)]
            found[s] = np.where(np.minimum(*left) >= 0, sum(reads), 0).max()
        return found

    def prices(
        self, by: Multipliers, box: Box, room: Room, small: Ints, most: int
    ) -> tuple[int, list[Column], int]:
        """Return the Lagrangian bound of a box, columns that gain, and sets looked at, of `most`.

        Classes that are `small` lie anywhere.
        """
        worth, reads = self._worth(by, room)
        columns: list[Column] = [
            self._pattern(False, [i], reads[:, i].astype(np.int64).tolist())
            for i in small[worth[small] > self._enough].tolist()
        ]
        at = np.setdiff1d(np.flatnonzero(worth > 0), small)
        top, patterns, used = self._patterns(by, room, at, most)
        gpu, cpu = by.gpu[:, None] * self.gpu, by.cpu[:, None] * self.cpu
        striped = by.dimm[:, None] * self.striped + np.minimum(gpu, cpu)
        gain = by.cover + by.striped - np.where(self.active, striped, 0).sum(axis=0)
        columns += [
            Striped(i, tuple((gpu < cpu)[:, i].tolist()))
            for i in np.flatnonzero(gain > self._enough).tolist()
        ]
        total = by.striped * (box.first if by.striped >= 0 else box.last)
        best = np.sort(np.repeat(by.cover, np.minimum(self.size, self.slots)))[::-1]
        total += int(by.cover @ self.size) - int(best[: self.slots].sum()) - self.dimms * top
        total -= int(np.maximum(gain, 0) @ self.size)
        total -= int(np.maximum(worth, 0)[small] @ self.size[small])
        host = np.minimum(by.gpu * self.gpu_read, by.cpu * self.cpu_read)
        total -= int(np.maximum(by.read - host, 0) @ room.reads)
        total += int(by.gpu.sum()) * self.base
        for s in range(len(self.weight)):
            left = int(self.weight[s]) * self.scale - int(by.dimm[s] + by.gpu[s] + by.cpu[s])
            total += left * (box.least if left >= 0 else box.most)[s]
            total += min(0, int(by.dimm[s]) - self.dimms * int(by.work[s])) * int(room.most[s])
        return -(-total // self.scale), patterns + columns, used

    def _worth(self, by: Multipliers, room: Room) -> tuple[Ints, NDArray[np.bool_]]:
        """Return what classes gain by themselves, -1 if nowhere, and where hosts read them."""
        own = by.work[:, None] * self.ndp
        read = (by.read + by.work * self.local)[:, None]
        may = (room.reads > 0)[:, None] & (self.ndp > self.local)
        reads = may & ((read < own) | (self.ndp > room.most[:, None]))
        never = (np.where(reads, self.local, self.ndp) > room.most[:, None]).any(axis=0)
        return np.where(never, -1, by.cover - np.where(reads, read, own).sum(axis=0)), reads

    def _loads(self, room: Room) -> Ints:
        """Return the least work of a DIMM with each class."""
        return np.where((room.reads > 0)[:, None], np.minimum(self.ndp, self.local), self.ndp)

    def _pattern(self, counted: bool, members: list[int], reads: list[int]) -> Pattern:
        """Return a pattern; hosts read those with most work first."""
        own = -np.sort(-self.ndp[:, members], axis=1)
        saved = np.maximum(own - self.local, 0)
        saved *= np.arange(len(members)) < np.array(reads)[:, None]
        loads = tuple((own - saved).sum(axis=1).tolist())
        return Pattern(counted, tuple(sorted(members)), tuple(reads), loads)

    def _patterns(
        self, by: Multipliers, room: Room, at: Ints, most: int
    ) -> tuple[int, list[Column], int]:
        """Return what a pattern gains at most, those that gain more than a DIMM is worth."""
        base, value = self._values(by, room, at)
        order = np.argsort(-value, kind="stable")
        at, value = at[order], value[order]
        rest = (np.maximum(value, 0) * self.size[at])[::-1].cumsum()[::-1]
        windows = len(room.most)
        loads = np.sort(np.repeat(self._loads(room), self.size, axis=1), axis=1).cumsum(axis=1)
        members = min(self.most_members, int((loads <= room.most[:, None]).sum(axis=1).min()))
        found = np.full((len(at), 1 + windows + min(members, WIDEST)), by.each)
        top, used = best_patterns(
            np.stack([value, rest, by.cover[at], self.size[at], at]),
            np.ascontiguousarray(self.ndp[:, at]),
            np.stack([*room, by.read, by.work]),
            np.array([base, self.local, members, by.each, most]),
            found,
        )
        spend(SET_WORK * windows * used)
        rows = np.unique(found[found[:, 0] > by.each], axis=0)[::-1, 1:].tolist()
        split = [(row[:windows], [i for i in row[windows:] if i >= 0]) for row in rows]
        return top, [self._pattern(True, of, reads) for reads, of in split], used

    def _values(self, by: Multipliers, room: Room, at: Ints) -> tuple[int, Ints]:
        """Return a bound on what a pattern gains: a base, and classes' values."""
        own, size = np.minimum(self.ndp[:, at], room.most[:, None] + 1), self.size[at]
        may = (room.reads > 0)[:, None] & (own > self.local)
        step, best = 0.3, (NEVER * NEVER, 0, own[0])
        theta = self._theta if self._theta.any() else by.each / (room.most + 1) / len(own)
        most = 4 * (by.each + by.cover.max()) / (room.most + 1)
        for _ in range(STEPS):
            price = np.clip(theta, 0, most).astype(np.int64)
            each = (by.work + price)[:, None] * own
            read = (by.read + (by.work + price) * self.local)[:, None]
            reads = may & (read < each)
            value = by.cover[at] - np.where(reads, read, each).sum(axis=0)
            bound = int(price @ room.most) + int(np.maximum(value, 0) @ size)
            if bound < best[0]:
                best, self._theta = (bound, int(price @ room.most), value), theta
            load = (np.where(reads, self.local, own) * ((value > 0) * size)).sum(axis=1)
            over = np.clip(load / np.maximum(room.most, 1) - 1, -1, 2)
            theta, step = np.maximum(theta, 1.0) * (1 + step * over), 0.9 * step
        return best[1:]

    def bound(
        self, box: Box, known: int, enough: int, start: Start | None
    ) -> tuple[int, Start | None, list[float]]:
        """Return a bound on a box, with what its parts begin with and the relaxation's makespans.

        It is enough to reach `enough`, and no use below `known`; `start` is of a box around.
        """
        room, best, ends, looks = self.room(box), known, list[float](), FEW
        if (room.most < 0).any() or min(box.most) < self.base:
            return enough, start, ends
        share = (self._loads(room) / np.maximum(room.most, 1)[:, None]).sum(axis=0)
        small = share.argsort(kind="stable")[: int(SMALL * len(share))]
        if start is not None:
            best = max(best, self.prices(start[0], box, room, small, FEW)[0])
        left = MOST * (1 if box.least < box.most else 16)
        program = Program(self, box, room, start[1] if start else [])
        program.permit(small)
        for _ in range(ROUNDS):
            if best >= enough or left <= 0 or (value := program.solve()) is None:
                break
            ends, start = program.found()
            if value <= enough - 1:  # it will not be reached
                if not len(small) or box.first < box.last:
                    break
                small, looks = small[: int(FEWER * len(small))], FEW
                program.permit(small)
                continue
            reached, columns, used = self.prices(start[0], box, room, small, looks)
            best, left = max(best, reached), left - used
            if not program.enter(columns):
                if used < looks or looks == NODES or box.first < box.last:
                    break
                looks = NODES
        return best, start, ends


class Program:
    """The linear relaxation of a box, over the columns that have entered."""

    def __init__(self, relaxation: Relaxation, box: Box, room: Room, columns: list[Column]) -> None:
        self._of, self._room = relaxation, room
        of, unit = relaxation, 1 / relaxation.largest
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._solver.SetSolverSpecificParametersAsString("use_preprocessing: false")
        self._unit, self._inf = unit, self._solver.infinity()
        self._columns: dict[Column, pywraplp.Variable] = {}
        windows, no = range(len(of.weight)), (False,) * len(of.weight)
        self._dimm, self._cpu, self._read, self._work = (
            [self._row(0) for _ in windows] for _ in range(4)
        )
        self._gpu = [self._row(-of.base * unit) for _ in windows]
        reads = [self._row(most) for most in room.reads]
        self._cover = [self._row(-size) for size in of.size]
        self._each, slots = self._row(of.dimms), self._row(of.slots)
        self._first, self._last = self._row(-box.first), self._row(box.last)
        self._makespan = []
        for s in windows:
            rows = [(of[s], -1.0) for of in (self._dimm, self._gpu, self._cpu)]
            column = self._column(rows, box.least[s] * unit, box.most[s] * unit)
            self._solver.Objective().SetCoefficient(column, float(of.weight[s]))
            self._makespan.append(column)
            rows = [(self._dimm[s], 1.0), (self._work[s], -of.dimms)]
            self._column(rows, 0, room.most[s] * unit)
            for host, times in ((self._gpu, of.gpu_read), (self._cpu, of.cpu_read)):
                self._column([(self._read[s], -1), (host[s], times[s] * unit), (reads[s], 1)])
        for i, row in enumerate(self._cover):
            self._column([(row, -1), (slots, 1)], 0, of.size[i])
        for row in (*self._cover, self._first):  # if by nothing else
            column = self._column([(row, -1)])
            self._solver.Objective().SetCoefficient(column, 2.0 * float(of.weight.sum()))
        self.enter([*(Striped(i, no) for i in range(len(of.size))), *columns])

    def _row(self, most: float) -> pywraplp.Constraint:
        return self._solver.Constraint(-self._inf, float(most))

    def _column(
        self, entries: Iterable[Entry], least: float = 0, most: float = np.inf
    ) -> pywraplp.Variable:
        column = self._solver.NumVar(float(least), float(most), "")
        for row, value in entries:
            row.SetCoefficient(column, float(value))
        return column

    def enter(self, columns: Iterable[Column]) -> bool:
        """Let columns enter that the box has room for; tell whether there are any new ones."""
        before, room = len(self._columns), [*self._room.most.tolist(), *self._room.reads.tolist()]
        for column in columns:
            if column in self._columns:
                continue
            if isinstance(column, Striped):
                self._columns[column] = self._column(self._striped(column))
            elif all(map(int.__le__, column.loads + column.reads, room)):
                self._columns[column] = self._column(self._pattern(column))
        return len(self._columns) > before

    def _striped(self, of: Striped) -> Iterator[Entry]:
        yield from ((self._cover[of.member], -1), (self._first, -1), (self._last, 1))
        for s in np.flatnonzero(self._of.active[:, of.member]).tolist():
            yield self._dimm[s], self._of.striped * self._unit
            host, times = (self._gpu, self._of.gpu) if of.by_gpu[s] else (self._cpu, self._of.cpu)
            yield host[s], times[s, of.member] * self._unit

    def _pattern(self, of: Pattern) -> Iterator[Entry]:
        many = {i: of.members.count(i) for i in of.members}
        yield from ((self._cover[i], -n) for i, n in many.items())
        yield from zip(self._read, of.reads, strict=True)
        yield from ((row, n * self._unit) for row, n in zip(self._work, of.loads, strict=True))
        if of.counted:
            yield self._each, 1

    def permit(self, small: Ints) -> None:
        """Let only these classes lie anywhere."""
        for key, column in self._columns.items():
            if isinstance(key, Pattern) and not key.counted:
                column.SetUb(self._inf if key.members[0] in small else 0.0)

    def solve(self) -> float | None:
        """Return the least value; None if it was not found."""
        done = self._solver.Solve() == pywraplp.Solver.OPTIMAL
        pivots = self._solver.iterations() * self._solver.NumConstraints()
        spend(PIVOT_WORK * pivots + COLUMN_WORK * len(self._columns))
        return float(self._solver.Objective().Value()) * self._of.largest if done else None

    def found(self) -> tuple[list[float], Start]:
        """Return the makespans, in units, multipliers, and the columns without reduced cost."""
        ends = [float(of.solution_value()) * self._of.largest for of in self._makespan]
        used = [key for key, column in self._columns.items() if column.reduced_cost() < 1e-9]
        return ends, (self._multipliers(), used)

    def _multipliers(self) -> Multipliers:
        """Return the dual values as integers."""
        of, whole = self._of, self._of.largest

        def ints(rows: Iterable[pywraplp.Constraint], unit: int = 1) -> Ints:
            dual = [max(0.0, -row.dual_value()) for row in rows]
            return np.asarray((np.array(dual) * (of.scale * unit)).astype(np.int64))

        striped = self._last.dual_value() - self._first.dual_value()
        dimm, gpu, cpu, work = map(ints, (self._dimm, self._gpu, self._cpu, self._work))
        read, cover, each = (ints(r, whole) for r in (self._read, self._cover, [self._each]))
        per = round(striped * of.scale * whole)
        return Multipliers(dimm, gpu, cpu, read, work, cover, per, int(each[0]))


VALUE, REST, COVER, SIZE, NUMBER = range(5)
ROOM, READS, READ, WORK = range(4)
BASE, LOCAL, MEMBERS, EACH, LOOKS = range(5)
"""Rows of `classes`, of `window` and entries of `limits` in `best_patterns`: REST is the sum of the
positive values from there on, EACH a gain of no interest.
"""


@compiled
def best_patterns(
    classes: Ints, own: Ints, window: Ints, limits: Ints, found: Ints
) -> tuple[int, int]:
    """Return what a set gains at most, if more than is of no interest, and sets looked at.

    Depth first, classes by falling value: a set gains at most its members' and the base. `own` is
    work per window and class; `found` gets of the best set with each class its gain, reads, and
    members, or -1 for none.
    """
    windows, count = own.shape
    width, local = found.shape[1] - 1 - windows, limits[LOCAL]
    top, looks, depth = limits[EACH], 0, 0
    begin, chosen, again, cover, value = np.zeros((5, width + 2), dtype=np.int64)
    load = np.zeros((width + 2, windows), dtype=np.int64)
    reads = np.zeros(windows, dtype=np.int64)
    value[0] = limits[BASE]
    while depth >= 0:
        j = begin[depth]
        bound = value[depth]
        if j < count:
            bound += classes[REST, j] if classes[VALUE, j] > 0 else classes[VALUE, j]
        if j >= count or bound <= limits[EACH] or depth >= width or looks >= limits[LOOKS]:
            if j < count and depth < limits[MEMBERS]:
                top = max(top, bound)
            depth -= 1
            continue
        begin[depth] = j + 1
        same = again[depth] if depth > 0 and chosen[depth - 1] == j else 0
        if same >= classes[SIZE, j]:
            continue
        looks += 1
        chosen[depth] = j
        again[depth + 1] = same + 1
        cover[depth + 1] = cover[depth] + classes[COVER, j]
        value[depth + 1] = value[depth] + classes[VALUE, j]
        least, gain = np.int64(0), cover[depth + 1]
        for s in range(windows):
            left = load[depth + 1, s] = load[depth, s] + own[s, j]
            least, k, equal, last = np.int64(-1), 0, 0, np.int64(2**62)
            while True:  # with ever more of the longest read by hosts
                if left <= window[ROOM, s]:
                    cost = window[READ, s] * k + window[WORK, s] * left
                    if least < 0 or cost < least:
                        least, reads[s] = cost, k
                if equal > 0:
                    equal -= 1
                else:
                    largest = np.int64(-1)
                    for m in range(depth + 1):
                        work = own[s, chosen[m]]
                        if largest < work < last:
                            largest, equal = work, 0
                        elif work == largest:
                            equal += 1
                    last = largest
                less = last - local
                if k >= window[READS, s] or less <= 0:
                    break
                if least >= 0 and window[READ, s] >= window[WORK, s] * less:
                    break
                left -= less
                k += 1
            if least < 0:
                break
            gain -= least
        if least < 0:
            continue
        depth += 1
        begin[depth] = j
        top = max(top, gain)
        for m in range(depth):
            row = chosen[m]
            if gain > found[row, 0]:
                found[row, 0] = gain
                for s in range(windows):
                    found[row, 1 + s] = reads[s]
                for n in range(width):
                    found[row, 1 + windows + n] = classes[NUMBER, chosen[n]] if n < depth else -1
    return top, looks


@dataclass
class SharedLayout:
    """All windows of an instance, bounds on each by itself, an objective; in units of times."""

    instance: Instance
    least: list[int]
    enough: int

    def bounds(self) -> Iterator[int]:
        """Yield higher and higher bounds on the objective, up to `enough`."""
        times, number = self.instance.path_times, 0
        some = np.flatnonzero(times.active.any(axis=1)).tolist()
        weight = times.weight[some].tolist()
        least = tuple(self.least[s] for s in some)
        bound = _sum(weight, least)
        idle = _sum(times.weight.tolist(), self.least) - bound
        yield min(bound + idle, self.enough)
        enough = self.enough - idle
        if bound >= enough or not some:
            return
        most = tuple(t + (enough - bound) // w for w, t in zip(weight, least, strict=True))
        box = Box(0, int(times.active.any(axis=0).sum()), least, most)
        relaxation, target = Relaxation(self.instance, some, box), bound
        if not relaxation.scale:  # multiplied times would leave int64
            return
        heap: list[tuple[int, int, Box, Start | None]] = [(bound, 0, box, None)]
        while bound < enough:
            if bound >= target:
                target = bound + max(1, (enough - bound) // PARTS)
            _, _, box, start = heappop(heap)
            spare, value, ends = target - 1 - _sum(weight, box.least), target, list[float]()
            room = [a + spare // w for w, a in zip(weight, box.least, strict=True)]
            within = box._replace(most=tuple(map(min, box.most, room)))
            if spare >= 0:
                value, start, ends = relaxation.bound(within, bound, target, start)
            parts = [box] if value >= target else _parts(box, within, ends, weight)
            if not parts:
                return
            for part in parts:
                number -= 1
                reached = max(min(value, target), _sum(weight, part.least))
                heappush(heap, (reached, number, part, start))
            bound = heap[0][0]
            yield min(bound + idle, self.enough)


def _sum(weight: Sequence[int], times: Sequence[int]) -> int:
    return sum(w * t for w, t in zip(weight, times, strict=True))


def _parts(box: Box, within: Box, ends: list[float], weight: list[int]) -> list[Box]:
    """Return two parts of a box, divided where most of what is within is open; none of a point."""
    if box.first < box.last:
        middle = (box.first + box.last) // 2
        return [box._replace(last=middle), box._replace(first=middle + 1)]
    least, most = within.least, within.most
    from_ = [max(a, int(b)) for a, b in zip(least, ends or least, strict=True)]
    some = [s for s in range(len(least)) if least[s] < most[s]]
    if not some:
        return []
    s = max(some, key=lambda s: weight[s] * (most[s] - from_[s]))
    middle = min((from_[s] + most[s]) // 2, most[s] - 1)
    low, high = list(box.most), list(box.least)
    low[s], high[s] = middle, middle + 1
    return [box._replace(most=tuple(low)), box._replace(least=tuple(high))]
