"""The six paths on which an expert can run, and their times in one array.

A path says which device computes and where the weights come from (TriMoE Eq. 1-4). Every algorithm
for layouts numbers the paths as `Path` does, and reads its times from `Instance.path_times`. The
members are integers, and compiled loops use them as they are.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.tri_domain.expert import STRIPED as STRIPED


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


GPU_MISSES = [Path.GPU_STRIPED, Path.GPU_LOCAL]
"""The paths that copy an expert to the GPU."""

GPU_PATHS, CPU_PATHS = [Path.HIT, *GPU_MISSES], [Path.CPU_STRIPED, Path.CPU_LOCAL]
STRIPED_READS = [Path.GPU_STRIPED, Path.CPU_STRIPED]
LOCAL_READS = [Path.GPU_LOCAL, Path.CPU_LOCAL]

IDLE = -1
"""In the place of a device: the expert has no tokens."""

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
        Shape (6, scenarios, experts): how long the device that computes is busy (Eq. 1-4), by
        `Path`. 0 where the expert has no tokens.
    pcie
        The same shape: how long PCIe is busy; 0 where a miss keeps the GPU busy as a whole.
    alone
        The same shape: how long the expert takes on the path by itself; `cost` but for misses in
        two parts.
    read
        Shape (6,): how long the DIMMs are read for it (Eq. 6): all of them for the striped paths,
        its own for the localized ones; 0 for hits and NDP.
    full_read
        Shape (6,): how long a host reads it; differs from `read` where DIMMs take turns.
    channel
        Shape (dimms,): the memory channel of each DIMM, numbered 0, 1, ... by value; empty where
        channels are no limit.
    base
        How long the GPU is busy before any expert, in each scenario.
    """

    weight: NDArray[np.int64]
    tokens: NDArray[np.int64]
    cost: NDArray[np.int64]
    pcie: NDArray[np.int64]
    alone: NDArray[np.int64]
    read: NDArray[np.int64]
    full_read: NDArray[np.int64]
    channel: NDArray[np.int64]
    base: int

    @property
    def channels(self) -> int:
        """The number of memory channels; 0 where they are no limit."""
        return int(self.channel.max(initial=-1)) + 1

    @property
    def channel_read(self) -> NDArray[np.int64]:
        """How long each path's read keeps channels busy, shape (6,); 0 where they are no limit."""
        return self.full_read * int(self.channels > 0)

    @property
    def active(self) -> NDArray[np.bool_]:
        """Where experts have tokens, of shape (scenarios, experts); elsewhere they are idle."""
        return np.asarray(self.tokens > 0)

    def under(
        self, values: NDArray[np.int64], resident: NDArray[np.bool_], dimm: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return what the paths that a layout allows take of some values.

        Parameters
        ----------
        values
            Shape (6, scenarios, experts) or (6,), by `Path`.
        resident, dimm
            Of each expert, shape (experts,): whether it is resident, and its DIMM or `STRIPED`.

        Returns
        -------
        array
            Shape (3, scenarios, experts), by `Device`; 0 where an expert has no tokens. What NDP
            gives for striped experts means nothing (LA-C2).
        """
        path = PATH_OF[:, (dimm != STRIPED).astype(np.int64), resident.astype(np.int64)][:, None]
        if values.ndim == 1:
            return np.where(self.active, values[path], 0)
        scenarios, experts = self.tokens.shape
        return np.asarray(values[path, np.arange(scenarios)[:, None], np.arange(experts)])
