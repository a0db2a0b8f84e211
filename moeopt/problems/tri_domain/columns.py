"""The experts of an instance as arrays: for vectorised algorithms, and as what instances keep.

Reading and checking hundreds of objects one by one takes longer than most schedules. What comes as
plain rows, or as arrays, is checked column by column and kept so; whatever such a check does not
find in order is left to the objects, whose errors name row and field.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from types import NoneType
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from moeopt.core.envelope import MAX_NUMBER

E = TypeVar("E")
"""An expert, `instance.Expert`."""

STRIPED = -1
"""In the place of a DIMM: the expert lies on all of them."""


class Layout(NamedTuple):
    """Which experts are resident, and each expert's DIMM (`STRIPED` if on all); (experts,) each.

    `copies` has the DIMMs of each expert's further copies, and is empty where there are none.
    """

    resident: NDArray[np.bool_]
    dimm: NDArray[np.int64]
    copies: Sequence[Sequence[int]] = ()


FIELDS = (
    *("expert", "tokens", "resident", "dimm", "gpu_ns", "cpu_ns", "ndp_ns"),
    *("gpu_dram_ns", "cpu_dram_ns"),
)
"""Fields of schema 1."""

PARTS = ("gpu_calc_ns", "pcie_ns")

OPTIONAL = ("dimm", "ndp_ns")
"""Fields that are null where an expert is striped."""


@dataclass(frozen=True)
class Columns:
    """The experts as arrays of shape (experts,), for vectorised algorithms.

    `dimm` is `STRIPED` and `ndp_ns` is 0 where the expert is striped. `gpu_work_ns` is `gpu_ns` and
    `pcie_ns` 0 where a run on the GPU is one piece of work.
    """

    expert: NDArray[np.int64]
    tokens: NDArray[np.int64]
    resident: NDArray[np.bool_]
    dimm: NDArray[np.int64]
    gpu_ns: NDArray[np.int64]
    cpu_ns: NDArray[np.int64]
    ndp_ns: NDArray[np.int64]
    gpu_dram_ns: NDArray[np.int64]
    cpu_dram_ns: NDArray[np.int64]
    gpu_work_ns: NDArray[np.int64]
    pcie_ns: NDArray[np.int64]


def columns_of(pairs: Sequence[tuple[Any, Any]]) -> Columns:
    """Return the arrays of some experts, each with the copy of it that counts.

    Parameters
    ----------
    pairs
        An `instance.Expert` each, and itself or one of its `instance.Copy`.
    """

    def column(values: Iterable[int | None], null: int = 0) -> NDArray[np.int64]:
        return np.array([null if v is None else v for v in values], dtype=np.int64)

    of_copies = ("gpu_ns", "cpu_ns", "ndp_ns", "gpu_dram_ns", "cpu_dram_ns")
    return Columns(
        **{name: column(getattr(e, name) for e, _ in pairs) for name in ("expert", "tokens")},
        **{
            name: column(getattr(lie, name) for _, lie in pairs)
            for name in (*of_copies, "gpu_work_ns", "pcie_ns")
        },
        dimm=column((lie.dimm for _, lie in pairs), STRIPED),
        resident=column(expert.resident for expert, _ in pairs).astype(np.bool_),
    )


class Rows(Sequence[E]):
    """The experts of an instance, kept as columns: objects are made once somebody asks for one.

    Parameters
    ----------
    columns
        Valid as `valid` has it.
    two_parts
        Whether the experts have `PARTS`.
    make
        Makes an expert of its fields.
    """

    def __init__(self, columns: Columns, two_parts: bool, make: Callable[..., E]) -> None:
        self.columns, self.two_parts = columns, two_parts
        self._make = make
        self._objects: tuple[E, ...] | None = None

    def __len__(self) -> int:
        return len(self.columns.expert)

    def __iter__(self) -> Iterator[E]:
        return iter(self.objects)

    @overload
    def __getitem__(self, at: int) -> E: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[E, ...]: ...
    def __getitem__(self, at: int | slice) -> E | tuple[E, ...]:
        return self.objects[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rows | tuple):
            return NotImplemented
        return self.objects == tuple(other)

    def __hash__(self) -> int:
        return hash(self.objects)

    def __repr__(self) -> str:
        return repr(self.objects)

    @property
    def objects(self) -> tuple[E, ...]:
        """The experts."""
        if self._objects is None:
            absent = dict.fromkeys((*(() if self.two_parts else PARTS), "copies"))
            rows = self.dicts()
            given = set(rows[0])
            self._objects = tuple(self._make(given.copy(), **row, **absent) for row in rows)
        return self._objects

    def dicts(self) -> list[dict[str, object]]:
        """Return the fields of each expert, those that it has, with Python's own values."""
        c = self.columns
        lists = {name: getattr(c, name).tolist() for name in FIELDS}
        where = [dimm == STRIPED for dimm in lists["dimm"]]
        for name in OPTIONAL:
            lists[name] = [
                None if striped else value
                for value, striped in zip(lists[name], where, strict=True)
            ]
        if self.two_parts:
            lists |= {"gpu_calc_ns": c.gpu_work_ns.tolist(), "pcie_ns": c.pcie_ns.tolist()}
        names = tuple(lists)
        return [dict(zip(names, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def rows_in(value: Any, make: Callable[..., E]) -> Rows[E] | None:
    """Return the rows that plain data hold, as a JSON file does; None where anything is unusual."""
    if type(value) not in (list, tuple) or set(map(type, value)) != {dict}:
        return None
    names = FIELDS + PARTS if PARTS[0] in value[0] else FIELDS
    if set(map(len, value)) != {len(names)}:
        return None
    try:
        lists = dict(zip(names, zip(*map(itemgetter(*names), value), strict=True), strict=True))
    except KeyError:
        return None
    columns = {name: _column(name, of) for name, of in lists.items()}
    if any(column is None for column in columns.values()):
        return None
    return valid(columns, make)


def _column(name: str, values: Sequence[Any]) -> NDArray[np.generic] | None:
    kinds = set(map(type, values))
    if name == "resident":
        return np.array(values) if kinds == {bool} else None
    if name in OPTIONAL and NoneType in kinds:
        if STRIPED in values:  # a wrong number, which must not pass for null
            return None
        values = [STRIPED if value is None else value for value in values]
        kinds.discard(NoneType)
    elif name in OPTIONAL and kinds == {int} and min(values) < 0:
        return None
    if kinds - {int}:
        return None
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return None


def valid(columns: Mapping[str, Any], make: Callable[..., E]) -> Rows[E] | None:
    """Return the rows of some columns if nothing is wrong with any.

    Parameters
    ----------
    columns
        By field, shape (experts,): int64, `resident` of flags; `STRIPED` stands for null in those
        that are `OPTIONAL`.
    make
        See `Rows`.

    Returns
    -------
    Rows or None
        None where an object would be refused. That DIMMs are below the instance's number of DIMMs
        is not looked at.
    """
    c = {name: np.ascontiguousarray(column) for name, column in columns.items()}
    striped, held, gpu = c["dimm"] == STRIPED, c["resident"], c["gpu_ns"]
    numbers = np.stack(
        [column for name, column in c.items() if name not in ("resident", *OPTIONAL)]
    )
    optional = np.stack([c[name] for name in OPTIONAL])
    parts = [c[name] for name in PARTS if name in c]
    wrong = (
        numbers.min(initial=0) < 0
        or max(numbers.max(initial=0), optional.max(initial=0)) > MAX_NUMBER
        or optional.min(initial=0) < STRIPED
        or c["tokens"].min(initial=1) < 1
        or not np.array_equal(striped, c["ndp_ns"] == STRIPED)
        or c["gpu_dram_ns"][held].any()
        or len(set(c["expert"].tolist())) < len(striped)
        or (parts and (any((part > gpu).any() for part in parts) or parts[1][held].any()))
    )
    if wrong or not len(striped):
        return None
    c["ndp_ns"] = np.where(striped, 0, c["ndp_ns"])
    work, link = parts or (gpu, np.zeros(len(gpu), np.int64))
    named = {name: c[name] for name in FIELDS}
    return Rows(Columns(**named, gpu_work_ns=work, pcie_ns=link), bool(parts), make)
