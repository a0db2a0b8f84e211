"""Interrupts that native code hides."""

import pytest

from tests.rooms.core import interrupts_kept


def hidden(cause: BaseException) -> None:
    """Raise what CPython raises where native code returned with an exception set."""
    with interrupts_kept():
        try:
            try:
                raise cause
            except BaseException as inner:
                raise RuntimeError("in between") from inner
        except RuntimeError as error:
            raise SystemError("returned a result with an exception set") from error


def test_a_hidden_interrupt_is_one() -> None:
    """However deep it lies."""
    with pytest.raises(KeyboardInterrupt):
        hidden(KeyboardInterrupt())


def test_another_fault_stays_what_it_is() -> None:
    """A SystemError of another cause, and errors of other kinds."""
    with pytest.raises(SystemError):
        hidden(ValueError())
    with pytest.raises(ValueError, match="as it is"), interrupts_kept():
        raise ValueError("as it is")
