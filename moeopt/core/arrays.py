"""Arrays of integers from a caller's code: what ``Instance.from_arrays`` of every problem takes.

An argument is a NumPy array of any integer type, or nested lists of integers. What is wrong with it
is one line that names the argument, the index, the value and what would be right.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.core.envelope import MAX_NUMBER, InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.wording import shown

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Made = TypeVar("Made", bound=InstanceEnvelope)

NOT_THERE = -1
"""Stands in arrays for what does not exist: the DIMM of a striped expert, an empty place."""

_PART = re.compile(r"(\w+)|\[(\d+)\]")


def integers(
    name: str,
    values: ArrayLike,
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


def flags(name: str, values: ArrayLike, shape: tuple[int | None, ...], axes: str = "") -> Flags:
    """Return an argument as an array of flags; errors as in `integers`."""
    array = _array(name, values, "flags")
    _check_shape(name, array, shape, axes)
    if array.dtype.kind != "b" and array.size:
        index, value = next(_entries(values, array))
        raise InputError(f"{_at(name, index)}: must be true or false, not {_shown(value)}")
    return array.astype(np.bool_)


def each(name: str, values: ArrayLike | None, size: int, default: Any, **limits: int) -> Integers:
    """Return an argument with one entry per expert, or the default where it is not given."""
    if values is None:
        return np.broadcast_to(np.asarray(default, dtype=np.int64), (size,))
    return integers(name, values, (size,), axes="(experts,)", **limits)


def optional(values: Integers) -> list[int | None]:
    """Return a list with None where an array has `NOT_THERE`."""
    return [None if value == NOT_THERE else value for value in values.tolist()]


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return one object per entry of some columns of equal length."""
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def made(model: type[Made], **fields: Any) -> Made:
    """Return the instance of some fields; without a name it gets its default.

    Raises
    ------
    InputError
        As the instance's own, with ``experts[3].dimm`` called ``dimm[3]``, as the argument is.
    """
    try:
        return model(**{k: v for k, v in fields.items() if k != "name" or v is not None})
    except InputError as error:
        field, colon, reason = str(error).partition(": ")
        parts = _PART.findall(field)
        names = [part for part, _ in parts if part]
        index = tuple(int(number) for _, number in parts if number)
        where = _at(names[-1], index) if names else field
        raise InputError(f"{where}{colon}{reason}") from None


def _array(name: str, values: ArrayLike, kind: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name}: must be an array of {kind}, all rows of one length") from None
    if array.dtype.kind in "USVMm" or (array.ndim == 0 and array.dtype == object):
        raise InputError(f"{name}: must be an array of {kind}, not {_shown(values)}")
    return array


def _check_shape(name: str, array: NDArray[Any], shape: tuple[int | None, ...], axes: str) -> None:
    due = ", ".join("any" if length is None else str(length) for length in shape)
    due += "," if len(shape) == 1 else ""
    fits = array.ndim == len(shape) and all(
        want in (None, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        means = f" {axes}" if axes else ""
        raise InputError(f"{name}: must have shape ({due}){means}, not {array.shape}")


def _has_flags(values: ArrayLike) -> bool:
    """Tell whether lists mix flags with integers, which NumPy would take for integers."""
    if isinstance(values, list | tuple):
        return any(_has_flags(value) for value in values)
    return isinstance(values, bool | np.bool_)


def _entries(values: ArrayLike, array: NDArray[Any]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Yield the entries with their indices as the caller wrote them, before NumPy unified types."""
    for index in np.ndindex(array.shape):
        value: Any = values
        for place in index:
            value = value[place] if isinstance(value, list | tuple | np.ndarray) else None
        yield index, array[index] if value is None else value


def _at(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def _shown(value: Any) -> str:
    return shown(value.item() if isinstance(value, np.generic) else value)
