"""What of a study's rows does not depend on the clock or on who solved them."""

from collections.abc import Iterable

from tests.rooms.study import Row


def timeless(rows: Iterable[Row]) -> list[tuple[object, ...]]:
    """Return key, family, status, objective, bound, optimum and facts of each row, sorted."""
    return sorted(
        (
            *(row.key, row.family, row.result.status, row.result.termination),
            *(row.result.objective, row.result.bound, row.optimum, sorted(row.facts.items())),
        )
        for row in rows
    )
