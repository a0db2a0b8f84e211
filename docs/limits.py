"""The limits of an instance's numbers, read from its class: its page prints them as a table."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

UNITS = {"_ns": "ns", "_bytes": "bytes", "capacity": "bytes", "buffer": "bytes", "_bits": "bits"}
"""End of a field's name -> its unit; other numbers are counts, or what the field's text says."""


class Limit(NamedTuple):
    """A field of numbers, below which objects and lists it stands, and what it may hold.

    Attributes
    ----------
    field
        Such as ``experts[].gpu_ns``; ``[]`` for each list.
    unit
        Empty for a count.
    least, most
        Of each number; None: no limit.
    lengths
        Most entries of each list around it, the outermost first; None: no limit.
    """

    field: str
    unit: str
    least: int | float | None
    most: int | float | None
    lengths: tuple[int | None, ...]


def limits_of(model: type[BaseModel]) -> list[Limit]:
    """Return the limits of all fields of numbers, in the order of the class."""
    schema = model.model_json_schema()
    return list(_limits("", schema, schema.get("$defs", {}), ()))


def _limits(
    at: str, schema: Mapping[str, Any], defs: Mapping[str, Any], lengths: tuple[int | None, ...]
) -> Iterator[Limit]:
    if "$ref" in schema:
        schema = defs[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:  # a field that may be null, or one number for a list of them
        kinds = [kind for kind in schema["anyOf"] if kind.get("type") != "null"]
        yield from _limits(at, kinds[-1], defs, lengths)
    elif schema.get("type") in ("integer", "number"):
        least = schema.get("minimum", schema.get("exclusiveMinimum"))
        ends = [schema["maximum"]] if "maximum" in schema else []
        ends += [schema["exclusiveMaximum"] - 1] if "exclusiveMaximum" in schema else []
        most = min(ends, default=None)
        name = at.rstrip("[]").rpartition(".")[2]
        unit = next((unit for end, unit in UNITS.items() if name.endswith(end)), "")
        yield Limit(at, unit, least, most, lengths)
    elif schema.get("type") == "array":
        length = schema.get("maxItems")
        places = schema.get("prefixItems")
        if places:  # numbers of different meaning side by side
            for number, place in enumerate(places):
                yield from _limits(f"{at}[{number}]", place, defs, lengths)
        else:
            yield from _limits(f"{at}[]", schema.get("items", {}), defs, (*lengths, length))
    else:
        for name, part in schema.get("properties", {}).items():
            if name not in ("provenance", "schema_version"):
                yield from _limits(f"{at}.{name}" if at else name, part, defs, lengths)
