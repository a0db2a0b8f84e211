"""Copies: where each expert lies if the instance permits several places, and what fits there.

An expert's copies are a row of flags: on all DIMMs (striped), then on each DIMM by itself. The
solution's fields `dimm` and `copies` say the same: a striped copy is always the first.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .instance import Instance, Solution
from .paths import STRIPED

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]


def places_of(instance: Instance, solution: Solution) -> Flags:
    """Return where each expert lies, shape (experts, 1 + dimms): striped, then by DIMM.

    What is not there, a DIMM or an expert, is left out.
    """
    lies = np.zeros((instance.experts, 1 + instance.dimms), dtype=np.bool_)
    lies[:, 0] = True
    for row, dimm in enumerate(solution.dimm[: instance.experts]):
        if dimm is not None and dimm < instance.dimms:
            lies[row, 0], lies[row, 1 + dimm] = False, True
    for row, dimms in enumerate((solution.copies or ())[: instance.experts]):
        lies[row, [1 + dimm for dimm in dimms if dimm < instance.dimms]] = True
    return lies


def fields_of(lies: Flags) -> tuple[tuple[int | None, ...], tuple[tuple[int, ...], ...]]:
    """Return the solution's fields `dimm` and `copies`; `lies` is as in `places_of`."""
    first: list[int | None] = []
    others = []
    for row in lies:
        dimms = np.flatnonzero(row[1:]).tolist()
        first.append(None if row[0] or not dimms else dimms.pop(0))
        others.append(tuple(dimms))
    return tuple(first), tuple(others)


def used_bytes(instance: Instance, lies: Flags) -> Ints:
    """Return the bytes that weights take on each DIMM, shape (dimms,); 0 without `copies`.

    A striped expert takes `Copies.share_bytes` of every DIMM, a localized one all its bytes of its
    own.
    """
    if instance.copies is None:
        return np.zeros(instance.dimms, dtype=np.int64)
    striped = int(lies[:, 0].sum()) * instance.copies.share_bytes(instance.dimms)
    return np.asarray(striped + lies[:, 1:].sum(axis=0) * instance.copies.expert_bytes)


def fits(instance: Instance, lies: Flags) -> bool:
    """Tell whether a layout keeps within LA-C4, LA-C10 and LA-C11."""
    if instance.dimm_slots is not None and lies[:, 1:].sum(axis=0).max() > instance.dimm_slots:
        return False
    of = instance.copies
    if of is None:
        return bool(lies.sum(axis=1).max() <= 1)
    most = int(lies.sum(axis=1).max())
    return most <= of.max_per_expert and int(used_bytes(instance, lies).max()) <= of.room_bytes


def within_memory(instance: Instance, dimm: Ints) -> Ints:
    """Return a layout of one copy each that fits: experts of full DIMMs are striped instead.

    Parameters
    ----------
    dimm
        Each expert's DIMM, or `STRIPED`; shape (experts,). The last expert on the fullest DIMM is
        striped until all fit, as they do when all are striped.
    """
    if instance.copies is None:
        return dimm
    dimm = dimm.copy()
    while True:
        lies = np.zeros((len(dimm), 1 + instance.dimms), dtype=np.bool_)
        lies[np.arange(len(dimm)), 1 + dimm] = True
        used = used_bytes(instance, lies)
        # The fullest DIMM may hold striped shares alone, where others do; then any expert helps.
        over = np.flatnonzero((dimm != STRIPED) & (used[dimm] == used.max()))
        if used.max() <= instance.copies.room_bytes or not (dimm != STRIPED).any():
            return dimm
        dimm[(over if len(over) else np.flatnonzero(dimm != STRIPED))[-1]] = STRIPED


def add_while_they_fit(
    instance: Instance, lies: Flags, wanted: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Add copies one by one, each if it fits, and yield those that were added.

    Parameters
    ----------
    lies
        The layout so far, as in `places_of`; it is changed.
    wanted
        Copies in order of importance: an expert, and a column of `lies`.
    """
    for expert, place in wanted:
        if not lies[expert, place]:
            lies[expert, place] = True
            if fits(instance, lies):
                yield expert, place
            else:
                lies[expert, place] = False
