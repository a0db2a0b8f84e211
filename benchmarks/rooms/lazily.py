"""Names that a room re-exports, each imported when it is first asked for.

A room is a module of `benchmarks.rooms` or `tests.rooms`: the one place where a benchmark or a test
learns in which module of the package a name is defined. Whoever moves a module changes its line
there and no test. Importing all of a room at once would load ortools, scipy and matplotlib into
every process that a test starts: 1 to 2 CPU seconds each.
"""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


def lazily(
    table: Mapping[str, Iterable[str]],
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a room.

    Parameters
    ----------
    table
        Module -> names in it. ``"module as name"`` offers the module itself under a name,
        ``"name as other"`` a name under another one.
    """
    places: dict[str, tuple[str, str]] = {}
    for key, names in table.items():
        module, _, itself = key.partition(" as ")
        if itself:
            places[itself] = (module, "")
        for one in names:
            name, _, other = one.partition(" as ")
            places[other or name] = (module, name)

    def get(name: str) -> object:
        if name not in places:
            raise AttributeError(f"the room has no name {name!r}")
        module, inside = places[name]
        found = import_module(module)
        return getattr(found, inside) if inside else found

    return get, lambda: sorted(places)
