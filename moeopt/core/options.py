"""Options of a function and of its command: name, type, default and help in one place.

A class of options is a frozen dataclass whose fields are made by `option`. A function takes it as a
whole, or field by field (`takes`); `moeopt.cli.options.command` makes a command line of it.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeVar, get_args

from moeopt.core.errors import InputError, expect

T = TypeVar("T")
OptionsT = TypeVar("OptionsT", bound="Options")
F = TypeVar("F", bound=Callable[..., object])


def option(
    default: T,
    help: str,
    *,
    read: Callable[[str, Any], object] | None = None,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    rare: bool = False,
    **shown: str,
) -> T:
    """Return a field of a class of options.

    Parameters
    ----------
    default, help
        What holds if it is not given; what it means, in a sentence.
    read
        Makes a value of what was given, from the field's name and it: text from a command line.
    least, above, most
        The range of a number: at least, above, at most.
    rare
        Whether a command's help leaves it to the reference page.
    shown
        ``flag`` and ``metavar`` on the command line, if not made of the name; ``group``, the
        heading in the command's help, if not the class's.
    """
    known = {"help": help, "read": read, "least": least, "above": above, "most": most}
    known["rare"] = rare
    names = {name: shown.get(name) for name in ("flag", "metavar", "group")}
    return field(default=default, metadata=known | names)


@dataclass(frozen=True)
class Options:
    """A class of options: what is given is read, and checked against the ranges."""

    group: ClassVar[str] = "Options"
    """Heading of the fields of this class in a command's help."""

    def __init_subclass__(cls) -> None:
        """Document the fields by their help."""
        super().__init_subclass__()
        lines = [
            f"{name}\n    {value.metadata['help']}"
            for name, value in vars(cls).items()
            if isinstance(value, Field) and "help" in value.metadata
        ]
        if lines:
            listed = "\n".join(["Attributes", "----------", *lines])
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{listed}\n"

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the fields that are not as by default."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name) != one.default)

    def __post_init__(self) -> None:
        """Raise InputError unless every value is in its range."""
        for one in fields(self):
            value, known = getattr(self, one.name), one.metadata
            if not known:
                continue
            if value is None:
                _check_type(one.name, value, one.type)
                continue
            if known["read"] is not None:
                value = known["read"](one.name, value)
                object.__setattr__(self, one.name, value)
            _check_type(one.name, value, one.type)
            _check(one.name, value, known["least"], known["above"], known["most"])


_KINDS: dict[object, tuple[type, str]] = {
    int: (Integral, "an integer"),
    float: (Real, "a number"),
    str: (str, "text"),
    bool: (bool, "True or False"),
    NoneType: (NoneType, "None"),
}
"""Type of an option -> what is taken for one, and in words; NumPy's numbers are numbers, too."""


def _check_type(name: str, value: object, declared: object) -> None:
    """Raise InputError unless a value is of a type that the option is declared with."""
    kinds = get_args(declared) if isinstance(declared, UnionType) else (declared,)
    if all(kind in _KINDS for kind in kinds):
        taken = [_KINDS[kind] for kind in kinds]
        words = " or ".join(text for kind, text in taken if kind is not NoneType)
        expect(name, value, *(kind for kind, _ in taken), what=words)


def with_given(
    kind: type[OptionsT], options: OptionsT | None, given: Mapping[str, object]
) -> OptionsT:
    """Return options, by default those of a class, with the fields changed that are given.

    Raises
    ------
    InputError
        If they are of another class, or a value is not allowed.
    """
    expect("options", options, kind, NoneType, what=f"moeopt's {kind.__name__}")
    return replace(options or kind(), **given)


def _check(
    name: str, value: object, least: float | None, above: float | None, most: float | None
) -> None:
    """Raise InputError unless a number is in its range, if it has one."""
    if least is None and above is None and most is None:
        return
    if least is not None and most is not None:
        words = f"from {least:g} to {most:g}"
    elif least is not None:
        words = f"at least {least:g}"
    else:
        words = f"above {above:g}"
    number = isinstance(value, int | float) and not isinstance(value, bool)
    inside = number and float("-inf" if least is None else least) <= value < float("inf")  # type: ignore[operator]
    inside = inside and (above is None or value > above) and (most is None or value <= most)  # type: ignore[operator]
    if not inside:
        raise InputError(f"must be {words}, not {value}", field=name)


def arguments_of(options: Options, function: Callable[..., object]) -> dict[str, Any]:
    """Return the options that a function takes, as its keyword arguments."""
    taken = inspect.signature(function).parameters
    return {one.name: getattr(options, one.name) for one in fields(options) if one.name in taken}


def takes(kind: type[Options]) -> Callable[[F], F]:
    """Let the signature of a function with ``**given`` name the fields of its options."""

    def with_fields(function: F) -> F:
        signature = inspect.signature(function)
        plain = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        made = [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default,
                              annotation=f.type)
            for f in fields(kind)
            if f.name not in signature.parameters
        ]  # fmt: skip
        shown = signature.replace(parameters=[*plain, *made])
        function.__signature__ = shown  # type: ignore[attr-defined]
        return function

    return with_fields
