"""Keep native code's prints off stdout, which belongs to results."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def native_stdout_to_stderr() -> Iterator[None]:
    """Send what native code prints on file descriptor 1 to stderr.

    HiGHS inside scipy prints a debug line now and then, which would end up in ``--json`` output.
    """
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
