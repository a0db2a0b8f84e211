"""Loggers of the package, below ``moeopt``: silent unless a program gives them a handler.

INFO is a line for each phase, DEBUG engines' parameters and claims. `logging` is imported with the
first module that logs, as importing it takes longer than importing `moeopt`; until then there is
nothing that the handler here could keep silent.
"""

import logging

logging.getLogger("moeopt").addHandler(logging.NullHandler())


def logger_of(module: str) -> logging.Logger:
    """Return the logger of a module, by its ``__name__``."""
    return logging.getLogger(module)


def one_line(text: object) -> str:
    """Return parameters of an engine, which it prints on several lines, on one."""
    return " ".join(str(text).split())
