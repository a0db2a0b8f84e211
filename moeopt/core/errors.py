"""The errors and warnings that the project raises on purpose, errors with their exit codes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class MoeoptError(Exception):
    """Base of all errors that this package raises on purpose; the message is one line."""

    exit_code: ClassVar[int] = 1


class InputError(MoeoptError):
    """Wrong file, field, option or argument (exit code 2).

    The message is ``where: field: reason``, without the parts that are None.

    Parameters
    ----------
    reason
        What is wrong and what would be right, a suggestion included; the whole message where its
        parts are not known.
    where
        File or command that the field belongs to.
    field
        Key of the file, option or argument, as the user wrote it.
    suggestion
        Name that was probably meant.
    """

    exit_code: ClassVar[int] = 2

    def __init__(
        self,
        reason: str,
        *,
        where: object = None,
        field: str | None = None,
        suggestion: str | None = None,
    ) -> None:
        self.where = None if where is None else str(where)
        self.field, self.reason, self.suggestion = field, reason, suggestion
        super().__init__(": ".join(part for part in (self.where, field, reason) if part))

    def within(self, where: object) -> "InputError":
        """Return the same error about something in a file or command, which comes first."""
        place = where if self.where is None else f"{where}: {self.where}"
        return InputError(self.reason, where=place, field=self.field, suggestion=self.suggestion)


class HeuristicError(MoeoptError):
    """Failure of a heuristic: it raised, or returned no solution of the instance (exit code 2).

    What the heuristic raised is kept as ``__cause__``. Of a heuristic in a process of its own, that
    is its traceback in words (`HeuristicTraceback`).

    Parameters
    ----------
    reason
        What happened, on one line.
    heuristic
        The method's name, which begins the message.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, reason: str, heuristic: str | None = None) -> None:
        self.reason, self.heuristic = reason, heuristic
        super().__init__(f"{heuristic}: {reason}" if heuristic else reason)


class HeuristicTraceback(Exception):  # noqa: N818 - the cause of an error, never raised itself
    """Traceback of a heuristic that ran in another process; the text is its message."""


class InfeasibleError(MoeoptError):
    """Request for a plan, or its speed, that memory or constraints rule out (exit code 3).

    `moeopt.solve` and campaigns do not raise it: their results have the status "infeasible".
    """

    exit_code: ClassVar[int] = 3


class LimitError(MoeoptError):
    """Limit of time or memory that ended a request before any solution was known (exit code 4).

    `moeopt.solve` does not raise it: its result has the status "unknown".
    """

    exit_code: ClassVar[int] = 4


class ContradictionError(MoeoptError):
    """Contradicting claims, of which none stands: a bug, never a result (exit code 5)."""

    exit_code: ClassVar[int] = 5


class StoreError(MoeoptError):
    """Store of a campaign that cannot be opened, read or written (exit code 2)."""

    exit_code: ClassVar[int] = 2


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
        raise InputError(f"must be {what}, not {type(value).__name__}{value_text}", field=name)


@contextmanager
def about(what: object) -> Iterator[None]:
    """Put what an error of input is about, such as a file, before its message."""
    try:
        yield
    except InputError as error:
        raise error.within(what) from None
