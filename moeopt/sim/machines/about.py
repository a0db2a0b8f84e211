"""What a field of a file means, said at the field: its unit, its absence, where to find it."""

from typing import Any

from pydantic import Field


def about(what: str, *, unit: str = "", absent: str = "", find: str = "", **rules: Any) -> Any:
    """Return a pydantic field with what `moeopt machine fields` prints of it.

    Parameters
    ----------
    what
        What it is.
    unit
        Its unit, if it has one.
    absent
        What its absence means, if it may be absent.
    find
        Where the number stands, or what prints it.
    **rules
        For `pydantic.Field`: default, limits.
    """
    extra: dict[str, Any] = {"unit": unit, "absent": absent, "find": find}
    return Field(description=what, json_schema_extra=extra, **rules)
