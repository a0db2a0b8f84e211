"""With an order, attention lies in blocks: an exact model of where they end and what lies beside.

Each device in the order has attention of one block of consecutive layers, perhaps of none. Layers
are of one kind if all their times and bytes are equal. (A layer is all rows from one with attention
to the next: where experts are given by tensor, a chain of stops, each on a device, stands for
"experts on h" below.) Of a split only these numbers are kept: where each block ends, how many
layers of each kind in it have their experts on h, and of which kind and where the experts of its
last layer are.

Proof that this loses nothing. After each layer of the block on g the activations go back to g, but
for the last one, from which they go to the next block that is not empty, or to the source. So a
layer's time depends on its kind, g and h, and on whether it is the last one of its block. Memory
and time are sums over the numbers: every split gives numbers that satisfy the model, at its
objective. Conversely, where the blocks end says how many layers of each kind lie in each; which of
them have their experts on h does not matter, except that the last one is as the numbers say.

The model's size grows with the number of kinds, not with how often they take turns: sliding-window
and full attention, one after the other, are two kinds.
"""

from collections import defaultdict
from itertools import pairwise, product

import numpy as np

from moeopt.core.cpsat import Answer
from moeopt.core.formulation import cp_model

from .paths import FAR, Ints, Paths, kinds_of

Chain = tuple[int, ...]
"""Where experts of a layer lie, tensor by tensor; without experts: its attention's."""


class Blocks:
    """The model of an instance with an order.

    Attributes
    ----------
    order
        Devices that can have attention, in this order.
    """

    def __init__(self, paths: Paths, grid: int, known: int | None) -> None:
        self.paths, self.model, self._grid = paths, cp_model.CpModel(), grid
        self._terms: list[cp_model.IntVar] = []
        self._costs: list[int] = []
        self.kinds, self._first = kinds_of(paths)
        can = np.any(paths.attention[self._first] < FAR, axis=0).tolist()
        ways = sorted(range(len(can)), key=lambda device: int(paths.place[device]))
        self.order = [device for device in ways if can[device]]
        self._held: dict[int, list[cp_model.LinearExprT]] = defaultdict(list)
        self._stops: dict[tuple[int, int], list[dict[tuple[int, int], cp_model.IntVar]]] = {}
        """Of a kind and a device: from stop to stop, how many layers' activations go i to h."""
        self._last: dict[tuple[int, int, int], cp_model.IntVar] = {}
        """Whether the block on g ends with a layer of a kind whose experts end on h."""
        for kind, g in product(range(len(self._first)), self.order):
            self._stops[kind, g] = self._lies(kind, g)
        self._ends()
        self._hops()
        for device, parts in self._held.items():
            self.model.add(sum(parts) <= max(0, int(paths.room[device])))
        total = cp_model.LinearExpr.weighted_sum(self._terms, self._costs)
        if known is not None:
            self.model.add(total <= known // grid - 1)
        self.model.minimize(total)

    def homes(self, answer: Answer) -> Ints:
        """Return the split of the numbers, shape (2, rows)."""
        paths = self.paths
        starts = np.flatnonzero(paths.has < 2)
        found = np.full((2, len(paths.has)), -1, dtype=np.int64)
        chains = {
            (kind, g): _chains([{k: answer.value(n) for k, n in stop.items()} for stop in stops])
            for (kind, g), stops in self._stops.items()
        }
        last = {g: (kind, h) for (kind, g, h), var in self._last.items() if answer.value(var)}
        layer = 0
        for g in self.order:
            size = sum(len(own) for (_, at), own in chains.items() if at == g)
            if not size:
                continue
            kind, h = last[g]
            own = chains[kind, g]
            own.insert(0, own.pop(next(n for n, chain in enumerate(own) if chain[-1] == h)))
            for row, of in zip(starts[layer : layer + size], self.kinds[layer:], strict=False):
                chain = chains[int(of), g].pop()
                found[0, row] = g
                if paths.has[row]:
                    found[1, row : row + len(chain)] = chain
            layer += size
        return found

    def _number(self, most: int, cost: int) -> cp_model.IntVar:
        found = self.model.new_int_var(0, most, "")
        self._terms.append(found)
        self._costs.append(cost // self._grid)
        return found

    def _lies(self, kind: int, g: int) -> list[dict[tuple[int, int], cp_model.IntVar]]:
        """Return how many layers of a kind have attention on g, and where their experts lie."""
        paths, row = self.paths, int(self._first[kind])
        size, every = int((self.kinds == kind).sum()), range(len(paths.room))
        attention = int(paths.attention[row, g])
        if attention >= FAR:
            return []
        end = row + 1
        while end < len(paths.has) and paths.has[end] == 2:
            end += 1
        stops: list[dict[tuple[int, int], cp_model.IntVar]] = []
        for at in range(row, end):
            found: dict[tuple[int, int], cp_model.IntVar] = {}
            before = [g] if at == row else list(dict.fromkeys(h for _, h in stops[-1]))
            for i, h in product(before, every if paths.has[row] else (g,)):
                if paths.experts[at, h] >= FAR:
                    continue
                cost = attention if at == row else 0
                cost += int(paths.hop[i, h] + paths.experts[at, h]) if paths.has[row] else 0
                cost += int(paths.hop[h, g]) if at == end - 1 else 0
                number = self._number(size, cost)
                found[i, h] = number
                self._held[h].append(int(paths.experts_bytes[at]) * number)
                if at == row:
                    self._held[g].append(int(paths.attention_bytes[row]) * number)
            for i in before if stops else ():
                here = [number for (_, h), number in stops[-1].items() if h == i]
                self.model.add(sum(here) == sum(n for (at, _), n in found.items() if at == i))
            stops.append(found)
        return stops

    def _ends(self) -> None:
        """Post that the numbers are those of blocks of consecutive layers, and how these end."""
        model = self.model
        count = len(self._first)
        starts = np.flatnonzero(np.append(True, self.kinds[1:] != self.kinds[:-1]))
        sizes = np.diff(np.append(starts, len(self.kinds)))
        before = np.zeros((len(starts) + 1, count), dtype=np.int64)  # layers of a kind, by run
        np.add.at(before[1:], (np.arange(len(starts)), self.kinds[starts]), sizes)
        before = before.cumsum(axis=0)
        reached: list[cp_model.LinearExprT] = [0] * count
        for g in self.order:
            ends: list[cp_model.LinearExprT]
            if g == self.order[-1]:
                upto: list[cp_model.LinearExprT] = before[-1].tolist()
                ends = [int(kind == self.kinds[-1]) for kind in range(count)]
            else:  # the blocks up to here end in a run, so many layers into it
                within = [model.new_bool_var("") for _ in starts]
                model.add_at_most_one(within)
                upto, ends = [0] * count, [0] * count
                for run, flag in enumerate(within):
                    kind, size = int(self.kinds[starts[run]]), int(sizes[run])
                    into: cp_model.LinearExprT = flag
                    if size > 1:
                        into = model.new_int_var(0, size, "")
                        model.add(into <= size * flag)
                        model.add(into >= flag)
                    for of in np.flatnonzero(before[run]).tolist():
                        upto[of] += int(before[run, of]) * flag
                    upto[kind] += into
                    ends[kind] += flag
            for kind in range(count):
                stops = self._stops[kind, g]
                own = sum(stops[0].values()) if stops else 0
                model.add(own == upto[kind] - reached[kind])
                of_kind = []
                for h in dict.fromkeys(h for _, h in stops[-1]) if stops else ():
                    flag = self._last[kind, g, h] = model.new_bool_var("")
                    model.add(flag <= sum(n for (_, at), n in stops[-1].items() if at == h))
                    of_kind.append(flag)
                model.add(sum(of_kind) <= ends[kind])
            reached = upto

    def _hops(self) -> None:
        """Post from which layer the activations go to which block: one way through them."""
        paths, model, source = self.paths, self.model, self.paths.source
        into: dict[int, list[cp_model.LinearExprT]] = defaultdict(list)
        left: list[cp_model.IntVar] = []
        for place, g in enumerate(self.order):
            enters = self._number(1, int(paths.hop[source, g]))
            into[g].append(enters)
            stops = self._stops[int(self.kinds[0]), g]  # the first layer lies there
            model.add(enters <= sum(stops[0].values() if stops else ()))
            for h in dict.fromkeys(h for _, at, h in self._last if at == g):
                back, out = int(paths.hop[h, g]), list[cp_model.IntVar]()
                for after in self.order[place + 1 :]:
                    out.append(self._number(1, int(paths.hop[h, after]) - back))
                    into[after].append(out[-1])
                left.append(self._number(1, int(paths.hop[h, source]) - back))
                here = [flag for (_, at, home), flag in self._last.items() if (at, home) == (g, h)]
                model.add(sum(here) == sum(out) + left[-1])
                model.add(left[-1] <= self._last.get((int(self.kinds[-1]), g, h), 0))
            own = [flag for (_, at, _), flag in self._last.items() if at == g]
            used = model.new_bool_var("")
            model.add(sum(into[g]) == used)
            model.add(sum(own) == used)
            for kind, size in enumerate(np.bincount(self.kinds).tolist()):
                if stops := self._stops[kind, g]:
                    model.add(sum(stops[0].values()) <= size * used)
        model.add(sum(left) == 1)


def _chains(stops: list[dict[tuple[int, int], int]]) -> list[Chain]:
    """Return a chain for each layer, that together go from i to h as often as is said."""
    if not stops:
        return []
    found: list[Chain] = [(h,) for (_, h), number in stops[0].items() for _ in range(number)]
    for _, stop in pairwise(stops):
        ways: dict[int, list[int]] = defaultdict(list)
        for (i, h), number in stop.items():
            ways[i] += [h] * number
        found = [(*chain, ways[chain[-1]].pop()) for chain in found]
    return found
