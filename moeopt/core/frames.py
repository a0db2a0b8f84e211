"""An instance's data as a pandas frame: a row per item, or per entry of nested lists."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from moeopt.core.errors import InputError
from moeopt.core.wording import unknown

if TYPE_CHECKING:
    import pandas as pd

MOST = 16
"""Numbers of an item that are columns; longer lists have a row per entry."""


def table_names(data: BaseModel) -> list[str]:
    """Return the fields that hold lists, those with the most entries first."""
    sizes = {
        name: _size(value)
        for name in type(data).model_fields
        if isinstance(value := getattr(data, name), list | tuple)
    }
    return sorted(sizes, key=lambda name: -sizes[name])


def _size(value: object) -> int:
    if isinstance(value, BaseModel):
        return sum(_size(getattr(value, name)) for name in type(value).model_fields)
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 1


def to_frame(data: BaseModel, table: str | None) -> "pd.DataFrame":
    """Return one of the lists of an instance as a frame; by default the longest one.

    Raises
    ------
    InputError
        If the instance has no such list.
    """
    import pandas as pd

    names = table_names(data)
    chosen = names[0] if table is None and names else table
    if chosen not in names:
        raise InputError(unknown(str(chosen), names, "lists of the instance"), field="table")
    return pd.DataFrame(_rows(getattr(data, chosen), chosen)).convert_dtypes()


def _rows(value: Sequence[Any], name: str, axis: int = 0) -> Iterator[dict[str, object]]:
    """Yield a row per item; of lists in lists a row per innermost list, with the way to it."""
    for number, item in enumerate(value):
        if isinstance(item, BaseModel):
            yield from _of_item(item, name, number)
        elif not isinstance(item, list | tuple):
            yield {name: item}
        elif any(isinstance(inner, list | tuple) for inner in item):
            for row in _rows(item, name, axis + 1):
                yield {f"axis_{axis}": number} | row
        else:
            yield {f"axis_{axis}": number} | _spread(name, item)


def _of_item(item: BaseModel, name: str, number: int) -> Iterator[dict[str, object]]:
    """Yield the row of an item; where it holds items itself, a row for each of these."""
    values = {of: getattr(item, of) for of in type(item).model_fields}
    inner = [of for of, value in values.items() if _holds_items(value)]
    row: dict[str, object] = {}
    for of, value in values.items():
        if of in inner:
            continue
        if isinstance(value, Mapping):
            row |= {f"{of}_{key}": one for key, one in value.items()}
        else:
            is_list = isinstance(value, list | tuple)
            row |= _spread(of, value) if is_list and len(value) <= MOST else {of: value}
    if not inner:
        yield from _by_entry(row, values, name, number)
    for of in inner:
        for deeper in _rows(values[of], of):
            yield {name.removesuffix("s"): number} | row | deeper


def _by_entry(
    row: dict[str, object], values: Mapping[str, Any], name: str, number: int
) -> Iterator[dict[str, object]]:
    """Yield a row for each entry of an item's long lists; the item's row where it has none."""
    long = [of for of, value in values.items() if row.get(of) is value and _is_long(value)]
    if not long:
        yield row
        return
    own = {of: value for of, value in row.items() if of not in long}
    for at in range(max(len(values[of]) for of in long)):
        entry = {of: values[of][at] if at < len(values[of]) else None for of in long}
        yield {name.removesuffix("s"): number, "entry": at} | own | entry


def _is_long(value: object) -> bool:
    return isinstance(value, list | tuple) and len(value) > MOST


def _holds_items(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], BaseModel)


def _spread(name: str, values: Sequence[object]) -> dict[str, object]:
    """Return a list as columns."""
    return {f"{name}_{at}": one for at, one in enumerate(values)}
