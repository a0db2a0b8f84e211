"""Expert caches on the GPU: least recently used, and a copy is usable when it ends."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

NOT_YET_NS = sys.maxsize
"""From when on a copy is usable whose end is not known."""


@dataclass(frozen=True)
class LookedUp:
    """What a layer's cache answered.

    Attributes
    ----------
    hits
        Experts whose weights are there.
    let_in
        Those that the cache has had no copy of, nor one on its way, and makes room for.
    """

    hits: list[int]
    let_in: list[int]


class Caches:
    """The caches of all layers, with group access as `moeopt.cache.Lru` has it.

    All experts of an access are looked up first; then all become most recent, in the order in which
    they are listed, and the least recent leave. A copy on its way keeps its place until it has
    ended and cannot be used before; so no more copies of a layer wait than it has places. Where
    copies take no time the hits are those of `moeopt.cache.Lru`.

    Parameters
    ----------
    ways
        Places of each layer's cache; 0: none.
    """

    def __init__(self, ways: Sequence[int]) -> None:
        self.ways = list(ways)
        # From when on each held expert is usable, the least recent expert first.
        self._usable_ns: list[dict[int, int]] = [{} for _ in ways]

    def usable(self, layer: int, now_ns: int) -> list[int]:
        """Return the experts whose weights are there, the least recent first."""
        return [expert for expert, at in self._usable_ns[layer].items() if at <= now_ns]

    def ask(self, layer: int, experts: Iterable[int], now_ns: int) -> LookedUp:
        """Look up different experts, and remember them.

        Those let in are usable only when `arrives` has said from when on.
        """
        held, hits, new = self._usable_ns[layer], list[int](), set[int]()
        for expert in experts:
            usable_ns = held.pop(expert, None)
            if usable_ns is None:
                new.add(expert)
            elif usable_ns <= now_ns:
                hits.append(expert)
            held[expert] = NOT_YET_NS if usable_ns is None else usable_ns
        too_many = len(held) - self.ways[layer]
        if too_many > 0:
            settled = [one for one, at in held.items() if at <= now_ns or one in new]
            for expert in settled[:too_many]:
                del held[expert]
        return LookedUp(hits, [expert for expert in held if expert in new])

    def arrives(self, layer: int, expert: int, at_ns: int) -> None:
        """Let an expert that was let in be usable from some time on."""
        self._usable_ns[layer][expert] = at_ns
