"""What every instance and solution file has in common, and the number types they are made of."""

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar, get_args

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from moeopt.core.arrays import MAX_NUMBER as MAX_NUMBER
from moeopt.core.arrays import Table, as_argument
from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import JsonObject
from moeopt.core.wording import input_error, kind_of, shown

if TYPE_CHECKING:
    import pandas as pd

MAX_BITS, MAX_WIDTHS = 64, 16
"""Widest expert, and most widths of a table of losses."""

MAX_ALL_EXPERTS = 2**18
"""Experts of all layers of such a table: sums of so many losses stay below 2**60."""

Count = Annotated[int, Field(strict=True, ge=0, le=MAX_NUMBER)]
"""A plain count or an index."""

Nanoseconds = Annotated[int, Field(strict=True, ge=0, le=MAX_NUMBER)]
"""A duration; fields of this type end in ``_ns``."""

LARGEST_SUM = 2**60
"""Largest sum that the numbers of an instance may form, weights included: beside it there is room
for a difference and a sign in int64, and for the threefold that models allow their variables."""

DEEPEST = 16
"""No data of a problem are nested deeper."""

MANY_VALUES = 6
"""Up to so many different values are counted when a solution is printed, or the first shown."""

Flag = Annotated[bool, Field(strict=True)]

Name = Annotated[
    str, Field(strict=True, min_length=1, max_length=200, pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")
]
"""A name; no line breaks and no control characters, which could forge a terminal's output."""


E = TypeVar("E", bound=Any)
"""A row of an instance that bears an expert's number."""


def absent(value: object) -> bool:
    """Tell whether an optional field is left out; such a field is not written to files."""
    return value is None


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
                raise input_error(error, model=type(self)) from None

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
                raise input_error(error, model=cls) from None


@contextmanager
def validated(
    where: object = None, model: type[BaseModel] | None = None, before: str = ""
) -> Iterator[None]:
    """Turn a failed validation into an error of input.

    Parameters
    ----------
    where
        File or command; None: nothing stands before the field.
    model
        Class that is validated; see `moeopt.core.wording.input_error`.
    before
        Path to what is validated, e.g. ``part[0].``.
    """
    try:
        yield
    except ValidationError as error:
        raise input_error(error, where, model, before) from None


def plain(value: object, depth: int = 0) -> Any:
    """Return Python data without NumPy: its scalars and arrays become Python's own and lists."""
    if isinstance(value, dict) and depth < DEEPEST:
        return {plain(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple) and depth < DEEPEST:
        return [plain(item, depth + 1) for item in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


@dataclass(frozen=True)
class Sum:
    """A sum of an instance's numbers that is bounded, where the limits of its fields do not do it.

    Attributes
    ----------
    field
        The field that the refusal names.
    what
        The sum, in words.
    name
        The instance's attribute that has its largest value over all solutions.
    most
        What that may be.
    """

    field: str
    what: str
    name: str
    most: int = LARGEST_SUM

    def check(self, instance: object) -> None:
        """Refuse an instance whose sum is larger."""
        total = getattr(instance, self.name)
        if total > self.most:
            reason = f"{self.what} could sum to {total}; {self.most} is the most"
            raise field_error([self.field], reason)


def _with_bounded_sums(instance: "InstanceEnvelope") -> "InstanceEnvelope":
    for each in instance.SUMS:
        each.check(instance)
    return instance


class InstanceEnvelope(Data):
    """Fields shared by the instances of all problems.

    Files of `schema_version` 1 and 2 are read alike, and what they lack is absent; 2 is written
    where a field is stated that files of version 1 do not have.

    A problem's ``Instance`` narrows `problem` to its own name and adds its data. Without a `name`
    an instance made in code is called after the problem and a hash of its data: solutions of
    another one are not taken for its own. Files state a name.
    """

    TABLES: ClassVar[tuple[Table, ...]] = ()
    """Which of its fields `from_arrays` takes as arrays."""

    SUMS: ClassVar[tuple[Sum, ...]] = ()
    """Which sums of its numbers are bounded, looked at when all else is valid."""

    FORMER: ClassVar[Mapping[str, object]] = {}
    """Fields that files may have from earlier versions, each with the one value that is read: the
    value that says nothing. They are never written."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of `Data`, and let the sums be looked at after all other rules.

        A validator of this class would come before those of the problem's.
        """
        schema = super().__get_pydantic_core_schema__(source, handler)
        return core_schema.no_info_after_validator_function(_with_bounded_sums, schema)

    problem: str
    schema_version: Annotated[int, Field(strict=True, ge=1, le=1)] = 1
    name: Name = ""
    provenance: JsonObject | None = None
    quantum_ns: Annotated[int, Field(strict=True, ge=1, le=MAX_NUMBER)] | None = None

    def to_frame(self, table: str | None = None) -> "pd.DataFrame":
        """Return a list of the instance's data as a pandas frame, a row per item.

        Short lists of an item are columns with a number behind, long ones have a row per entry, of
        number ``entry``; lists in lists have columns ``axis_0``, ``axis_1``, ... for the way to
        each row.

        Parameters
        ----------
        table
            The field; by default the one with the most entries, such as ``experts``.

        Raises
        ------
        InputError
            If the instance has no such list.

        Examples
        --------
        >>> import moeopt
        >>> folder = "instances/tri_domain/esft-window"
        >>> frame = moeopt.load(f"{folder}/window-law-layer4-batch256.json").to_frame()
        >>> len(frame), int(frame.tokens.max())
        (64, 59)
        """
        from moeopt.core.frames import to_frame

        return to_frame(self, table)

    @classmethod
    def _of_arrays(cls, arguments: dict[str, object]) -> Self:
        """Return the instance of what `from_arrays` was given, as its local variables."""
        given = {
            name: value for name, value in arguments.items() if name != "cls" and value is not None
        }
        fields: dict[str, Any] = cls._arranged(given)
        try:
            return cls(**fields)
        except InputError as error:
            field = None if error.field is None else as_argument(error.field)
            raise InputError(error.reason, field=field, suggestion=error.suggestion) from None

    @classmethod
    def _arranged(cls, given: dict[str, object]) -> dict[str, object]:
        """Return fields of the instance for a caller's arguments, which it may take apart."""
        for table in cls.TABLES:
            row: type[BaseModel] = get_args(cls.model_fields[table.name].annotation)[0]
            mine = {name: given.pop(name) for name in _own(row, cls) if name in given}
            given[table.name] = table.rows(row, table.columns(row, mine))
        return given

    def restated(self, **fields: object) -> Self:
        """Return a copy that states other values, of the version that these make it."""
        copied = self.model_copy(update=fields)
        return copied.model_copy(update={"schema_version": 2 if copied.says_newer() else 1})

    def without_rule(self, rule: str) -> Self | None:
        """Return the instance to which a rule says nothing; None if no instance is like that."""
        return None

    def says_newer(self) -> bool:
        """Tell whether it states a field that files of version 1 do not have."""
        rows = [value for _, value in self if isinstance(value, tuple)]
        parts = [part for of in rows for part in of if isinstance(part, BaseModel)]
        return any(
            not absent(getattr(model, name))
            for model in (self, *parts)
            for name, absent in _left_out(type(model)).items()
        )

    @model_validator(mode="before")
    @classmethod
    def _without_former_fields(cls, data: object) -> object:
        """Leave out fields of earlier versions that say nothing, and refuse those that do."""
        if not isinstance(data, Mapping) or cls.FORMER.keys().isdisjoint(data):
            return data
        for name, silent in cls.FORMER.items():
            if name in data and plain(data[name]) != silent:
                reason = f"is no longer supported: leave it out, or let it be {kind_of(silent)}"
                raise field_error([name], reason)
        return {name: value for name, value in data.items() if name not in cls.FORMER}

    @model_validator(mode="after")
    def _has_a_version_and_a_name(self) -> Self:
        if self.schema_version == 1 and self.says_newer():
            self.__dict__["schema_version"] = 2
        if "name" not in self.model_fields_set:
            digest = hashlib.sha256(self.model_dump_json().encode()).hexdigest()
            self.__dict__["name"] = f"{self.problem}-{digest[:8]}"
            self.model_fields_set.add("name")
        return self

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, as pydantic does; one of other data forgets what was derived before."""
        copied = super().model_copy(update=update, deep=deep)
        if set(update or ()) - {"name", "provenance"}:
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
        names: tuple[str, ...] = package.PROBLEM.minimises()
        return names

    def __repr__(self) -> str:
        objective = self.minimises()
        minimised = ", then ".join(objective)
        return f"<{self.problem} instance {self.name!r}: {self.size()}; minimises {minimised}>"

    __str__ = __repr__


def _own(row: type[BaseModel], instance: type[BaseModel]) -> list[str]:
    """Return the fields of a row by which no field of the instance is called."""
    return [name for name in row.model_fields if name not in instance.model_fields]


@cache
def _left_out(model: type[BaseModel]) -> dict[str, Callable[[object], bool]]:
    """Return the fields that are not written to files where a condition holds, with it."""
    fields = model.model_fields.items()
    return {name: info.exclude_if for name, info in fields if info.exclude_if is not None}


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


def _in_short(decision: object) -> str:
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


def field_error(
    at: Sequence[str | int], reason: str, suggestion: str | None = None
) -> PydanticCustomError:
    """Return the error for a rule between fields, pointing at a field below the validated one.

    Parameters
    ----------
    at
        Path from the field being validated to the culprit, e.g. ``[3, "dimm"]``.
    reason
        What is wrong and what would be right. Braces are not allowed.
    suggestion
        What was probably meant, for `InputError.suggestion`.
    """
    context = {"at": list(at), "reason": reason, "suggestion": suggestion}
    return PydanticCustomError("field", "{reason}", context)


def distinct(experts: tuple[E, ...]) -> tuple[E, ...]:
    """Return the rows of the field ``experts``, of which no two may bear one number."""
    first: dict[int, int] = {}
    for row, expert in enumerate(experts):
        if expert.expert in first:
            reason = f"{expert.expert} stands already in experts[{first[expert.expert]}]"
            raise field_error([row, "expert"], reason)
        first[expert.expert] = row
    return experts


def check_pair(instance: InstanceEnvelope, solution: SolutionEnvelope) -> None:
    """Raise an `InputError` if a solution is not one, or not of this instance."""
    hint = " (moeopt.load reads a file)" if isinstance(instance, str | Path) else ""
    expect("instance", instance, InstanceEnvelope, what=f"an instance{hint}")
    expect("solution", solution, SolutionEnvelope, what="a solution")
    for field, theirs, ours in (
        ("problem", solution.problem, instance.problem),
        ("instance", solution.instance, instance.name),
    ):
        if theirs != ours:
            raise InputError(f"the solution is for {theirs!r}, not for {ours!r}", field=field)
