"""Runs of layers that are alike, counted: an exact model of how many of a run lie where.

Consecutive layers are one run if all their times and bytes are equal. (A layer is all rows from one
with attention to the next: where experts are given by tensor, a chain of places, each to the next
tensor's, stands for "experts on h" below.) Of a split only these numbers are kept: how many layers
of each run have attention on g and experts on h, and how often the activations go from there to
attention on g', within the run and to the next one. Memory is a sum over these numbers, and so is
the time. So whatever split there is gives numbers that satisfy the model, at its objective: the
model is a relaxation, and what CP-SAT proves of it in integers holds for all splits.

Proof that it loses nothing. Within a run the numbers are arcs between places, attention on g or
experts on h; as many enter a place as leave it, but for where the run is entered and left. Layers
of a run are alike, so that any walk over all arcs is a split of these numbers, and there is one if
the arcs hang together (Euler). With an order they do: each device that has attention is entered
from another one once, and never again. Without one, a part that does not hang together with where
the run is entered gives a row that all splits satisfy (`_Model.join`), and CP-SAT is asked again.

Where kinds take turns, an instance with an order has the model of `blocks`, exact and smaller.
Where runs are too many otherwise, all layers are one stretch in which layers of several kinds are
counted. What is lost then is which kind comes when: the bound holds all the same, and `realised`
looks for a split with as many layers' attention on each device.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from math import gcd

import numpy as np

from moeopt.core.cpsat import Answer, Run
from moeopt.core.formulation import cp_model

from .blocks import Blocks
from .paths import FAR, Ints, Paths, kinds_of

MOST_S = 1.5
"""Deterministic seconds of CP-SAT for one answer: most take a tenth of one."""

TURNS = 2
"""Where the average kind is in so many runs, the model of blocks is the better one."""

MOST_NUMBERS = 20_000
"""With more all layers are one stretch."""

MOST_IN_ALL_S = 4 * MOST_S
"""The same for all answers, until the model is left at its bound: most need one."""

MOST_CORNERS = 4_096
"""Numbers of parts of attention on a device up to which corners of what fits are looked for."""

Place = tuple[str, int, int]
"""("attention", g, -1), or ("experts", g, h); g is -1 where it does not matter.

Tensors of experts before the last are places by their row: ("7", g, h)."""

Arc = tuple[Place, Place]


@dataclass(frozen=True)
class Counted:
    """What CP-SAT says of the model.

    Attributes
    ----------
    bound
        In ns; proven in integers.
    homes
        A split at the best objective found, shape (2, layers): attention, and experts or -1; None
        if none was found.
    infeasible
        Whether there is no split at all.
    """

    bound: int
    homes: Ints | None
    infeasible: bool


Stretch = list[tuple[int, int]]
"""Kinds of layers that follow one another: a layer of each, and how many there are."""


def stretches_of(paths: Paths) -> list[Stretch] | None:
    """Return the runs, one stretch of all kinds where they are too many; None where blocks do."""
    kinds, first = kinds_of(paths)
    starts = np.flatnonzero(np.append(True, kinds[1:] != kinds[:-1]))
    sizes = np.diff(np.append(starts, len(kinds)))
    devices, ordered = len(paths.room), bool(paths.place.any())
    if ordered and len(starts) >= TURNS * len(first):
        return None
    if len(starts) * devices**2 * (devices if ordered else 1) <= MOST_NUMBERS:
        rows = np.flatnonzero(paths.has < 2)[starts]
        return [[run] for run in zip(rows.tolist(), sizes.tolist(), strict=True)]
    return [list(zip(first.tolist(), np.bincount(kinds).tolist(), strict=True))]


def counted(
    paths: Paths, grid: int, known: int | None, remaining: float, *, proves: bool = True
) -> Counted:
    """Solve the model with one worker, for `MOST_S` deterministic seconds an answer.

    Parameters
    ----------
    grid
        All objectives are multiples of it.
    known
        An objective that is reached: only better ones are looked for.
    proves
        Whether bound and infeasibility are used; else the homes alone.
    """
    stretches = stretches_of(paths)
    model: Blocks | _Model
    if stretches is None:
        model = Blocks(paths, grid, known)
    else:
        model = _Model(paths, stretches, grid, known)
    bound, took = 0, 0.0
    while took < MOST_IN_ALL_S:
        answer = _run(model.model, remaining).solve(proves="bound" if proves else "nothing")
        took += answer.effort
        if answer.status == "infeasible":
            return Counted(0 if known is None else known, None, known is None)
        proven = (answer.bound or 0) * grid
        # With nothing better than what is known the model has no solution, and no bound is false.
        bound = max(bound, proven if known is None else min(proven, known))
        if not answer.found:
            break
        if isinstance(model, Blocks):
            return Counted(bound, model.homes(answer), False)
        homes, apart = model.walked(answer)
        if homes is not None and not model.exact:
            attention = np.bincount(homes[0][homes[0] >= 0], minlength=len(paths.room))
            return Counted(bound, realised(paths, attention, remaining), False)
        if homes is not None:
            return Counted(bound, homes, False)
        for run, places in apart:
            model.join(run, places)
    return Counted(bound, None, False)


def realised(paths: Paths, attention: Ints, remaining: float) -> Ints | None:
    """Return homes with so many layers' attention on each device; None if none was found.

    Attention lies in consecutive blocks, in the order, else by number of the device. For that
    attention the homes of the experts are the best ones, if time suffices: layers of a class whose
    attention, and the next layer's, are on the same devices are counted together. By tensor: none.
    """
    if (paths.has == 2).any():
        return None
    count = len(paths.room)
    ways = sorted(range(count), key=lambda device: (int(paths.place[device]), device))
    at = np.repeat(ways, attention[ways]).astype(np.int64)
    used = np.bincount(at, paths.attention_bytes, count)
    rows = np.arange(len(at))
    if (used > paths.room).any() or (paths.attention[rows, at] >= FAR).any():
        return None
    after = np.concatenate([at[1:], [paths.source]])
    kinds, _ = kinds_of(paths)
    groups: dict[tuple[int, int, int], list[int]] = {}
    for row in np.flatnonzero(paths.has).tolist():
        key = (int(kinds[row]), int(at[row]), int(after[row]))
        groups.setdefault(key, []).append(row)
    model = cp_model.CpModel()
    terms: list[cp_model.IntVar] = []
    costs: list[int] = []
    lies: dict[tuple[int, int, int], list[cp_model.IntVar]] = {}
    used_by: list[list[tuple[int, cp_model.IntVar]]] = [[] for _ in range(count)]
    for key, members in groups.items():
        _, g, following = key
        row = members[0]
        lies[key] = []
        for h in range(count):
            can = paths.experts[row, h] < FAR
            number = model.new_int_var(0, len(members) if can else 0, f"lies[{key},{h}]")
            lies[key].append(number)
            if can:
                terms.append(number)
                hops = paths.hop[g, h] + paths.hop[h, following]
                costs.append(int(paths.experts[row, h] + hops))
                used_by[h].append((int(paths.experts_bytes[row]), number))
        model.add(sum(lies[key]) == len(members))
    for device, found in enumerate(used_by):
        if found:
            left = int(paths.room[device] - used[device])
            model.add(sum(size * number for size, number in found) <= left)
    model.minimize(cp_model.LinearExpr.weighted_sum(terms, costs))
    answer = _run(model, remaining).solve(proves="nothing")
    if not answer.found:
        return None
    homes = np.full((2, len(at)), -1, dtype=np.int64)
    homes[0] = at
    for key, members in groups.items():
        chosen = np.repeat(np.arange(count), [answer.value(number) for number in lies[key]])
        homes[1, members] = chosen
    return homes


def packings(
    sizes: tuple[int, int], most: tuple[int, int], room: int
) -> list[tuple[int, int, int]]:
    """Return rows (p, q, r): p a + q e <= r for all whole a, e >= 0 whose bytes fit into a room.

    They are the upper facets of the convex hull of these points; the memory row alone lets
    fractions of parts fill what is left of a device.

    Parameters
    ----------
    sizes, most
        Bytes of one of each, above 0, and how many there are.
    """
    fit = min(most[0], room // sizes[0])
    if fit > MOST_CORNERS:
        return []
    hull: list[tuple[int, int]] = []
    for a in range(fit + 1):
        e = min(most[1], (room - sizes[0] * a) // sizes[1])
        while len(hull) > 1:
            (first, high), (second, low) = hull[-2:]
            if (second - first) * (e - high) < (low - high) * (a - first):
                break
            hull.pop()
        hull.append((a, e))
    found = [(1, 0, hull[-1][0]), (0, 1, hull[0][1])]
    for (first, high), (second, low) in pairwise(hull):
        p, q = high - low, second - first
        found.append((p // gcd(p, q), q // gcd(p, q), (p * first + q * high) // gcd(p, q)))
    return found


class _Model:
    """The model of an instance's runs.

    Attributes
    ----------
    arcs
        Of each run: arc -> its number. Attention to experts is a layer, experts to attention a hop.
    enters
        Of each run: the device of its first attention -> 0 or 1.
    exact
        Whether each stretch is a run.
    """

    def __init__(
        self, paths: Paths, stretches: list[Stretch], grid: int, known: int | None
    ) -> None:
        self.paths, self.model = paths, cp_model.CpModel()
        self.exact = all(len(stretch) == 1 for stretch in stretches)
        self.sizes = [sum(count for _, count in stretch) for stretch in stretches]
        self.ordered = bool(paths.place.any())
        self.arcs: list[dict[Arc, cp_model.LinearExprT]] = []
        self._held: dict[int, list[cp_model.LinearExprT]] = defaultdict(list)
        self.enters: list[dict[int, cp_model.LinearExprT]] = []
        self._parts: list[tuple[int, int, int, cp_model.IntVar]] = []
        self._terms: list[cp_model.IntVar] = []
        self._costs: list[int] = []
        self._grid = grid
        every = range(len(paths.room))
        source = paths.source
        enters: dict[int, cp_model.LinearExprT] = {
            g: self._number(1, int(paths.hop[source, g])) for g in every
        }
        self.model.add(sum(enters.values()) == 1)
        for run, stretch in enumerate(stretches):
            enters = self._run(stretch, enters, last=run == len(stretches) - 1)
        for device, parts in self._held.items():
            self.model.add(sum(parts) <= max(0, int(paths.room[device])))
        self._pack()
        if not self.ordered:
            self._told_apart()
        total = cp_model.LinearExpr.weighted_sum(self._terms, self._costs)
        if known is not None:
            self.model.add(total <= known // grid - 1)
        self.model.minimize(total)

    def _pack(self) -> None:
        """Post the rows of `packings`: a part counts as often as the least one of its sort fits.

        Proof. With a and e the sums of these counts on a device, a and e times the least sizes are
        at most the bytes there, which fit.
        """
        all_bytes = self.paths.attention_bytes.tolist(), self.paths.experts_bytes.tolist()
        if not all(map(any, all_bytes)):
            return
        least = tuple(min(size for size in of if size) for of in all_bytes)
        most = tuple(sum(b // s for b in of) for of, s in zip(all_bytes, least, strict=True))
        for device, room in enumerate(self.paths.room.tolist()):
            if room <= 0 or sum(map(sum, all_bytes)) <= room:
                continue
            counts = []
            for sort, size in enumerate(least):
                terms = [(b // size, n) for d, s, b, n in self._parts if (d, s) == (device, sort)]
                count = self.model.new_int_var(0, min(most[sort], room // size), "")
                self.model.add(sum(times * number for times, number in terms if times) == count)
                counts.append(count)
            for p, q, r in packings((least[0], least[1]), (most[0], most[1]), room):
                self.model.add(p * counts[0] + q * counts[1] <= r)

    def _told_apart(self) -> None:
        """Post that of two devices that can change places the first has no less attention.

        And that a device whose layers hold attention and experts alone is entered.
        """
        every = range(len(self.paths.room))
        for run in range(len(self.sizes)):
            for g in every:
                self.join(run, {("attention", g, -1), ("experts", -1, g)})
        own = [
            sum(
                var
                for arcs in self.arcs
                for (at, _), var in arcs.items()
                if at[:2] == ("attention", g)
            )
            for g in every
        ]
        for g, other in combinations(every, 2):
            if _alike(self.paths, g, other):
                self.model.add(own[g] >= own[other])

    def _number(self, most: int, cost: int) -> cp_model.IntVar:
        found = self.model.new_int_var(0, most, "")
        self._terms.append(found)
        self._costs.append(cost // self._grid)
        return found

    def _lies(self, row: int, size: int) -> dict[Arc, cp_model.IntVar]:
        """Return how many of some layers alike have attention on one and experts on another."""
        paths, found = self.paths, dict[Arc, cp_model.IntVar]()
        every = range(len(paths.room))
        end = row + 1
        while end < len(paths.has) and paths.has[end] == 2:
            end += 1
        for g in every:
            for h in every if paths.has[row] else (g,):
                cost = int(paths.attention[row, g])
                if cost >= FAR or paths.experts[row, h] >= FAR:
                    continue
                if paths.has[row]:
                    cost += int(paths.experts[row, h] + paths.hop[g, h])
                number = self._number(size, cost)
                self._held[g].append(int(paths.attention_bytes[row]) * number)
                self._held[h].append(int(paths.experts_bytes[row]) * number)
                self._parts.append((g, 0, int(paths.attention_bytes[row]), number))
                self._parts.append((h, 1, int(paths.experts_bytes[row]), number))
                found[("attention", g, -1), self._stop(row, end, g, h)] = number
        self.model.add(sum(found.values()) == size)
        for later in range(row + 1, end):
            for g in every if self.ordered else (-1,):
                for i, h in product(every, every):
                    cost = int(paths.experts[later, h] + paths.hop[i, h])
                    if paths.experts[later, h] < FAR and paths.experts[later - 1, i] < FAR:
                        number = self._number(size, cost)
                        self._held[h].append(int(paths.experts_bytes[later]) * number)
                        self._parts.append((h, 1, int(paths.experts_bytes[later]), number))
                        at, to = self._stop(later - 1, end, g, i), self._stop(later, end, g, h)
                        found[at, to] = number
        return found

    def _stop(self, row: int, end: int, g: int, h: int) -> Place:
        """Return where experts of a row lie, of a layer that ends before `end`."""
        return "experts" if row == end - 1 else str(row), g if self.ordered else -1, h

    def _run(
        self, stretch: Stretch, enters: dict[int, cp_model.LinearExprT], *, last: bool
    ) -> dict[int, cp_model.LinearExprT]:
        """Add a run; return how the next one is entered."""
        paths, model = self.paths, self.model
        size = sum(count for _, count in stretch)
        arcs: dict[Arc, cp_model.LinearExprT] = {}
        into: dict[Place, list[cp_model.LinearExprT]] = defaultdict(list)
        out: dict[Place, list[cp_model.LinearExprT]] = defaultdict(list)
        following: dict[int, list[cp_model.LinearExprT]] = defaultdict(list)
        every = range(len(paths.room))
        for g in every:
            into["attention", g, -1].append(enters[g])
        for row, count in stretch:
            for arc, number in self._lies(row, count).items():
                arcs[arc] = arcs.get(arc, 0) + number
                out[arc[0]].append(number)
                into[arc[1]].append(number)
        for place in [place for place in into if place[0] == "experts"]:
            _, g, h = place
            for after in every:
                if self.ordered and paths.place[after] < paths.place[g]:
                    continue
                hop = int(paths.hop[h, after])
                arc = place, ("attention", after, -1)
                arcs[arc] = self._number(1 if self.ordered and after != g else size, hop)
                out[place].append(arcs[arc])
                into[arc[1]].append(arcs[arc])
                if not last:
                    leaves = self._number(1, hop)
                    out[place].append(leaves)
                    following[after].append(leaves)
            if last:
                leaves = self._number(1, int(paths.hop[h, paths.source]))
                out[place].append(leaves)
                following[paths.source].append(leaves)
        for place in dict.fromkeys([*into, *out]):
            model.add(sum(into[place]) == sum(out[place]))
        if self.ordered:
            for g in every:
                entered = [
                    var for (at, to), var in arcs.items() if to[1] == g != at[1] and at[2] >= 0
                ]
                used = model.new_bool_var("")
                model.add(sum(entered) + enters[g] == used)
                model.add(sum(out["attention", g, -1]) <= size * used)
        found: dict[int, cp_model.LinearExprT] = {g: sum(following[g]) for g in every}
        model.add(sum(found.values()) == 1)
        self.arcs.append(arcs)
        self.enters.append(enters)
        return found

    def walked(self, answer: Answer) -> tuple[Ints | None, list[tuple[int, set[Place]]]]:
        """Return a split of the numbers; else, by run, places apart from where it is entered."""
        homes: list[tuple[int, int]] = []
        apart: list[tuple[int, set[Place]]] = []
        for run, arcs in enumerate(self.arcs):
            ways: dict[Place, list[Place]] = defaultdict(list)
            for (at, to), number in arcs.items():
                ways[at] += [to] * answer.value(number)
            [start] = [g for g, entered in self.enters[run].items() if answer.value(entered)]
            walk = _walk(ways, ("attention", start, -1))
            for before, (kind, _, device) in pairwise(walk):
                if kind != "attention":
                    homes.append((before[1] if before[0] == "attention" else -1, device))
            if left := {place for place, to in ways.items() if to} - set(walk):
                apart += [(run, {*left, *(to for at in left for to in ways[at])})]
        if apart:
            return None, apart
        found = np.array(homes, dtype=np.int64).T
        found[1, self.paths.has == 0] = -1
        return found, []

    def join(self, run: int, places: Iterable[Place]) -> None:
        """Post that places of a run with a layer there are entered from others of it."""
        own = set(places)
        arcs = self.arcs[run].items()
        layers = sum(var for (at, _), var in arcs if at in own and at[0] == "attention")
        entered = sum(var for (at, to), var in arcs if to in own and at not in own)
        entered += sum(var for g, var in self.enters[run].items() if ("attention", g, -1) in own)
        self.model.add(layers <= self.sizes[run] * entered)


def _alike(paths: Paths, one: int, other: int) -> bool:
    """Return whether a split stays one, of the same time, if two devices change places."""
    swapped = np.arange(len(paths.room))
    swapped[[one, other]] = other, one
    return (
        paths.source not in (one, other)
        and bool(paths.room[one] == paths.room[other])
        and np.array_equal(paths.attention[:, one], paths.attention[:, other])
        and np.array_equal(paths.experts[:, one], paths.experts[:, other])
        and np.array_equal(paths.hop[np.ix_(swapped, swapped)], paths.hop)
    )


def _walk(ways: dict[Place, list[Place]], start: Place) -> list[Place]:
    """Return a walk over all arcs that can be reached, which are taken out (Hierholzer)."""
    stack, found = [start], []
    while stack:
        if ways[stack[-1]]:
            stack.append(ways[stack[-1]].pop())
        else:
            found.append(stack.pop())
    return found[::-1]


def _run(model: cp_model.CpModel, remaining: float) -> Run:
    """Return the run of a model with one worker, for `MOST_S` at most."""
    return Run(model, remaining, effort=min(MOST_S, max(0.01, remaining)))
