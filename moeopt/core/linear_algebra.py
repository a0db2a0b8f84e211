"""NumPy's linear algebra in one thread, for commands that end within a second."""

import os

THREADS = "OPENBLAS_NUM_THREADS"
"""Environment variable that OpenBLAS reads when it is loaded."""


def import_in_one_thread() -> None:
    """Import NumPy without the threads of its linear algebra, which wait in a busy loop at first.

    They cost 0.1 CPU s, and a plan or a prediction multiplies no large matrices. Nothing changes if
    NumPy is imported already, or if the environment says how many threads there are.
    """
    if THREADS in os.environ:
        return
    os.environ[THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[THREADS]  # processes that this one starts choose by themselves
