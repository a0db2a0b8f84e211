"""What every instance and solution file has in common, and the number types they are made of."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

MAX_NUMBER = 2**42
"""Largest number in an instance: 73 minutes in ns, 4 TiB in bytes. Sums of 2**20 stay in int64."""

Count = Annotated[int, Field(strict=True, ge=0, le=MAX_NUMBER)]
"""A plain count or an index."""

Nanoseconds = Annotated[int, Field(strict=True, ge=0, le=MAX_NUMBER)]
"""A duration; fields of this type end in ``_ns``."""

Flag = Annotated[bool, Field(strict=True)]

Name = Annotated[
    str, Field(strict=True, min_length=1, max_length=200, pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")
]
"""A name; no line breaks and no control characters, which could forge a terminal's output."""


class Frozen(BaseModel):
    """A value object: immutable, and an unknown key is an error that names the key."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class InstanceEnvelope(Frozen):
    """Fields shared by the instances of all problems.

    A problem's ``Instance`` narrows `problem` to its own name and adds its data.
    """

    problem: str
    schema_version: Annotated[int, Field(strict=True, ge=1, le=1)] = 1
    name: Name
    provenance: dict[str, Any] | None = None
    quantum_ns: Annotated[int, Field(strict=True, ge=1, le=MAX_NUMBER)] | None = None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, as pydantic does, but one with changes forgets what was derived before."""
        copied = super().model_copy(update=update, deep=deep)
        if update:
            for name in set(vars(copied)) - set(type(self).model_fields):
                del vars(copied)[name]
        return copied


class SolutionEnvelope(Frozen):
    """Fields shared by the solutions of all problems; `instance` is the instance's name."""

    problem: str
    instance: Name


def field_error(at: Sequence[str | int], reason: str) -> PydanticCustomError:
    """Return the error for a rule between fields, pointing at a field below the validated one.

    Parameters
    ----------
    at
        Path from the field being validated to the culprit, e.g. ``[3, "dimm"]``.
    reason
        What is wrong and what would be right. Braces are not allowed.
    """
    context = {"at": list(at), "reason": reason}
    return PydanticCustomError("field", "{reason}", context)
