"""What every instance and solution file has in common, and the number types they are made of."""

import hashlib
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError

from moeopt.core.errors import InputError
from moeopt.core.wording import describe, shown

MAX_NUMBER = 2**42
"""Largest number in an instance: 73 minutes in ns, 4 TiB in bytes. Sums of 2**20 stay in int64."""

MAX_BITS, MAX_WIDTHS = 64, 16
"""Widest expert, and most widths of a table of losses."""

MAX_ALL_EXPERTS = 2**18
"""Experts of all layers of such a table: sums of so many losses stay below 2**60."""

Count = Annotated[int, Field(strict=True, ge=0, le=MAX_NUMBER)]
"""A plain count or an index."""

Nanoseconds = Annotated[int, Field(strict=True, ge=0, le=MAX_NUMBER)]
"""A duration; fields of this type end in ``_ns``."""

DEEPEST = 16
"""No data of a problem are nested deeper."""

MANY_VALUES = 6
"""Up to so many different values are counted when a solution is printed, or the first shown."""

Flag = Annotated[bool, Field(strict=True)]

Name = Annotated[
    str, Field(strict=True, min_length=1, max_length=200, pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")
]
"""A name; no line breaks and no control characters, which could forge a terminal's output."""


class Frozen(BaseModel):
    """A value object: immutable, and an unknown key is an error that names the key."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def fail_fast(schema: Any) -> None:
    """Let each list of a schema of pydantic's stop at its first wrong item.

    A file of a hundred thousand wrong items would cost a kilobyte of error each.
    """
    if isinstance(schema, dict):
        if schema.get("type") in ("list", "tuple"):
            schema["fail_fast"] = True
        for part in schema.values():
            fail_fast(part)
    elif isinstance(schema, list):
        for part in schema:
            fail_fast(part)


class Data(Frozen):
    """A part of a problem's data that people make in code as well as in files.

    NumPy's integers and arrays of integers are taken where integers and lists are; flags, floats
    and NaN are not. What is wrong is one line that names the field.

    Raises
    ------
    InputError
        If a field is missing, unknown or out of range.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the usual schema, whose lists stop at their first wrong item."""
        schema = handler(source)
        fail_fast(schema)
        return schema

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError:
            try:
                super().__init__(**plain(data))
            except ValidationError as error:
                raise InputError(describe(error)) from None

    # Only direct construction comes here: pydantic makes the parts of a larger object by itself.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Return the object that Python data describe; errors as in the constructor."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError:
            try:
                return super().model_validate(plain(obj), **options)
            except ValidationError as error:
                raise InputError(describe(error)) from None


def plain(value: Any, depth: int = 0) -> Any:
    """Return Python data without NumPy: its scalars and arrays become Python's own and lists."""
    if isinstance(value, dict) and depth < DEEPEST:
        return {plain(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple) and depth < DEEPEST:
        return [plain(item, depth + 1) for item in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


class InstanceEnvelope(Data):
    """Fields shared by the instances of all problems.

    A problem's ``Instance`` narrows `problem` to its own name and adds its data. Without a `name`
    an instance made in code is called after the problem and a hash of its data: solutions of
    another one are not taken for its own. Files state a name.
    """

    problem: str
    schema_version: Annotated[int, Field(strict=True, ge=1, le=1)] = 1
    name: Name = ""
    provenance: dict[str, Any] | None = None
    quantum_ns: Annotated[int, Field(strict=True, ge=1, le=MAX_NUMBER)] | None = None

    @model_validator(mode="after")
    def _has_a_name(self) -> Self:
        if "name" not in self.model_fields_set:
            digest = hashlib.sha256(self.model_dump_json().encode()).hexdigest()
            self.__dict__["name"] = f"{self.problem}-{digest[:8]}"
            self.model_fields_set.add("name")
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, as pydantic does, but one with changes forgets what was derived before."""
        copied = super().model_copy(update=update, deep=deep)
        if update:
            for name in set(vars(copied)) - set(type(self).model_fields):
                del vars(copied)[name]
        return copied

    def __eq__(self, other: object) -> bool:
        """Compare the fields; what was derived from them, arrays say, does not count."""
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    def size(self) -> str:
        """Return how large the instance is, in words; a problem says what counts."""
        lists = ((name, getattr(self, name)) for name in type(self).model_fields)
        return ", ".join(f"{len(of)} {name}" for name, of in lists if isinstance(of, tuple))

    def minimises(self) -> tuple[str, ...]:
        """Return the names of the objective's entries, each with its unit; first things first."""
        package = sys.modules[type(self).__module__.rpartition(".")[0]]
        names: tuple[str, ...] = package.PROBLEM.check.OBJECTIVE
        return names

    def __repr__(self) -> str:
        objective = self.minimises()
        minimised = ", then ".join(objective)
        return f"<{self.problem} instance {self.name!r}: {self.size()}; minimises {minimised}>"

    __str__ = __repr__


class SolutionEnvelope(Data):
    """Fields shared by the solutions of all problems; `instance` is the instance's name."""

    problem: str
    instance: Name

    def __repr__(self) -> str:
        fields = (name for name in type(self).model_fields if name not in ("problem", "instance"))
        stated = (name for name in fields if getattr(self, name) is not None)
        decided = "; ".join(f"{name}: {_in_short(getattr(self, name))}" for name in stated)
        return f"<{self.problem} solution of {self.instance!r}: {decided}>"

    __str__ = __repr__


def _in_short(decision: Any) -> str:
    """Return a decision in a few words: how often each value is taken, or the first values."""
    if isinstance(decision, BaseModel):
        return f"of {', '.join(type(decision).model_fields)}"
    if not isinstance(decision, tuple) or not decision:
        return "none" if decision == () else shown(decision)
    if all(isinstance(item, tuple) for item in decision):
        return f"{len(decision)} x ({_in_short(decision[0])})"
    if any(isinstance(item, BaseModel) for item in decision):
        return f"{len(decision)}"
    counts = Counter(decision)
    if len(counts) <= MANY_VALUES:
        times = " x " if any(isinstance(v, int) for v in counts) else " "
        words = (f"{count}{times}{'none' if v is None else v}" for v, count in counts.most_common())
        return ", ".join(words)
    first = ", ".join(shown(item) for item in decision[:MANY_VALUES])
    return f"{first}, ... ({len(decision)} in all)"


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
