"""The six paths on which an expert can run, and their times in one array.

A path says which device computes and where the weights come from (TriMoE Eq. 1-4). Every algorithm
for layouts numbers the paths as `Path` does, and reads its times from `Instance.path_times`. The
members are integers, and compiled loops use them as they are.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Path(IntEnum):
    """How an expert runs: the first index of `PathTimes.cost`, in the order of `instance.COSTS`."""

    HIT = 0
    GPU_STRIPED = 1
    GPU_LOCAL = 2
    CPU_STRIPED = 3
    CPU_LOCAL = 4
    NDP = 5


class Device(IntEnum):
    """The domain that computes, in the order of `solution.DOMAINS`."""

    GPU = 0
    CPU = 1
    NDP = 2


IDLE = -1
"""In the place of a device: the expert has no tokens."""

STRIPED = -1
"""In the place of a DIMM: the expert lies on all of them."""

DEVICE_OF = np.array([0, 0, 0, 1, 1, 2], dtype=np.int64)
"""The device of each path."""

PATH_OF = np.array([[[1, 0], [2, 0]], [[3, 3], [4, 4]], [[5, 5], [5, 5]]], dtype=np.int64)
"""The path of an expert, by device, whether it is localized, and whether it is resident.

Shape (3, 2, 2). A resident expert is a hit on the GPU, and read from its host copy on the CPU; only
a localized one may be on NDP (LA-C2).
"""


class PathTimes(NamedTuple):
    """The numbers of an instance as arrays, in ns.

    Attributes
    ----------
    weight
        Shape (scenarios,): how often each scenario counts.
    tokens
        Shape (scenarios, experts).
    cost
        Shape (6, scenarios, experts): the time of the device that computes (Eq. 1-4), by `Path`.
        0 where the expert has no tokens.
    read
        Shape (6,): how long the DIMMs are read for it (Eq. 6): all of them for the striped paths,
        its own for the localized ones; 0 for hits and NDP.
    """

    weight: NDArray[np.int64]
    tokens: NDArray[np.int64]
    cost: NDArray[np.int64]
    read: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        weight: Sequence[int],
        tokens: Sequence[Sequence[int]],
        cost: Sequence[Sequence[Sequence[int]]],
        reads: tuple[int, int],
    ) -> "PathTimes":
        """Return the arrays; `reads` are the times of a striped and of a localized read."""
        striped, localized = reads
        of_tokens = np.array(tokens, dtype=np.int64)
        return cls(
            np.array(weight, dtype=np.int64),
            of_tokens,
            np.where(of_tokens > 0, np.array(cost, dtype=np.int64), 0),
            np.array([0, striped, localized, striped, localized, 0], dtype=np.int64),
        )

    @property
    def active(self) -> NDArray[np.bool_]:
        """Where experts have tokens, of shape (scenarios, experts); elsewhere they are idle."""
        return np.asarray(self.tokens > 0)

    def by_device(
        self, resident: NDArray[np.bool_], dimm: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return what each device costs under a layout, and how long DIMMs are busy with that.

        Parameters
        ----------
        resident, dimm
            Of each expert, shape (experts,): whether it is resident, and its DIMM or `STRIPED`.

        Returns
        -------
        tuple
            Two arrays of shape (3, scenarios, experts), by `Device`: the time of the device that
            computes, and that of the DIMM or DIMMs that hold the expert: the host's read, or the
            NDP work itself. What NDP gives for striped experts means nothing (LA-C2).
        """
        path = PATH_OF[:, (dimm != STRIPED).astype(np.int64), resident.astype(np.int64)][:, None]
        scenarios, experts = self.tokens.shape
        cost = self.cost[path, np.arange(scenarios)[:, None], np.arange(experts)]
        read = np.where(self.active, self.read[path], 0)
        return cost, np.where(path == Path.NDP, cost, read)
