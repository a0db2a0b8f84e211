"""Descent over the moves of `neighbourhood`, in slices that return soon."""

from moeopt.numeric.compiled import compiled

from .neighbourhood import NOBODY, Costs, Integers, State, move, value
from .paths import STRIPED


@compiled
def allowed(at: State, i: int, resident: bool, dimm: int) -> bool:
    """Tell whether there is a slot for an expert's new layout."""
    if resident and not at.resident[i] and at.free[0] <= 0:
        return False
    return bool(dimm == STRIPED or dimm == at.dimm[i] or at.free[1 + dimm] > 0)


@compiled
def descend(costs: Costs, at: State, rows: Integers, cursor: Integers, evaluations: int) -> int:
    """Go on with the descent and return how many moves were evaluated, about `evaluations`.

    Parameters
    ----------
    rows
        The experts that have tokens.
    cursor
        Where in `rows` the descent is, and for how many of them in a row nothing was gained: as
        many as there are means a local optimum.
    """
    used = 0
    while used < evaluations and cursor[1] < len(rows):
        i = rows[cursor[0]]
        used += len(at.free) * 2
        gained = _move_best(costs, at, i)
        for later in range(cursor[0] + 1, len(rows)):
            j = rows[later]
            if at.dimm[i] == at.dimm[j] and at.resident[i] == at.resident[j]:
                continue
            used += 1
            spans, squares = value(costs, at, i, at.resident[j], at.dimm[j], j)
            if spans < 0 or (spans == 0 and squares < 0):
                move(costs, at, i, at.resident[j], at.dimm[j], j)
                gained = True
        cursor[0] = (cursor[0] + 1) % len(rows)
        cursor[1] = 0 if gained else cursor[1] + 1
    return used


@compiled
def _move_best(costs: Costs, at: State, i: int) -> bool:
    """Give an expert its best layout; tell whether that gains anything."""
    best_spans, best_squares, best_resident, best_dimm = 0.0, 0.0, False, STRIPED
    found = False
    for dimm in range(STRIPED, len(at.free) - 1):
        for resident in (False, True):
            if allowed(at, i, resident, dimm):
                spans, squares = value(costs, at, i, resident, dimm, NOBODY)
                if spans < best_spans or (spans == best_spans and squares < best_squares):
                    best_spans, best_squares = spans, squares
                    best_resident, best_dimm = resident, dimm
                    found = True
    if found:
        move(costs, at, i, best_resident, best_dimm, NOBODY)
    return found
