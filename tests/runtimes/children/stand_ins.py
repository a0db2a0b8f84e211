"""Modules that stand in for what a runtime's module imports but does not need here."""

import sys
from types import ModuleType
from typing import Any


def stand_in(name: str, **names: Any) -> ModuleType:
    """Make a module of this name, and the packages that it is in, importable."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        whole = ".".join(parts[:end])
        if whole not in sys.modules:
            sys.modules[whole] = ModuleType(whole)
            sys.modules[whole].__path__ = []  # type: ignore[attr-defined]
    module = sys.modules[name]
    module.__dict__.update(names)
    return module
