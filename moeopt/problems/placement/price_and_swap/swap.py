"""Placements improved move by move: experts added, removed and exchanged, by exact changes."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from moeopt.problems.placement.layer_steps import Flags, Ints

from .bound import Model
from .flips import flips

FAR = 2**61
"""The change of a move that must not be made."""

LISTED = 48
"""Best additions and removals that are paired across layers."""


class Move(NamedTuple):
    """What the total changes by, in ns, and the experts that change sides: (layer, expert)."""

    change_ns: int
    experts: tuple[tuple[int, int], ...]


class Placed:
    """A placement, and what each move would change.

    Attributes
    ----------
    held
        Flags of shape (layers, experts).
    total_ns
        Its objective.
    """

    def __init__(self, model: Model, held: Flags) -> None:
        self.model, self.held = model, held.copy()
        self.used = int(model.room.sizes[held].sum())
        shape = held.shape
        self._change = np.zeros(shape, dtype=np.int64)
        self._swaps: list[dict[int, Move]] = [{} for _ in range(shape[0])]
        self._layer_ns = [0] * shape[0]
        for layer in range(shape[0]):
            self._look_at(layer)

    @property
    def total_ns(self) -> int:
        """The objective."""
        return sum(self._layer_ns)

    def descend(self, stopped: Callable[[], bool]) -> None:
        """Make the best move until none makes the total shorter."""
        while not stopped():
            best = min(self._moves(), key=lambda move: move.change_ns, default=Move(0, ()))
            if best.change_ns >= 0:
                return
            self.make(best.experts)

    def make(self, experts: tuple[tuple[int, int], ...]) -> None:
        """Move experts to their other side."""
        for layer, expert in experts:
            size = int(self.model.room.sizes[layer, expert])
            self.used += -size if self.held[layer, expert] else size
            self.held[layer, expert] ^= True
        for layer in {layer for layer, _ in experts}:
            self._look_at(layer)

    def _moves(self) -> list[Move]:
        """Return the best move of each kind, of those that keep the rules."""
        room = self.model.room
        swaps = [
            move
            for of_layer in self._swaps
            for more, move in of_layer.items()
            if room.least <= self.used + more <= room.most
        ]
        swap = min(swaps, key=lambda move: move.change_ns, default=Move(0, ()))
        if room.restriction == "equal-counts":
            return [swap]
        adding = np.where(self.held, FAR, self._change)
        removing = np.where(self.held, self._change, FAR)
        single = np.where(room.sizes <= room.most - self.used, adding, FAR)
        alone = np.where(room.sizes <= self.used - room.least, removing, FAR)
        return [swap, _single(single), _single(alone), self._pair(adding, removing)]

    def _pair(self, adding: Ints, removing: Ints) -> Move:
        """Return the best exchange between two layers, among the best of either kind."""
        room, experts = self.model.room, self.held.shape[1]
        adds, removes = _best(adding), _best(removing)
        change = adding.ravel()[adds][:, None] + removing.ravel()[removes]
        sizes = room.sizes.ravel()
        used = self.used + sizes[adds][:, None] - sizes[removes]
        wrong = (used > room.most) | (used < room.least)
        wrong |= (adds // experts)[:, None] == removes // experts
        change = np.where(wrong, FAR, change)
        i, j = np.unravel_index(int(change.argmin()), change.shape)
        pair = (divmod(int(adds[i]), experts), divmod(int(removes[j]), experts))
        return Move(int(change[i, j]), pair)

    def _look_at(self, layer: int) -> None:
        """Compute a layer's cost, its single moves, and its best exchanges, by slots more taken."""
        of, held, room = self.model.layers[layer], self.held[layer], self.model.room
        experts = len(held)
        change = np.zeros(experts, dtype=np.int64)
        beyond = np.zeros((experts, experts), dtype=np.int64)
        flips(
            of.weight,
            of.start,
            of.expert,
            of.gpu_ns,
            of.offload_ns,
            self.model.fixed_ns,
            held,
            change,
            beyond,
        )
        self._change[layer] = change
        self._layer_ns[layer] = of.cost_ns(held, self.model.fixed_ns)
        self._swaps[layer] = {}
        out, into = np.flatnonzero(held), np.flatnonzero(~held)
        if len(out) and len(into):
            swap = change[out][:, None] + change[into] + beyond[np.ix_(out, into)]
            more = room.sizes[layer, into] - room.sizes[layer, out][:, None]
            for size in np.unique(more).tolist():
                of_size = np.where(more == size, swap, FAR)
                i, j = np.unravel_index(int(of_size.argmin()), swap.shape)
                pair = ((layer, int(out[i])), (layer, int(into[j])))
                self._swaps[layer][size] = Move(int(swap[i, j]), pair)


def _best(change: Ints) -> Ints:
    """Return the flat places of the least changes."""
    flat = change.ravel()
    if len(flat) <= LISTED:
        return np.arange(len(flat))
    return np.argpartition(flat, LISTED)[:LISTED]


def _single(change: Ints) -> Move:
    place = int(change.argmin())
    expert: tuple[int, int] = divmod(place, change.shape[1])
    return Move(int(change.ravel()[place]), (expert,))
