"""Several scenarios: bounds that see what one layout for all costs, DIMM by DIMM.

Branch on how many experts are striped, and on the makespans: a box of them says how much work of
its own a DIMM may have in each scenario, and so which sets of experts may share one. These sets,
the *patterns*, are the columns of a linear relaxation, generated as its dual values ask for them.
The linear program only guides: its dual values, rounded to integers, are multipliers of a
Lagrangian relaxation, which is computed in integers over all patterns. Proofs stand in
`formulations/layout/spec.md`, section "Several scenarios".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, linprog
from scipy.sparse import csc_array

from moeopt.core.clock import spend

from .bounds import unit_of
from .instance import Instance
from .paths import Path

FIRST_PATTERNS, MOST_PATTERNS = 20_000, 320_000
"""Beyond so many sets the experts that are smallest in a box share what capacity is left.

Four times as many are permitted where a box cannot be divided any more.
"""

KEPT = 20
"""Enumerations of patterns that are kept: a smaller box has some of a larger one's."""

ENTERING = 60
"""Patterns that enter the linear program at once."""

ROUNDS = 30
MAX_SCALE = 2**24
MAX_SUM = 2**60
NEVER = 2**56
"""More than any multiplied time."""

TOLERANCE = 1e-6
"""Relative gain from which a column enters."""

PROGRAM_WORK, PATTERN_WORK, SET_WORK = 8e-6, 3e-8, 2e-9
"""Units of work for a column of a linear program; per window for a pattern that is priced, and for
one expert more that a set is tried with.
"""

NO_PRESOLVE = {"presolve": False}
"""Programs are small: without it they take two thirds of the time."""

Ints = NDArray[np.int64]


class Box(NamedTuple):
    """Solutions with `first` to `last` striped experts and makespans from `least` to `most`."""

    first: int
    last: int
    least: tuple[int, ...]
    most: tuple[int, ...]


class Patterns(NamedTuple):
    """Sets of classes of experts.

    Attributes
    ----------
    members
        Shape (patterns, largest): classes in order, the number of classes where there is none.
    loads
        Shape (windows, patterns, 1 + largest): the DIMM's work where hosts read so many of them.
    counted
        Whether it fills a DIMM; otherwise it is a single small expert anywhere.
    """

    members: Ints
    loads: Ints
    counted: NDArray[np.bool_]


class Multipliers(NamedTuple):
    """Integers >= 0, but for `striped`: per window, then per class, then of the number striped."""

    dimm: Ints
    gpu: Ints
    cpu: Ints
    read: Ints
    work: Ints
    cover: Ints
    striped: int


class Prices(NamedTuple):
    """A bound, what columns gain at its multipliers, and how: reads, or whether by the GPU."""

    bound: int
    gain: Ints
    reads: Ints
    striped_gain: Ints
    by_gpu: NDArray[np.bool_]


class Column(NamedTuple):
    """A column of the linear program, a pattern's loads, and who fills no DIMM, or -1."""

    rows: Ints
    values: NDArray[np.float64]
    loads: Ints
    single: int


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
        reads = times.read[[Path.CPU_STRIPED, Path.CPU_LOCAL]] // unit
        self.striped, self.local = reads.tolist()
        cost = np.where(active[:, at], times.cost[:, windows][:, :, at] // unit, 0)
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
        sums = float(self.weight.sum()) * self.largest * len(at) * 16
        self.scale = max(1, min(MAX_SCALE, int(MAX_SUM // sums)))
        self.limit = FIRST_PATTERNS
        self._kept: list[tuple[Ints, Patterns]] = []
        self._fixed = self._first_columns()
        self._columns: dict[object, Column] = {
            of: self._striped(of, np.zeros(len(windows), dtype=np.bool_)) for of in range(len(size))
        }

    def room(self, box: Box) -> Ints:
        """Return how much work of its own a DIMM has time for in each window."""
        return np.asarray(box.most - self.striped * np.maximum(0, box.first - self.idle))

    def most_reads(self, box: Box) -> Ints:
        """Return how many localized experts the hosts have time to read besides striped ones."""
        found, every = np.zeros(len(self.weight), dtype=np.int64), int(self.size.sum())
        gpu, cpu = (np.where(self.active, of, NEVER).min(axis=1) for of in (self.gpu, self.cpu))
        for s, makespan in enumerate(box.most):
            least = max(0, box.first - int(self.idle[s]))
            on_gpu = np.arange(least + 1)
            left = makespan - self.base - on_gpu * gpu[s], makespan - (least - on_gpu) * cpu[s]
            each = self.gpu_read[s], self.cpu_read[s]
            reads = [of // time if time else every for of, time in zip(left, each, strict=True)]
            found[s] = np.where(np.minimum(*left) >= 0, sum(reads), 0).max()
        return found

    def patterns(self, room: Ints) -> Patterns:
        """Return the sets of experts that may share a DIMM."""
        for larger, kept in reversed(self._kept):
            if (room <= larger).all():
                fits = (kept.loads.min(axis=2) <= room[:, None]).all(axis=0)
                if kept.counted.all() or 2 * int(fits.sum()) > self.limit:
                    return Patterns(kept.members[fits], kept.loads[:, fits], kept.counted[fits])
                break
        least = np.minimum(self.ndp, self.local)
        order = np.argsort(-(least / np.maximum(room, 1)[:, None]).sum(axis=0), kind="stable")
        large = len(order)
        while (members := self._sets(np.sort(order[:large]), least, room)) is None:
            large = large * 4 // 5
        alone = np.sort(order[large:])
        single = np.full((len(alone), members.shape[1]), len(self.size))
        single[:, 0] = alone
        rows = np.concatenate([members, single])
        found = Patterns(rows, self._loads(rows), np.arange(len(rows)) < len(members))
        self._kept = [*self._kept[-KEPT:], (room, found)]
        return found

    def refined(self, box: Box) -> bool:
        """Permit more patterns; False if that changes nothing in a box, or they are too many."""
        complete = self.patterns(self.room(box)).counted.all()
        self.limit *= 4
        return self.limit <= MOST_PATTERNS and not complete

    def _sets(self, classes: Ints, least: Ints, room: Ints) -> Ints | None:
        """Return all sets of some classes that fit with the least work of each; None if many."""
        of, absent = least[:, classes].T, len(self.size)
        sets, work = np.zeros((1, 0), dtype=np.int64), np.zeros((1, len(room)), dtype=np.int64)
        found, total = list[Ints](), 0
        while len(sets) and sets.shape[1] < self.most_members:
            spend(SET_WORK * len(room) * len(classes) * len(sets))
            fits = np.ones((len(sets), len(classes)), dtype=np.bool_)
            for s in range(len(room)):
                fits &= work[:, s, None] + of[:, s] <= room[s]
            if sets.shape[1]:
                last = sets[:, -1]
                again = (sets == last[:, None]).sum(axis=1) < self.size[last]
                fits &= (last[:, None] < classes) | ((last[:, None] == classes) & again[:, None])
            before, added = np.nonzero(fits)
            if (total := total + len(added)) > self.limit:
                return None
            sets = np.column_stack([sets[before], classes[added]])
            work = work[before] + of[added]
            found.append(sets)
        widest = max((len(sets.T) for sets in found if len(sets)), default=1)
        every = np.full((total, widest), absent)
        end = 0
        for sets in found:
            if len(sets):
                every[end : end + len(sets), : len(sets.T)] = sets
            end += len(sets)
        return every

    def _loads(self, members: Ints) -> Ints:
        """Return `Patterns.loads`: hosts read those with most work first, if that is less."""
        work = np.pad(self.ndp, ((0, 0), (0, 1)))[:, members]
        work = -np.sort(-work, axis=2)
        saved = np.maximum(work - self.local, 0)
        zero = np.zeros((*work.shape[:2], 1), dtype=np.int64)
        less = np.concatenate([zero, np.cumsum(saved, axis=2)], axis=2)
        return np.asarray(work.sum(axis=2, keepdims=True) - less)

    def prices(self, by: Multipliers, box: Box, patterns: Patterns) -> Prices:
        """Return the Lagrangian bound of a box and what columns would gain."""
        room, windows = self.room(box), len(self.weight)
        spend(PATTERN_WORK * windows * len(patterns.counted))
        reads = np.arange(patterns.loads.shape[2])
        cost = by.read[:, None, None] * reads + by.work[:, None, None] * patterns.loads
        cost = np.where(patterns.loads <= room[:, None, None], cost, NEVER)
        mode = cost.argmin(axis=2)
        least = np.take_along_axis(cost, mode[:, :, None], 2)[:, :, 0].sum(axis=0)
        gain = np.append(by.cover, 0)[patterns.members].sum(axis=1) - least
        gpu, cpu = by.gpu[:, None] * self.gpu, by.cpu[:, None] * self.cpu
        striped = by.dimm[:, None] * self.striped + np.minimum(gpu, cpu)
        striped_gain = by.cover + by.striped - np.where(self.active, striped, 0).sum(axis=0)
        total = by.striped * (box.first if by.striped >= 0 else box.last) + int(
            by.cover @ self.size
        )
        best = np.sort(np.repeat(by.cover, np.minimum(self.size, self.slots)))[::-1]
        total -= int(best[: self.slots].sum()) + int(np.maximum(striped_gain, 0) @ self.size)
        total -= self.dimms * max(0, int(gain[patterns.counted].max(initial=0)))
        small = ~patterns.counted
        total -= int(np.maximum(gain[small], 0) @ self.size[patterns.members[small, 0]])
        host = np.minimum(by.gpu * self.gpu_read, by.cpu * self.cpu_read)
        total -= int(np.maximum(by.read - host, 0) @ self.most_reads(box))
        total += int(by.gpu.sum()) * self.base
        for s in range(windows):
            left = int(self.weight[s]) * self.scale - int(by.dimm[s] + by.gpu[s] + by.cpu[s])
            total += left * (box.least if left >= 0 else box.most)[s]
            total += min(0, int(by.dimm[s]) - self.dimms * int(by.work[s])) * int(room[s])
        return Prices(-(-total // self.scale), gain, mode, striped_gain, gpu < cpu)

    def bound(
        self, box: Box, known: int, enough: int, start: Multipliers | None
    ) -> tuple[int, Multipliers | None, list[float]]:
        """Return a bound on a box, with its multipliers and the relaxation's makespans.

        It is enough to reach `enough`, and no use below `known`; `start` has multipliers of a box
        around.
        """
        room = self.room(box)
        if (room < 0).any():
            return enough, start, []
        patterns, best, ends = self.patterns(room), known, list[float]()
        if start is not None:
            best = max(best, self.prices(start, box, patterns).bound)
        for _ in range(ROUNDS):
            found = None if best >= enough else self._program(box, room, patterns)
            if found is None or found.x is None:
                break
            ends = (found.x[: len(self.weight)] * self.largest).tolist()
            by, per_dimm = self._multipliers(found)
            prices = self.prices(by, box, patterns)
            if prices.bound > best:
                best, start = prices.bound, by
            if found.fun * self.largest <= best or not self._enter(prices, patterns, per_dimm):
                break
        return best, start, ends

    def _program(self, box: Box, room: Ints, patterns: Patterns) -> OptimizeResult:
        """Solve the linear relaxation over the columns that have entered."""
        windows, classes, unit = len(self.weight), len(self.size), 1 / self.largest
        cover, fixed = 6 * windows, 4 * windows + 2 * classes
        loads = np.array([column.loads for column in self._columns.values()])
        single = np.array([column.single for column in self._columns.values()])
        small = np.append(np.zeros(classes, dtype=np.bool_), True)
        small[patterns.members[~patterns.counted, 0]] = True
        fits = (loads <= room).all(axis=1) & small[single]
        columns = [column for column, of in zip(self._columns.values(), fits, strict=True) if of]
        columns = [*self._fixed, *columns]
        cost, lower = np.zeros(len(columns)), np.zeros(len(columns))
        upper = np.full(len(columns), np.inf)
        cost[:windows], lower[:windows] = self.weight, np.array(box.least) * unit
        upper[windows : 2 * windows] = room * unit
        upper[4 * windows : 4 * windows + classes] = self.size
        cost[4 * windows + classes : fixed] = 2 * self.weight.sum()  # covered by nothing else
        limits = np.zeros(cover + classes + 4)
        limits[windows : 2 * windows] = -self.base * unit
        limits[5 * windows : cover] = self.most_reads(box)
        limits[cover:-4] = -self.size
        limits[-4:] = self.dimms, self.slots, -box.first, box.last
        starts = np.cumsum([0, *(len(column.rows) for column in columns)])
        rows = np.concatenate([column.rows for column in columns])
        values = np.concatenate([column.values for column in columns])
        matrix = csc_array((values, rows, starts), shape=(len(limits), len(columns)))
        spend(PROGRAM_WORK * (len(columns) + 200))
        bounds = np.column_stack([lower, upper])
        solve: Any = linprog  # its types know neither sparse rows nor bounds as an array
        found: OptimizeResult = solve(
            cost, matrix, limits, bounds=bounds, method="highs-ds", options=NO_PRESOLVE
        )
        return found

    def _first_columns(self) -> list[Column]:
        """Return the makespans, DIMMs' own work, hosts' reads, residents, and what is too dear.

        Rows: of each window the DIMMs, the GPU, the CPU, the reads, all own work, the most reads;
        each class; the DIMMs, the slots, the least and the most striped experts.
        """
        windows, classes, unit = len(self.weight), len(self.size), 1 / self.largest
        dimm, gpu, cpu, read, work, most = np.arange(6 * windows).reshape(6, windows)
        cover = 6 * windows + np.arange(classes)
        makespans = [([dimm[s], gpu[s], cpu[s]], [-1, -1, -1]) for s in range(windows)]
        own = [([dimm[s], work[s]], [1, -self.dimms]) for s in range(windows)]
        reads = [
            ([read[s], host[s], most[s]], [-1, min(int(times[s]), NEVER) * unit, 1])
            for host, times in ((gpu, self.gpu_read), (cpu, self.cpu_read))
            for s in range(windows)
        ]
        residents = [([of, cover[-1] + 2], [-1, 1]) for of in cover]
        entries: list[Any] = [*makespans, *own, *reads, *residents, *(([of], [-1]) for of in cover)]
        return [self._column(rows, values) for rows, values in entries]

    def _column(
        self, rows: Sequence[Any], values: Sequence[Any], loads: Ints | None = None, of: int = -1
    ) -> Column:
        loads = np.zeros(len(self.weight), dtype=np.int64) if loads is None else loads
        return Column(np.array(rows), np.array(values, dtype=np.float64), loads, of)

    def _striped(self, of: int, by_gpu: NDArray[np.bool_]) -> Column:
        """Return the column of a striped expert that the GPU or the CPU runs in each window."""
        windows, last = len(self.weight), 6 * len(self.weight) + len(self.size) + 3
        at = np.flatnonzero(self.active[:, of])
        times = np.where(by_gpu, self.gpu[:, of], self.cpu[:, of])[at] / self.largest
        rows = [6 * windows + of, last - 1, last, *at, *(at + np.where(by_gpu, 1, 2)[at] * windows)]
        return self._column(rows, [-1, -1, 1, *([self.striped / self.largest] * len(at)), *times])

    def _pattern(self, members: list[int], counted: bool, reads: Ints, loads: Ints) -> Column:
        """Return the column of a pattern; the hosts read so many of it in each window."""
        windows, classes = len(self.weight), sorted(set(members))
        rows = [6 * windows + of for of in classes] + list(range(3 * windows, 5 * windows))
        values = [-members.count(of) for of in classes] + [*reads, *(loads / self.largest)]
        if counted:
            return self._column([*rows, 6 * windows + len(self.size)], [*values, 1], loads)
        return self._column(rows, values, loads, members[0])

    def _multipliers(self, found: OptimizeResult) -> tuple[Multipliers, float]:
        """Return the dual values as integers, and that of a DIMM."""
        dual = np.maximum(-found.ineqlin.marginals, 0) * self.scale
        windows = len(self.weight)
        dimm, gpu, cpu, read, work, _ = dual[: 6 * windows].reshape(6, windows)
        cover, (per_dimm, _, at_least, at_most) = dual[6 * windows : -4], dual[-4:]
        rest = (read * self.largest, work, cover * self.largest)
        striped = round(float(at_least - at_most) * self.largest)
        ints = [np.floor(of).astype(np.int64) for of in (dimm, gpu, cpu, *rest)]
        by = Multipliers(ints[0], ints[1], ints[2], ints[3], ints[4], ints[5], striped)
        return by, float(per_dimm) * self.largest

    def _enter(self, prices: Prices, patterns: Patterns, per_dimm: float) -> bool:
        """Let the columns that gain most enter; tell whether there are any new ones."""
        before, windows = len(self._columns), np.arange(len(self.weight))
        enough = TOLERANCE * self.scale * self.largest
        over = prices.gain - np.where(patterns.counted, per_dimm, 0) - enough
        at = np.flatnonzero(over > 0)
        for p in at[np.argsort(-over[at], kind="stable")][:ENTERING].tolist():
            members = [m for m in patterns.members[p].tolist() if m < len(self.size)]
            reads, counted = prices.reads[:, p], bool(patterns.counted[p])
            key = (tuple(members), counted, *reads.tolist())
            if key not in self._columns:
                loads = patterns.loads[windows, p, reads]
                self._columns[key] = self._pattern(members, counted, reads, loads)
        for of in np.flatnonzero(prices.striped_gain > enough).tolist():
            by_gpu = prices.by_gpu[:, of]
            self._columns.setdefault((of, *by_gpu.tolist()), self._striped(of, by_gpu))
        return len(self._columns) > before


class Tree:
    """Boxes of makespans of some windows, for numbers of striped experts between two limits.

    Attributes
    ----------
    windows, box
        What it is about; every solution of interest is in the box.
    parts
        How many windows each part has, and a bound on its weighted sum of makespans.
    bound
        The least weighted sum of makespans, in units.
    steps
        How many boxes were looked at.
    stuck
        Whether a box of least bound cannot be divided.
    """

    def __init__(
        self, instance: Instance, windows: list[int], box: Box, parts: list[tuple[int, int]]
    ) -> None:
        self.windows, self.box, self.parts = windows, box, parts
        self.bound = sum(bound for _, bound in parts)
        self.steps, self.stuck = 0, False
        self.relaxation = Relaxation(instance, windows, box)
        self._weight = self.relaxation.weight.tolist()
        self._heap: list[tuple[int, int, Box, Multipliers | None]] = [(self.bound, 0, box, None)]

    def step(self, enough: int) -> None:
        """Bound the box of least bound and divide it; boxes of `enough` are done."""
        bound, _, box, start = heappop(self._heap)
        self.steps += 1
        if (spare := enough - 1 - self._least(box)) >= 0:
            box = box._replace(most=tuple(map(min, box.most, self._most(box, spare))))
            bound, start, ends = self.relaxation.bound(box, bound, enough, start)
            if bound < enough:
                self._divide(bound, box, start, ends)
        self.bound = min(self._heap[0][0], enough) if self._heap else enough

    def _least(self, box: Box) -> int:
        """Return a bound on a box by its least makespans and by the parts."""
        return sum(max(bound, least) for bound, least, _ in self._of_parts(box))

    def _most(self, box: Box, spare: int) -> Iterator[int]:
        """Yield what each makespan is at most if the bound may rise by `spare`."""
        for bound, least, windows in self._of_parts(box):
            for s in windows:
                yield box.least[s] + (spare + max(0, bound - least)) // self._weight[s]

    def _of_parts(self, box: Box) -> Iterator[tuple[int, int, range]]:
        """Yield each part's bound, its weighted least makespans, and its windows."""
        begin = 0
        for count, bound in self.parts:
            windows = range(begin, begin := begin + count)
            yield bound, sum(self._weight[s] * box.least[s] for s in windows), windows

    def _divide(self, bound: int, box: Box, start: Multipliers | None, ends: list[float]) -> None:
        least, most = box.least, box.most
        if least == most:
            self.stuck = not self.relaxation.refined(box)
            heappush(self._heap, (bound, -self.steps, box, start))
            return
        from_ = [max(a, int(b)) for a, b in zip(least, ends or least, strict=True)]
        s = max(
            (s for s in range(len(least)) if least[s] < most[s]),
            key=lambda s: self._weight[s] * (most[s] - from_[s]),
        )
        middle = min((from_[s] + most[s]) // 2, most[s] - 1)
        for part, (a, b) in enumerate(((least[s], middle), (middle + 1, most[s]))):
            low, high = (*least[:s], a, *least[s + 1 :]), (*most[:s], b, *most[s + 1 :])
            of = Box(box.first, box.last, low, high)
            heappush(self._heap, (max(bound, self._least(of)), 2 * self.steps + part, of, start))


@dataclass
class Branch:
    """So many striped experts, from `least` to `most`: trees for windows, in their order."""

    least: int
    most: int
    trees: list[Tree]

    @property
    def bound(self) -> int:
        """The least weighted sum of all makespans."""
        return sum(tree.bound for tree in self.trees)

    @property
    def ended(self) -> list[int]:
        """Numbers of trees that are stuck as the next one is: those two may become one."""
        trees = self.trees
        return [k for k in range(0, len(trees) - 1, 2) if trees[k].stuck and trees[k + 1].stuck]


@dataclass
class SharedLayout:
    """All windows of an instance; times in units of their common divisor.

    Attributes
    ----------
    least
        A bound on the makespan of each window by itself.
    enough
        An objective that is known.
    """

    instance: Instance
    least: list[int]
    enough: int

    def __post_init__(self) -> None:
        times = self.instance.path_times
        self.weight, self._active = times.weight.tolist(), times.active
        self._some = np.flatnonzero(times.active.any(axis=1)).tolist()
        idle = np.flatnonzero(~times.active.any(axis=1)).tolist()
        self._idle = sum(self.weight[s] * self.least[s] for s in idle)

    def bounds(self) -> Iterator[int]:
        """Yield higher and higher bounds on the objective, up to `enough`."""
        heap: list[tuple[int, int, Branch]] = []

        def push(branch: Branch) -> None:
            heappush(heap, (branch.bound + self._idle, branch.most, branch))

        push(self._branch(0, int(self._active.any(axis=0).sum()), self.least))
        while heap:
            bound, _, branch = heappop(heap)
            yield min(bound, self.enough)
            if bound >= self.enough:
                return
            if branch.least < branch.most and all(tree.steps for tree in branch.trees):
                middle = (branch.least + branch.most) // 2
                least = list(self.least)
                for of in branch.trees:  # of one window each
                    least[of.windows[0]] = -(-of.bound // self.weight[of.windows[0]])
                push(self._branch(branch.least, middle, least))
                push(self._branch(middle + 1, branch.most, least))
                continue
            for first in branch.ended[::-1] if branch.least == branch.most else ():
                branch.trees[first : first + 2] = [self._joined(branch, first)]
            tree = min(branch.trees, key=lambda tree: (tree.steps > 0, tree.stuck, tree.steps))
            if tree.stuck:
                return
            tree.step(self.enough - bound + tree.bound)
            push(branch)

    def _branch(self, first: int, last: int, least: list[int]) -> Branch:
        """Return a branch with a tree for each window."""
        trees = []
        spare = self.enough - sum(w * t for w, t in zip(self.weight, least, strict=True))
        for s in self._some:
            most = least[s] + max(0, spare) // self.weight[s]
            box = Box(*self._striped([s], first, last), (least[s],), (most,))
            trees.append(Tree(self.instance, [s], box, [(1, self.weight[s] * least[s])]))
        return Branch(first, last, trees)

    def _joined(self, branch: Branch, first: int) -> Tree:
        """Return one tree for the windows of two."""
        two = branch.trees[first : first + 2]
        windows = [s for tree in two for s in tree.windows]
        spare = max(0, self.enough - branch.bound - self._idle)
        least, most = list[int](), list[int]()
        for tree in two:
            single = len(tree.windows) == 1
            begin = (-(-tree.bound // self.weight[tree.windows[0]]),) if single else tree.box.least
            rise = spare + tree.bound
            rise -= sum(self.weight[s] * t for s, t in zip(tree.windows, begin, strict=True))
            least += begin
            most += (t + rise // self.weight[s] for s, t in zip(tree.windows, begin, strict=True))
        striped = self._striped(windows, branch.least, branch.most)
        parts = [(len(tree.windows), tree.bound) for tree in two]
        return Tree(self.instance, windows, Box(*striped, tuple(least), tuple(most)), parts)

    def _striped(self, windows: list[int], first: int, last: int) -> tuple[int, int]:
        """Return how many of the experts with tokens in some windows are striped."""
        experts = int(self._active[windows].any(axis=0).sum())
        elsewhere = int(self._active.any(axis=0).sum()) - experts
        return max(0, first - elsewhere), min(last, experts)
