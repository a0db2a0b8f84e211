"""The errors and warnings that the project raises on purpose, errors with their exit codes."""

from collections.abc import Iterator
from contextlib import contextmanager


class MoeoptError(Exception):
    """Base of every error that is meant for a user's eyes."""

    exit_code = 1


class InputError(MoeoptError):
    """A file, field or option that cannot be used; the message is one line that says why."""

    exit_code = 2


class ModelMismatchError(MoeoptError):
    """A method's answer and the checker disagree: a bug in a model, never a result."""

    exit_code = 5


class MoeoptWarning(UserWarning):
    """Input that can be used but may mislead; the command line prints it as one line."""


def expect(name: str, value: object, *kinds: type, what: str) -> None:
    """Refuse an argument of another type.

    Parameters
    ----------
    name, value
        The argument.
    kinds
        The types that it may be of.
    what
        They in words, e.g. "a path".

    Raises
    ------
    InputError
        If it is of none of them; the message names the argument.
    """
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        text = repr(value)
        value_text = f" {text}" if len(text) <= 40 and "\n" not in text else ""
        raise InputError(f"{name}: must be {what}, not {type(value).__name__}{value_text}")


@contextmanager
def about(what: object) -> Iterator[None]:
    """Put what an error of input is about, such as a file, before its message."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{what}: {error}") from None
