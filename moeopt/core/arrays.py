"""Arrays of integers from a caller's code: what ``Instance.from_arrays`` of any problem takes.

An argument is a NumPy array of any integer type, or nested lists of integers. What is wrong with it
is one line that names the argument, the index, the value and what would be right.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Annotated, ParamSpec, TypeVar, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from moeopt.core.errors import InputError
from moeopt.core.wording import meant, shown, suggested

MAX_NUMBER = 2**42
"""Largest number in an instance: 73 minutes in ns, 4 TiB in bytes. Sums of 2**20 stay in int64."""

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Column = Integers | Flags | list[object]

NOT_THERE = -1
"""Stands in arrays for what does not exist: the DIMM of a striped expert, an empty place."""

_PART = re.compile(r"(\w+)|\[(\d+)\]")


P = ParamSpec("P")
R = TypeVar("R")

BY_NAME = """

        The class says which fields of its rows are arrays, with an entry per row, and its example
        shows a call. -1 stands where a file has null; one integer stands for all rows. Without a
        `name` it is called after the problem and its data.

        Raises
        ------
        InputError
            If an argument is missing or unknown, or not an array of integers of this shape and
            range; one line with the argument, the index and the value.
        """


def by_name(function: Callable[P, R]) -> Callable[P, R]:
    """Let ``from_arrays`` of a problem refuse an unknown argument in one line, with what was meant.

    Its signature declares what it takes; what is missing is said by what needs it.
    """
    parameters = signature(function).parameters.values()
    known = [of.name for of in parameters if of.kind == Parameter.KEYWORD_ONLY]
    missing = {of.name: None for of in parameters if of.name in known and of.default is of.empty}

    @wraps(function)
    def checked(*cls: P.args, **given: P.kwargs) -> R:
        for name in given:
            if name not in known:
                said = meant(name, known) or f"; known: {', '.join(known)}"
                suggestion = suggested(name, known)
                raise InputError(f"is not a known key{said}", field=name, suggestion=suggestion)
        return function(*cls, **(missing | given))  # type: ignore[arg-type]

    checked.__doc__ = f"{function.__doc__}{BY_NAME}"
    return checked


@dataclass(frozen=True)
class Table:
    """A field of an instance whose rows can be given as arrays, one per field of a row.

    Attributes
    ----------
    name
        The instance's field, such as ``experts``.
    leading
        The row's field that says how many rows there are, and how long lists in them.
    axes
        What the lengths count, for messages, e.g. ``"(windows, experts)"``.
    numbers
        The row's field that counts the rows, 0, 1, ..., where it is not given; None if none does.
    defaults
        Fields of a row -> what stands in every row where they are not given.
    """

    name: str
    leading: str
    axes: str
    numbers: str | None = None
    defaults: Mapping[str, int | bool | None] = field(default_factory=dict)

    def columns(self, row: type[BaseModel], given: dict[str, object]) -> dict[str, Column]:
        """Take a row's fields out of what a caller gave, each as an array with an entry per row.

        Raises
        ------
        InputError
            If a field is missing, or an array of another shape than the leading one's.
        """
        fields = row.model_fields
        missing = [
            name
            for name, info in fields.items()
            if info.is_required() and name not in {self.numbers, *self.defaults, *given}
        ]
        if missing:
            raise InputError(f"{missing[0]}: is missing: an array, shape {self.axes}")
        shape: tuple[int | None, ...] = (None,) * (1 + _Form.of(row, self.leading).depth)
        leading = integers(self.leading, given[self.leading], shape, axes=self.axes, **ANY)
        found: dict[str, Column] = {}
        for name in fields:
            if given.get(name) is not None:
                values = given.pop(name)
                found[name] = _column(name, values, _Form.of(row, name), leading.shape, self.axes)
            elif name == self.numbers:
                found[name] = np.arange(len(leading))
            elif (default := self.defaults.get(name)) is not None:
                found[name] = np.full(len(leading), default)
            given.pop(name, None)
        return found

    def rows(self, row: type[BaseModel], columns: Mapping[str, Column]) -> list[dict[str, object]]:
        """Return one object per entry of the columns; `NOT_THERE` is null where null may stand."""
        lists = {name: _Form.of(row, name).entries(column) for name, column in columns.items()}
        return [dict(zip(lists, entry, strict=True)) for entry in zip(*lists.values(), strict=True)]


ANY = {"least": -MAX_NUMBER, "most": MAX_NUMBER}
"""Of integers whose range the instance looks at itself."""


@dataclass(frozen=True)
class _Form:
    """What may stand in a field of a row: lists nested so deep, of `kind`; null where it says so.

    `nulls` is for the innermost entries, `whole` for a list as a whole.
    """

    depth: int
    kind: object
    nulls: bool
    whole: bool

    @classmethod
    def of(cls, row: type[BaseModel], name: str) -> "_Form":
        info = row.model_fields[name]
        annotation: object = info.annotation
        depth, nulls, whole = 0, False, False
        while True:
            origin, inner = get_origin(annotation), get_args(annotation)
            if origin is Annotated:
                annotation = inner[0]
            elif origin in (Union, UnionType):
                nulls = NoneType in inner
                whole = whole or (nulls and depth == 0)
                annotation = next(part for part in inner if part is not NoneType)
            elif origin is tuple:
                depth, nulls, annotation = depth + 1, False, inner[0]
            else:
                return cls(depth, annotation, nulls, whole)

    def entries(self, column: Column) -> list[object]:
        """Return a column's entries as Python's own values."""
        if isinstance(column, list):
            return [entry or None for entry in column] if self.whole else column
        values: list[object] = column.tolist()
        if not self.nulls:
            return values
        if not self.depth:
            return [None if value == NOT_THERE else value for value in values]
        rows = [[None if v == NOT_THERE else v for v in row.tolist()] for row in column]
        return [row if any(v is not None for v in row) or not self.whole else None for row in rows]


def _column(name: str, values: object, form: _Form, leading: tuple[int, ...], axes: str) -> Column:
    if form.kind is bool:
        return flags(name, values, leading[:1], axes)
    if form.kind is not int:  # objects
        if not isinstance(values, Sequence) or len(values) != leading[0]:
            raise InputError(f"must have {leading[0]} entries, shape {axes}", field=name)
        return list(values)
    if not form.depth and isinstance(values, int | np.integer) and not isinstance(values, bool):
        return np.full(leading[:1], int(values))
    shape = (*leading, *(None,) * form.depth)[: form.depth + 1]
    words = axes if len(shape) == axes.count(",") + 1 - axes.count(",)") else ""
    least = NOT_THERE if form.nulls else -MAX_NUMBER
    return integers(name, values, shape, axes=words, least=least)


def integers(
    name: str,
    values: object,
    shape: tuple[int | None, ...],
    *,
    axes: str = "",
    least: int = 0,
    most: int = MAX_NUMBER,
) -> Integers:
    """Return an argument as an array of int64.

    Parameters
    ----------
    name, values
        The argument.
    shape
        Its shape; None where any length will do.
    axes
        What the lengths count, for the message, e.g. ``"(layers, experts)"``.
    least, most
        The range of its entries.

    Raises
    ------
    InputError
        If it has another shape, or an entry that is no integer or out of range.
    """
    array = _array(name, values, "integers")
    _check_shape(name, array, shape, axes)
    if array.dtype.kind not in "iu" or _has_flags(values):
        for index, value in _entries(values, array):
            if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
                raise InputError(f"{_at(name, index)}: must be an integer, not {_shown(value)}")
    if array.size:
        for extreme, wrong, word in (
            (array.argmin(), array.min() < least, f"at least {least}"),
            (array.argmax(), array.max() > most, f"at most {most}"),
        ):
            if wrong:
                index = tuple(map(int, np.unravel_index(extreme, array.shape)))
                raise InputError(f"{_at(name, index)}: must be {word}, not {array[index]}")
    return array.astype(np.int64)


def flags(name: str, values: object, shape: tuple[int | None, ...], axes: str = "") -> Flags:
    """Return an argument as an array of flags; errors as in `integers`."""
    array = _array(name, values, "flags")
    _check_shape(name, array, shape, axes)
    if array.dtype.kind != "b" and array.size:
        index, value = next(_entries(values, array))
        raise InputError(f"{_at(name, index)}: must be true or false, not {_shown(value)}")
    return array.astype(np.bool_)


def as_argument(field: str) -> str:
    """Return a field below a row, ``experts[3].dimm``, as the argument it came by: ``dimm[3]``."""
    parts = _PART.findall(field)
    names = [part for part, _ in parts if part]
    return _at(names[-1], tuple(int(number) for _, number in parts if number)) if names else field


def _array(name: str, values: object, kind: str) -> NDArray[np.generic]:
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"must be an array of {kind}, all rows of one length", field=name
        ) from None
    if array.dtype.kind in "USVMm" or (array.ndim == 0 and array.dtype == object):
        raise InputError(f"must be an array of {kind}, not {_shown(values)}", field=name)
    return array


def _check_shape(
    name: str, array: NDArray[np.generic], shape: tuple[int | None, ...], axes: str
) -> None:
    due = ", ".join("any" if length is None else str(length) for length in shape)
    due += "," if len(shape) == 1 else ""
    fits = array.ndim == len(shape) and all(
        want in (None, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        means = f" {axes}" if axes else ""
        raise InputError(f"must have shape ({due}){means}, not {array.shape}", field=name)


def _has_flags(values: object) -> bool:
    """Tell whether lists mix flags with integers, which NumPy would take for integers."""
    if isinstance(values, list | tuple):
        return any(_has_flags(value) for value in values)
    return isinstance(values, bool | np.bool_)


def _entries(
    values: object, array: NDArray[np.generic]
) -> Iterator[tuple[tuple[int, ...], object]]:
    """Yield the entries with their indices as the caller wrote them, before NumPy unified types."""
    for index in np.ndindex(array.shape):
        value: object = values
        for place in index:
            value = value[place] if isinstance(value, list | tuple | np.ndarray) else None
        yield index, array[index] if value is None else value


def _at(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def _shown(value: object) -> str:
    return shown(value.item() if isinstance(value, np.generic) else value)
