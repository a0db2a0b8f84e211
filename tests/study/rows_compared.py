"""What of a study's rows does not depend on the clock or on who solved them."""

from collections.abc import Iterable

from tests.rooms.study import GapRow


def timeless(rows: Iterable[GapRow]) -> list[tuple[object, ...]]:
    """Return key, family, status, objective, bound, optimum and facts of each row, sorted."""
    return sorted(
        (
            *(row.key, row.family, row.status, row.termination),
            *(row.objective, row.bound, row.optimum, sorted(row.facts.items())),
        )
        for row in rows
    )
