"""Where a token's experts live, as a runtime asks it for every layer and token."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.core.arrays import integers
from moeopt.core.errors import InputError

Flags = NDArray[np.bool_]


class Residents:
    """The experts on the GPU as a table of flags, which no call changes: any thread may ask.

    Parameters
    ----------
    gpu
        By layer, the experts on the GPU: a solution's `gpu`, or a plan's.
    experts
        Experts of a layer.

    Raises
    ------
    InputError
        If there is no such expert.

    Examples
    --------
    >>> from moeopt import placement
    >>> residents = placement.Residents([[0, 3], []], experts=4)
    >>> residents.on_gpu(0, [3, 1]).tolist(), residents.of_layer(1).tolist()
    ([True, False], [False, False, False, False])
    """

    def __init__(self, gpu: Sequence[ArrayLike], experts: int) -> None:
        size = int(integers("experts", experts, (), least=1))
        table = np.zeros((len(gpu), size), np.bool_)
        for layer, row in enumerate(gpu):
            if np.size(row):
                name = f"gpu[{layer}]"
                table[layer, integers(name, row, (None,), axes="(residents,)", most=size - 1)] = (
                    True
                )
        table.flags.writeable = False
        self.table = table

    def of_layer(self, layer: int) -> Flags:
        """Return whether each expert of a layer is on the GPU, bool, shape (experts,)."""
        if not 0 <= layer < len(self.table):
            raise InputError(f"layer: must be below {len(self.table)}, not {layer}")
        flags: Flags = self.table[layer]
        return flags

    def on_gpu(self, layer: int, experts: ArrayLike, *, out: Flags | None = None) -> Flags:
        """Return whether some experts of a layer are on the GPU.

        Parameters
        ----------
        layer, experts
            The layer, from 0, and its experts, integers of any shape.
        out
            Flags of that shape to write to. Default: new ones.

        Raises
        ------
        InputError
            If there is no such layer or expert.
        """
        asked = np.asarray(experts)
        of_layer = self.of_layer(layer)
        wrong = asked.dtype.kind not in "iu"
        if wrong or (asked.size and not 0 <= asked.min() <= asked.max() < len(of_layer)):
            integers("experts", experts, asked.shape, most=len(of_layer) - 1)
        found: Flags = of_layer.take(asked, out=out, mode="clip" if out is not None else "raise")
        return found
