"""The command line as a function, from which errors come out as they were raised."""

from collections.abc import Sequence

from tests.rooms.cli import build_app


def call(argv: Sequence[str]) -> int:
    """Run a command line and return its exit code; `InputError` passes through."""
    return int(build_app()(list(argv), exit_on_error=False, print_error=False) or 0)
