"""Loads of one layer's experts in windows of time, and devices with slots for copies of them."""

from functools import cached_property
from math import lcm
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from moeopt.core.arrays import Table, by_name
from moeopt.core.envelope import (
    Count,
    Data,
    InstanceEnvelope,
    SolutionEnvelope,
    Sum,
    field_error,
)
from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject

MAX_DEVICES = 4096
MAX_EXPERTS = 4096
MAX_WINDOWS = 4096

MAX_COPIES = 24
"""Most copies of one expert: lcm(1..24) is some 5e9, and loads in these units stay in int64."""

Ints = NDArray[np.int64]
Device = Annotated[Count, Field(lt=MAX_DEVICES)]
Copies = tuple[tuple[Device, ...], ...]
"""The devices of each expert's copies."""

Links = tuple[tuple[int, ...], ...]


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
    work
        What takes a device's time. "tokens": their number. "kernel": reading the weights of each
        expert that has tokens there, or computing all tokens, whichever takes longer.
    read_ns, token_ns
        With "kernel": the time of reading one expert's weights, and of computing one token.
    pass_ns
        With "kernel": what each token takes besides, which neither reading nor computing hides.
    slot_cost
        With "kernel": what each copy beyond one per expert costs, in ns.
    links
        With "kernel": what a token from one device costs on another, in ns, shape (devices,
        devices), by source and target; each device sends an equal part of every expert's tokens.

    Notes
    -----
    `from_arrays` takes `loads` as an array of shape (windows, experts), or (experts,) for a single
    window, and `weight` of shape (windows,), 1 by default. `max_copies` is 8 by default.

    Examples
    --------
    >>> from moeopt import replication
    >>> replication.Instance.from_arrays(
    ...     loads=[600, 560, 120, 120, 20, 10, 10, 10], devices=8, slots=2, name="golden"
    ... )
    <replication instance 'golden': 8 experts, 8 devices of 2 slots, 1 window, even split;
    minimises peak_load_units>
    """

    TABLES: ClassVar = (Table("windows", "loads", "(windows, experts)", None, {"weight": 1}),)
    SUMS: ClassVar = (
        Sum("windows", "all loads or times, times weight and unit, and all copies", "largest"),
    )

    problem: Literal["replication"] = "replication"
    work: Literal["tokens", "kernel"] = "tokens"
    read_ns: Annotated[Count, Field(ge=1)] | None = None
    token_ns: Annotated[Count, Field(ge=1)] | None = None
    pass_ns: Count = 0
    slot_cost: Count = 0
    devices: Annotated[Count, Field(ge=1, le=MAX_DEVICES)]
    slots: Annotated[Count, Field(ge=1, le=MAX_EXPERTS)]
    nodes: Annotated[Count, Field(ge=1)] = 1
    groups: Annotated[Count, Field(ge=1)] | None = None
    split: Literal["even", "free"] = "even"
    max_copies: Annotated[Count, Field(ge=1, le=MAX_DEVICES)]
    windows: Annotated[
        tuple[Window, ...], Field(min_length=1, max_length=MAX_WINDOWS, fail_fast=True)
    ]
    current: Copies | None = None
    move_cost: Count = 0
    links: tuple[tuple[Count, ...], ...] | None = None

    @field_validator("read_ns", "token_ns")
    @classmethod
    def _times_of_kernels(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("work") == "tokens":
            raise field_error([], 'can be used with work "kernel" only')
        return value

    @field_validator("max_copies")
    @classmethod
    def _units_fit(cls, most: int, info: ValidationInfo) -> int:
        if info.data.get("work") == "tokens" and most > MAX_COPIES:
            raise field_error([], f"must be at most {MAX_COPIES}, not {most}")
        return most

    @field_validator("links")
    @classmethod
    def _square(cls, links: Links | None, info: ValidationInfo) -> Links | None:
        devices = info.data.get("devices")
        if links is None or devices is None:
            return links
        if len(links) != devices:
            raise field_error([], f"has {len(links)} rows for {devices} devices")
        for source, row in enumerate(links):
            if len(row) != devices:
                raise field_error([source], f"has {len(row)} entries for {devices} devices")
        return links

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
    def _states_what_its_work_needs(self) -> Self:
        for name in ("read_ns", "token_ns") if self.work == "kernel" else ():
            if getattr(self, name) is None:
                raise InputError(f'{name}: work "kernel" needs it')
        for name in ("links", "slot_cost", "pass_ns") if self.work == "tokens" else ():
            if getattr(self, name):
                raise InputError(f'{name}: can be used with work "kernel" only')
        return self

    @model_serializer(mode="wrap")
    def _without_what_has_no_meaning(
        self, handler: SerializerFunctionWrapHandler
    ) -> dict[str, object]:
        """Write what a kernel needs only where there is one: other files are as they were."""
        fields: dict[str, object] = handler(self)
        if self.work == "tokens":
            for name in ("work", "read_ns", "token_ns", "slot_cost", "links"):
                fields.pop(name, None)
        if not self.pass_ns:
            fields.pop("pass_ns", None)
        return fields

    @classmethod
    def _arranged(cls, given: dict[str, object]) -> dict[str, object]:
        loads = given.get("loads")
        return super()._arranged(given | {"loads": [loads]} if _is_flat(loads) else given)

    def minimises(self) -> tuple[str, ...]:
        """Return the objective's name: of kernels it is a time."""
        return ("peak_ns",) if self.work == "kernel" else super().minimises()

    @classmethod
    @by_name
    def from_arrays(
        cls,
        *,
        loads: ArrayLike,
        devices: int,
        slots: int,
        weight: ArrayLike | None = None,
        work: Literal["tokens", "kernel"] = "tokens",
        read_ns: int | None = None,
        token_ns: int | None = None,
        pass_ns: int = 0,
        slot_cost: int = 0,
        nodes: int = 1,
        groups: int | None = None,
        split: Literal["even", "free"] = "even",
        max_copies: int = 8,
        current: ArrayLike | None = None,
        move_cost: int = 0,
        links: ArrayLike | None = None,
        name: str | None = None,
        provenance: JsonObject | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays: NumPy's, or nested lists."""
        return cls._of_arrays(locals())

    def size(self) -> str:
        """Return experts, devices, slots, windows and the split in words."""
        windows = f"{len(self.windows)} window{'s' if len(self.windows) > 1 else ''}"
        nodes = f" on {self.nodes} nodes" if self.nodes > 1 else ""
        devices = f"{self.devices} devices of {self.slots} slots{nodes}"
        work = ", kernel times" if self.work == "kernel" else ""
        return f"{self.experts} experts, {devices}, {windows}, {self.split} split{work}"

    @property
    def has_shares(self) -> bool:
        """Whether solutions say which tokens go to which copy."""
        return self.work == "kernel" and self.split == "free"

    @property
    def experts(self) -> int:
        """How many experts there are."""
        return len(self.windows[0].loads)

    @cached_property
    def units_per_token(self) -> int:
        """lcm(1..max_copies): in these units every even share is an integer.

        With kernel times tokens are not divided, and their unit is the token.
        """
        if self.work == "kernel":
            return 1
        return lcm(*range(1, self.max_copies + 1))

    @property
    def scale(self) -> int:
        """What times are multiplied by within methods, so that shares of links are integers."""
        return 1 if self.links is None else self.devices

    @property
    def largest(self) -> int:
        """No solution's objective, as methods count it, is above this.

        Tokens count in units, kernel times in ns times `scale`.
        """
        copies = self.devices * max(self.slots, self.experts)
        if self.work == "tokens":
            tokens = sum(window.weight * sum(window.loads) for window in self.windows)
            return tokens * self.units_per_token + self.move_cost * copies
        slowest, reads = max(self.scaled_token_ns), self.scaled_read_ns * self.slots
        times = sum(w.weight * (reads + slowest * sum(w.loads)) for w in self.windows)
        return times + (self.move_cost + self.slot_cost) * copies * self.scale

    @property
    def scaled_read_ns(self) -> int:
        """`read_ns` times `scale`; 0 where tokens alone count."""
        return (self.read_ns or 0) * self.scale

    @cached_property
    def scaled_link_ns(self) -> tuple[int, ...]:
        """What a token costs on each device besides: `pass_ns` and its way there, scaled.

        Of the way the mean of all sources.
        """
        every = self.pass_ns * self.scale
        if self.links is None:
            return (every,) * self.devices
        return tuple(every + sum(column) for column in zip(*self.links, strict=True))

    @property
    def scaled_token_ns(self) -> tuple[int, ...]:
        """What a token costs on each device, computing and what comes besides, scaled."""
        return tuple((self.token_ns or 1) * self.scale + way for way in self.scaled_link_ns)

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
        """The experts' loads in units, shape (windows, experts); with kernel times in tokens."""
        tokens = np.array([window.loads for window in self.windows], dtype=np.int64)
        return tokens if self.work == "kernel" else tokens * self.units_per_token


def _is_flat(values: object) -> bool:
    """Tell whether a list or an array holds numbers and not rows."""
    if isinstance(values, np.ndarray):
        return values.ndim == 1
    if not isinstance(values, list | tuple):
        return False
    return not values or not isinstance(values[0], list | tuple | np.ndarray)


Shares = tuple[tuple[tuple[Count, ...], ...], ...]
"""Tokens by window, expert and copy."""


class Solution(SolutionEnvelope):
    """The devices of each expert's copies, in the order of the instance's experts.

    With kernel times and a free split `shares` has the tokens of each copy by window and expert, in
    the order of `copies`; else it is None.
    """

    problem: Literal["replication"] = "replication"
    copies: Copies
    shares: Shares | None = None

    @model_serializer(mode="wrap")
    def _without_absent_shares(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        fields: dict[str, object] = handler(self)
        if self.shares is None:
            del fields["shares"]
        return fields
