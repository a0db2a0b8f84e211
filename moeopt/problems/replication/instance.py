"""Loads of one layer's experts in windows of time, and devices with slots for copies of them."""

from functools import cached_property
from math import lcm
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator, model_validator

from moeopt.core.arrays import integers, made
from moeopt.core.envelope import Count, Data, InstanceEnvelope, field_error
from moeopt.core.errors import InputError

MAX_DEVICES = 4096
MAX_EXPERTS = 4096
MAX_WINDOWS = 4096

MAX_COPIES = 24
"""Most copies of one expert: lcm(1..24) is some 5e9, and loads in these units stay in int64."""

LARGEST_SUM = 2**60
"""Bound on all loads together in units, so that sums and their differences stay in int64."""

Ints = NDArray[np.int64]
Device = Annotated[Count, Field(lt=MAX_DEVICES)]
Copies = tuple[tuple[Device, ...], ...]
"""The devices of each expert's copies."""


class Window(Data):
    """A stretch of time.

    Parameters
    ----------
    weight
        How much its fullest device counts, at least 1.
    loads
        Tokens routed to each expert, shape (experts,).
    """

    weight: Annotated[Count, Field(ge=1)] = 1
    loads: Annotated[tuple[Count, ...], Field(min_length=1, max_length=MAX_EXPERTS, fail_fast=True)]


class Instance(InstanceEnvelope):
    """One layer served by expert parallelism.

    Parameters
    ----------
    devices, slots
        Devices, and the copies of experts that each has room for.
    nodes
        Nodes of equally many consecutive devices. With more than one, all copies of a group lie
        within one node.
    groups
        Groups of equally many consecutive experts; None: each expert is one. Without meaning if
        there is one node.
    split
        "even": an expert's tokens are shared out evenly over its copies, in every window. "free":
        as suits the window best.
    max_copies
        Most copies of one expert.
    windows
        The loads that one placement has to serve.
    current
        Where copies lie now, if that matters: the devices of each expert's.
    move_cost
        What each copy costs that is not in `current`, in units of the objective.
    """

    problem: Literal["replication"] = "replication"
    devices: Annotated[Count, Field(ge=1, le=MAX_DEVICES)]
    slots: Annotated[Count, Field(ge=1, le=MAX_EXPERTS)]
    nodes: Annotated[Count, Field(ge=1)] = 1
    groups: Annotated[Count, Field(ge=1)] | None = None
    split: Literal["even", "free"] = "even"
    max_copies: Annotated[Count, Field(ge=1, le=MAX_COPIES)]
    windows: Annotated[
        tuple[Window, ...], Field(min_length=1, max_length=MAX_WINDOWS, fail_fast=True)
    ]
    current: Copies | None = None
    move_cost: Count = 0

    @field_validator("nodes")
    @classmethod
    def _equal_nodes(cls, nodes: int, info: ValidationInfo) -> int:
        devices = info.data.get("devices", nodes)
        if devices % nodes:
            raise field_error([], f"must divide the {devices} devices, not {nodes}")
        return nodes

    @field_validator("windows")
    @classmethod
    def _same_experts(cls, windows: tuple[Window, ...], info: ValidationInfo) -> tuple[Window, ...]:
        experts = len(windows[0].loads)
        for number, window in enumerate(windows):
            if len(window.loads) != experts:
                reason = f"has {len(window.loads)} experts, windows[0] has {experts}"
                raise field_error([number, "loads"], reason)
        groups = info.data.get("groups")
        if groups is not None and experts % groups:
            raise field_error([], f"groups must divide the {experts} experts, not {groups}")
        return windows

    @field_validator("current")
    @classmethod
    def _is_a_placement(cls, current: Copies | None, info: ValidationInfo) -> Copies | None:
        windows, devices = info.data.get("windows"), info.data.get("devices")
        if current is None or windows is None or devices is None:
            return current
        if len(current) != len(windows[0].loads):
            have, due = len(current), len(windows[0].loads)
            raise field_error([], f"has {have} experts, the windows have {due}")
        for expert, copies in enumerate(current):
            if len(set(copies)) < len(copies):
                raise field_error([expert], "names a device twice")
            if copies and max(copies) >= devices:
                reason = f"there is no device {max(copies)}, only {devices}"
                raise field_error([expert], reason)
        return current

    @model_validator(mode="after")
    def _sums_fit(self) -> Self:
        tokens = sum(window.weight * sum(window.loads) for window in self.windows)
        moves = self.move_cost * self.devices * self.slots
        if tokens * self.units_per_token + moves > LARGEST_SUM:
            raise InputError(
                f"windows: all loads with their weights, times lcm(1..{self.max_copies}) = "
                f"{self.units_per_token}, and the cost of moving every copy must be at most 2**60"
            )
        return self

    @classmethod
    def from_arrays(
        cls,
        *,
        loads: ArrayLike,
        devices: int,
        slots: int,
        max_copies: int = 8,
        split: Literal["even", "free"] = "even",
        nodes: int = 1,
        groups: int | None = None,
        weight: ArrayLike | None = None,
        current: Copies | None = None,
        move_cost: int = 0,
        name: str | None = None,
    ) -> Self:
        """Return the instance of loads with one row per window.

        Parameters
        ----------
        loads
            Tokens of each expert, shape (windows, experts), or (experts,) for a single window.
        devices, slots, nodes
            Devices, copies that each has room for, and nodes that the devices are in.
        max_copies
            Most copies of one expert.
        split
            "even" or "free": how an expert's tokens are shared out over its copies.
        groups
            Groups of experts that stay within a node; None: each expert is one.
        weight
            Of each window, shape (windows,). Default: 1.
        current
            The devices of each expert's copies now.
        move_cost
            Cost of a copy that is not in `current`, in units.
        name
            What the instance is called.

        Raises
        ------
        InputError
            If an argument is not an array of integers of this shape and range; one line with the
            argument, the index and the value.

        Examples
        --------
        >>> from moeopt import replication
        >>> replication.Instance.from_arrays(
        ...     loads=[600, 560, 120, 120, 20, 10, 10, 10], devices=8, slots=2, name="golden"
        ... )
        <replication instance 'golden': 8 experts, 8 devices of 2 slots, 1 window, even split;
        minimises peak_load_units>
        """
        one = np.ndim(loads) == 1 if not isinstance(loads, list) else _is_flat(loads)
        shape, axes = ((None,), "(experts,)") if one else ((None, None), "(windows, experts)")
        table = np.atleast_2d(integers("loads", loads, shape, axes=axes))
        weights = [1] * len(table)
        if weight is not None:
            weights = integers("weight", weight, (len(table),), axes="(windows,)", least=1).tolist()
        rows = zip(weights, table.tolist(), strict=True)
        return made(
            cls,
            name=name,
            devices=devices,
            slots=slots,
            nodes=nodes,
            groups=groups,
            split=split,
            max_copies=max_copies,
            windows=[{"weight": w, "loads": row} for w, row in rows],
            current=current,
            move_cost=move_cost,
        )

    def size(self) -> str:
        """Return experts, devices, slots, windows and the split in words."""
        windows = f"{len(self.windows)} window{'s' if len(self.windows) > 1 else ''}"
        nodes = f" on {self.nodes} nodes" if self.nodes > 1 else ""
        devices = f"{self.devices} devices of {self.slots} slots{nodes}"
        return f"{self.experts} experts, {devices}, {windows}, {self.split} split"

    @property
    def experts(self) -> int:
        """How many experts there are."""
        return len(self.windows[0].loads)

    @cached_property
    def units_per_token(self) -> int:
        """lcm(1..max_copies): in these units every even share is an integer."""
        return lcm(*range(1, self.max_copies + 1))

    @property
    def devices_per_node(self) -> int:
        """Consecutive devices that make up a node."""
        return self.devices // self.nodes

    @property
    def most_copies(self) -> int:
        """How many copies an expert can have at most: each on a device of its own, in one node."""
        return min(self.max_copies, self.devices_per_node)

    @property
    def group_size(self) -> int:
        """Consecutive experts that make up a group."""
        return 1 if self.groups is None else self.experts // self.groups

    @cached_property
    def weights(self) -> Ints:
        """The windows' weights, shape (windows,)."""
        return np.array([window.weight for window in self.windows], dtype=np.int64)

    @cached_property
    def loads_units(self) -> Ints:
        """The experts' loads in units, shape (windows, experts)."""
        tokens = np.array([window.loads for window in self.windows], dtype=np.int64)
        return tokens * self.units_per_token


def _is_flat(values: list[object]) -> bool:
    """Tell whether a list holds numbers and not rows."""
    return not values or not isinstance(values[0], list | tuple | np.ndarray)
