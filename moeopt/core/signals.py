"""Signals during native code: those that wait for its end, and those that stop it."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")
"""Signals after which a command prints and saves the best so far."""


STOP_AGAIN_S = 0.05
"""Seconds between two calls of `stop`: the first may come before there is anything to stop."""

Came = list[tuple[int, FrameType | None]]
"""Signals that have come, in order."""


class _Held:
    """Keeps signals of `STOPPING` from their handlers, in the main thread; others run no handler.

    Blocking the signals in this thread would not do, as any other thread of the process takes them.
    """

    def __init__(self) -> None:
        self.came: Came = []
        self.handlers: dict[int, Callable[[int, FrameType | None], object]] = {}

    def begin(self) -> None:
        """Take the place of the handlers."""
        for name in STOPPING:
            number = getattr(signal, name, None)
            handler = None if number is None else signal.getsignal(number)
            if number is not None and callable(handler):
                self.handlers[number] = handler
                signal.signal(number, lambda *of: self.came.append(of))

    def end(self) -> None:
        """Give the handlers their place back."""
        for number, handler in self.handlers.items():
            signal.signal(number, handler)

    def hand_over(self) -> None:
        """Let the handler of the first signal run, which usually raises KeyboardInterrupt."""
        for number, frame in self.came[:1]:
            self.handlers[number](number, frame)


@contextmanager
def signals_wait() -> Iterator[None]:
    """Let Ctrl-C and its like come after the block, such as an import of native code.

    Cut short, that raises ImportError, and a second import fails as well.
    """
    held = _Held()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    try:
        held.begin()
        yield
    finally:
        held.end()
    held.hand_over()


@contextmanager
def signals_stop(stop: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Stop native code at Ctrl-C and its like.

    No handler of Python's runs while the main thread is in native code. So a thread hears of
    signals by Python's wakeup file descriptor, and calls `stop` until the block has ended, at which
    the thread ends, too.

    Parameters
    ----------
    stop
        Ends the native code soon; it is called from another thread.

    Yields
    ------
    Callable
        Lets the handler of the signal that came, if one did, run after the block.
    """
    held = _Held()
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    ended = False
    try:
        held.begin()  # before all else: what is begun here must not be cut short
        with _listening(held, stop):
            yield held.hand_over
        ended = True
    finally:
        held.end()
        if not ended:
            held.hand_over()


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raise KeyboardInterrupt where native code made a SystemError of it.

    A signal that comes while a kernel loads its code for other types is raised inside, and what
    called the kernel only says that it "returned a result with an exception set".
    """
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__
        if cause is None:
            raise
        raise KeyboardInterrupt from error


@contextmanager
def _listening(held: _Held, stop: Callable[[], None]) -> Iterator[None]:
    """Let a thread call `stop` when a signal comes that is held, until the block has ended."""
    heard, said = socket.socketpair()
    said.setblocking(False)
    before = signal.set_wakeup_fd(said.fileno(), warn_on_full_buffer=False)

    def listen() -> None:
        while numbers := _heard(heard):
            if before >= 0 and numbers != b"\0":
                os.write(before, numbers)
            if not held.handlers.keys().isdisjoint(numbers):
                heard.settimeout(STOP_AGAIN_S)
            if heard.gettimeout() is not None:
                stop()

    listening = threading.Thread(target=listen, daemon=True)
    try:
        listening.start()
        yield
    finally:
        signal.set_wakeup_fd(before)
        said.close()
        if listening.ident is not None:
            listening.join()
        heard.close()


def _heard(heard: socket.socket) -> bytes:
    """Return the numbers of signals that came; zero after a while, nothing at the end."""
    try:
        return heard.recv(64)
    except TimeoutError:
        return b"\0"
