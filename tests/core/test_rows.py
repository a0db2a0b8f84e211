"""Rows without a common divisor admit what the rows admitted, and nothing else."""

import random

import pytest
from ortools.sat.python import cp_model

from tests.rooms.core import divided, take_out_divisor
from tests.shares import shares

HOLDS = {1: int.__ge__, -1: int.__le__, 0: int.__eq__}


@pytest.mark.parametrize("seeds", shares(50, 200))
def test_divided_rows_hold_where_the_rows_hold(seeds: range) -> None:
    """For all values of three whole numbers, sides inside and outside, of either sign."""
    for seed in seeds:
        rng = random.Random(seed)
        step, sign = rng.choice([1, 2, 6, 35]), rng.choice([1, -1, 0])
        terms = {v: step * rng.randint(-9, 9) for v in range(3)}
        side = rng.randint(-300, 300)
        smaller, inside = divided(terms, side, sign)
        for _ in range(100):
            value = [rng.randint(-5, 5) for _ in terms]
            of, small = (sum(c * value[v] for v, c in row.items()) for row in (terms, smaller))
            assert HOLDS[sign](of, side) == HOLDS[sign](small, inside)


def test_rows_of_cp_sat_are_divided() -> None:
    """Both sides go inside; a row of an odd equation, of constants, or without divisor stays."""
    model = cp_model.CpModel()
    x, y = (model.new_int_var(0, 99, name) for name in "xy")

    def left(row: cp_model.Constraint) -> tuple[list[int], list[int]]:
        take_out_divisor(row)
        return list(row.proto.linear.coeffs), list(row.proto.linear.domain)

    assert left(model.add(6 * x - 9 * y <= 10)) == ([2, -3], [-(2**63), 3])
    assert left(model.add(6 * x - 9 * y >= 10)) == ([2, -3], [4, 2**63 - 1])
    assert left(model.add_linear_constraint(6 * x + 9 * y, 1, 10)) == ([2, 3], [1, 3])
    assert left(model.add(6 * x + 9 * y == 12)) == ([2, 3], [4, 4])
    assert left(model.add(6 * x + 9 * y == 10)) == ([6, 9], [10, 10])
    assert left(model.add(6 * x + 7 * y <= 10)) == ([6, 7], [-(2**63), 10])
    take_out_divisor(model.add(True))
