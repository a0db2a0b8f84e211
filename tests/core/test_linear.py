"""A CP-SAT model in floats: its rows hold exactly where those of the model do."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from ortools.sat.python import cp_model
from scipy.sparse import csr_array

from moeopt import InputError
from tests.rooms.core import InFloats, Program
from tests.rooms.solvers import to_pulp

BIG = 123_456


class Rows:
    """Every kind of row that is converted, over three binaries and a number up to 9 * BIG."""

    def __init__(self, _: object = None) -> None:
        self.model, self.objective_unit = cp_model.CpModel(), 7
        self.a, self.b, self.c = (self.model.new_bool_var(f"x[{n}]") for n in range(3))
        self.n = self.model.new_int_var(0, 9 * BIG, "n")
        self.model.minimize(3 * self.n + 5 * self.a + 2)

    def xx_c1_rows(self) -> None:
        """Post one of each."""
        a, b, c, n, model = self.a, self.b, self.c, self.n, self.model
        model.add(n >= BIG * a + 2 * BIG * b).only_enforce_if(c, ~b)
        model.add(n <= 4 * BIG).only_enforce_if(~c)
        model.add_bool_or(a, ~b, c)
        model.add_implication(a, ~c)
        model.add_at_most_one([a, b])
        model.add(1_000_003 * a + 2_000_006 * b <= 2_000_005)


class Milp(InFloats, Rows):
    """The same in floats."""


def holds(a: int, b: int, c: int, n: int) -> bool:
    """Tell whether all rows hold, by their words."""
    return (
        not (c and not b and n < BIG * a + 2 * BIG * b)
        and not (not c and n > 4 * BIG)
        and bool(a or not b or c)
        and not (a and c)
        and a + b <= 1
        and 1_000_003 * a + 2_000_006 * b <= 2_000_005
    )


def test_rows_hold_where_they_should() -> None:
    """All binaries, and numbers at every step: the MILP's rows say what the words say."""
    milp: Any = Milp(None)
    milp.post()
    program, names = milp.model.in_floats(), milp.model.names
    unit = 9 * BIG / program.upper[names.index("n")]
    rows = matrix(program)
    seen = set()
    for *flags, n in product((0, 1), (0, 1), (0, 1), range(0, 9 * BIG + 1, BIG)):
        of = dict(zip(("x_0", "x_1", "x_2"), flags, strict=True)) | {"n": n / unit}
        value = np.array([of[name] for name in names])
        sums = rows @ value
        kept = bool(
            (sums > program.row_lower - 1e-6).all() and (sums < program.row_upper + 1e-6).all()
        )
        assert kept == holds(*flags, n), (flags, n)
        seen.add(kept)
        objective = program.cost @ value + program.constant
        assert round(objective * milp.objective_unit) == 7 * (3 * n + 5 * flags[0] + 2)
    assert seen == {True, False}


def matrix(program: Program) -> Any:
    """Return the rows of a program as a dense matrix."""
    rows = program.rows
    return csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape).toarray()


def test_rows_keep_the_id_of_their_constraint() -> None:
    """Also in the LP file; a limit of the objective comes last."""
    milp: Any = Milp(None)
    milp.post()
    milp.start_from(None, 7 * 16)
    program, names = milp.model.in_floats(), milp.model.row_names
    assert {name.rsplit("_", 1)[0] for name in names[:-1]} >= {"XX_C1"}
    assert names[-1] == "no_worse"
    limit = (program.row_upper[-1] + program.constant) * milp.objective_unit
    assert limit == pytest.approx(7 * 16, rel=2e-6)
    assert limit > 7 * 16
    rows = to_pulp(program, milp.model.names, names).constraints()
    assert [row.name for row in rows] == names


class Heavy:
    """A row of two binaries, and their objective."""

    def __init__(self, bytes_each: int) -> None:
        self.model, self.objective_unit = cp_model.CpModel(), 1
        self.a, self.b = (self.model.new_bool_var(f"x[{n}]") for n in range(2))
        self.bytes = bytes_each
        self.model.minimize(self.a)

    def xx_c1_bytes(self) -> None:
        """Post that both do not fit."""
        self.model.add(self.bytes * self.a + 3 * self.bytes * self.b <= 4 * self.bytes - 1)


class HeavyMilp(InFloats, Heavy):
    """The same in floats."""


def test_a_row_is_divided_before_it_is_scaled() -> None:
    """By the coefficients' divisor, the side to the inside: it is exact in floats then."""
    milp: Any = HeavyMilp(10**15)
    milp.post()
    program, number = milp.model.in_floats(), milp.model.row_names.index("XX_C1_0")
    assert sorted(matrix(program)[number]) == [1, 3]
    assert program.row_upper[number] == 3


def test_a_row_that_floats_do_not_hold_is_refused() -> None:
    """In one line with the constraint, above 2**53."""

    class TooHeavy(HeavyMilp):
        def xx_c1_bytes(self) -> None:
            """Post a row without common divisor."""
            self.model.add(self.bytes * self.a + (self.bytes + 1) * self.b <= self.bytes)

    largest: Any = TooHeavy((2**53 - 1) // 2)
    largest.post()
    largest.model.in_floats()
    milp: Any = TooHeavy(2**52)
    milp.post()
    with pytest.raises(InputError, match=r"^milp: XX-C1 has sums up to \d+; .* cp-sat "):
        milp.model.in_floats()


def test_rows_in_integers_hold_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where doubles do not tell a sum from the next."""
    large = 2**51 + 1
    monkeypatch.setitem(Rows.xx_c1_rows.__globals__, "BIG", large)
    rows = Milp(None).in_integers().rows
    seen = set()
    for *flags, step, off in product((0, 1), (0, 1), (0, 1), range(10), (-1, 0, 1)):
        n = min(max(step * large + off, 0), 9 * large)
        sums = [sum(c * (*flags, n)[v] for v, c in row.terms.items()) for row in rows]
        kept = all(
            2 * of == row.twice_the_side
            if row.sign == 0
            else row.sign * 2 * of >= row.sign * row.twice_the_side
            for row, of in zip(rows, sums, strict=True)
        )
        assert kept == holds(*flags, n), (flags, n)
        seen.add(kept)
    assert seen == {True, False}
