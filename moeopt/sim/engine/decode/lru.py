"""The expert cache of one layer (CPU-GPU collaborative III-B)."""

from collections.abc import Sequence


class Lru:
    """Least recently used, with group access: all experts of an access are looked up together.

    They are looked up against the content that the access before left; then all of them become
    most recent, in the listed order, so that too small a cache keeps the last ones listed.
    """

    def __init__(self, ways: int) -> None:
        self.ways = ways
        self._experts: dict[int, None] = {}  # the least recent first

    def access(self, experts: Sequence[int]) -> list[int]:
        """Return the hits among `experts`, which differ, and remember them all."""
        hits = [expert for expert in experts if expert in self._experts]
        for expert in experts:
            self._experts.pop(expert, None)
            self._experts[expert] = None
        while len(self._experts) > self.ways:
            del self._experts[next(iter(self._experts))]
        return hits
