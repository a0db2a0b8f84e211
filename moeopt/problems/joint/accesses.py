"""What a cache would hold: for every use of an expert, which others were used since its last use.

The cache of a layer is a list of its non-residents by recency, of which it keeps as many as it has
ways. So an expert that is no resident is found if and only if fewer non-residents than ways have
been used since its own last use; these stand here, residents or not (`Access.since`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Access:
    """An expert with tokens in a layer of a step.

    Attributes
    ----------
    place
        Where the step lists it, from 0.
    since
        Other experts of the layer whose last use is more recent than its own last use, both before
        this step; None if it was not used before.
    """

    step: int
    layer: int
    place: int
    expert: int
    tokens: int
    loss: int
    since: frozenset[int] | None


def accesses(steps: Sequence[Sequence[Sequence[tuple[int, int, int]]]]) -> Iterator[list[Access]]:
    """Yield the accesses of every layer of every step, in the order of execution."""
    recent: list[list[int]] = [[] for _ in steps[0]]
    for number, step in enumerate(steps):
        for layer, active in enumerate(step):
            order = recent[layer]  # most recent last
            yield [
                Access(
                    number,
                    layer,
                    place,
                    expert,
                    tokens,
                    loss,
                    frozenset(order[order.index(expert) + 1 :]) if expert in order else None,
                )
                for place, (expert, tokens, loss) in enumerate(active)
            ]
            used = [expert for expert, _, _ in active]
            recent[layer] = [expert for expert in order if expert not in used] + used
