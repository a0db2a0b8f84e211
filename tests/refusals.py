"""Asking for a refusal: an InputError of one line that a terminal can print."""

from collections.abc import Callable
from typing import Any

import pytest

from moeopt import InputError
from tests.rooms.cli import run


def refused(call: Callable[..., Any], /, *arguments: Any, **named: Any) -> str:
    """Return what the InputError of a call says; it must be one printable line."""
    with pytest.raises(InputError) as caught:
        call(*arguments, **named)
    message = str(caught.value)
    assert message.isprintable()
    return message


def refused_command(
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int = 2,
    run: Callable[[list[str]], int] = run,
) -> str:
    """Return the one line on stderr of a command that fails with a code and prints nothing else."""
    capsys.readouterr()
    assert run(words) == code, words
    out, err = capsys.readouterr()
    [line] = err.splitlines()
    assert line.startswith("moeopt: error: "), line
    assert out == "", words
    return line
