"""Signals that wait: what cannot be cut short runs to its end first."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals after which a command prints and saves the best so far."""


@contextmanager
def signals_wait() -> Iterator[None]:
    """Let Ctrl-C and its like come after the block, such as an import of native code.

    Cut short, that raises ImportError, and a second import fails as well. Blocking the
    signals in this thread would not do, as any other thread of the process takes them.
    """
    if threading.current_thread() is not threading.main_thread():  # no handler runs here
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    before: dict[int, Callable[[int, FrameType | None], object]] = {}
    for name in STOPPING:
        number = getattr(signal, name, None)
        handler = None if number is None else signal.getsignal(number)
        if number is not None and callable(handler):
            before[number] = handler
            signal.signal(number, lambda *of: came.append(of))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number, frame in came[:1]:
        before[number](number, frame)
