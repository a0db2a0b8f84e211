"""A CP-SAT model as a MILP: every row is written once, in integers, and scaled here for floats.

Binaries stay binaries and what a model names in `whole` stays whole. Other variables become
continuous, in units that keep numbers small, since MILP solvers work to absolute tolerances of
1e-6. A row of binaries, or of whole numbers with large coefficients, that is scaled goes half-way
to the next sum there is, which floats cannot blur. A row under conditions gets a big number, the
smallest that the variables' limits allow.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import gcd, inf
from typing import Any, ClassVar

import numpy as np

from .errors import InputError
from .formulation import FLOAT_RANGE, Formulation
from .rows import divided
from .safe_bound import Program, SparseRows

LARGEST = 10**4
"""Continuous variables are counted in units, powers of ten, that keep them within this."""

LARGEST_SUM = 2**53
"""Of a row: a double holds every whole number up to it."""

COEFFICIENT = 10**3
"""Likewise the coefficients of rows of binaries, such as bytes."""

NEAR = 1e-6
"""Added to a known objective: a limit that just fits makes solvers in floats call it infeasible."""

ROWS_AT_ONCE = 200
"""Rows that are turned, in some 0.02 s, between two looks at the limit."""

KINDS = ("linear", "bool_or", "bool_and", "exactly_one", "at_most_one")
"""The rows of CP-SAT's that can be turned into rows of a MILP."""


class InFloats(Formulation):
    """Mixed in before a problem's CP-SAT model, it makes that a MILP as soon as it is posted.

    Attributes
    ----------
    model
        The CP-SAT model, and once posted the `IntegerProgram`.
    objective_unit
        What is minimised, per unit of the model's objective.
    """

    parameters: ClassVar[dict[str, object]] = {}
    model: Any
    objective_unit: int

    def post(
        self, without: Collection[str] = (), checkpoint: Callable[[], None] = lambda: None
    ) -> None:
        """Post every constraint but those in `without`, then turn the model into a MILP."""
        self.model = self.in_integers(without, checkpoint)
        self.objective_unit *= self.model.objective_unit

    def in_integers(
        self, without: Collection[str] = (), checkpoint: Callable[[], None] = lambda: None
    ) -> "IntegerProgram":
        """Post every constraint but those in `without`; return the rows in integers."""
        self.look = checkpoint
        ids = [""] * len(self.model.proto.constraints)
        for constraint, method in self.constraints().items():
            if constraint not in without:
                checkpoint()
                getattr(self, method)()
                more = len(self.model.proto.constraints) - len(ids)
                ids += [constraint.replace("-", "_")] * more
        checkpoint()
        program = IntegerProgram(self.model.proto, tuple(self.whole))
        for number, row in enumerate(self.model.proto.constraints):
            if number % ROWS_AT_ONCE == 0:
                checkpoint()
            program.convert(row, ids[number])
        program.name_the_rest()
        return program

    def start_from(self, solution: Any, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.model.no_worse = objective * (1 + NEAR) / self.objective_unit

    def decode(self, value: Callable[[Any], int]) -> Any:
        """Read the decision off the values of the variables, which `value` finds by number."""
        model: Any = super()
        return model.decode(lambda variable: value(variable.index))


def in_floats(model: type[Formulation]) -> type[Formulation]:
    """Return the class of the MILP model with the rows of a class of CP-SAT models."""
    return type("Model", (InFloats, model), {"__doc__": model.__doc__})


@dataclass(frozen=True)
class IntegerRow:
    """A sum of ``coefficient * x`` is at least, at most or exactly a number (sign 1, -1 or 0).

    Coefficients are of the CP-SAT model's variables, by number. The number is half of
    `twice_the_side`: some sides lie half-way between two sums. The MILP has all divided by `unit`.
    """

    name: str
    terms: dict[int, int]
    sign: int
    twice_the_side: int
    unit: int


class IntegerProgram:
    """The MILP of a posted model, row by row; variables whose names begin so are whole numbers.

    Attributes
    ----------
    names
        Names of the variables, as LP files allow them.
    low, high, kept, unit
        Of each, its ends, whether it stays a whole number, and of how many one is in the MILP.
    rows
        In the order in which the MILP has them.
    costs, offset, objective_unit
        The objective's coefficients by variable; the MILP has all divided by the unit.
    no_worse
        Largest objective that is looked for, in the MILP's units; None: any.
    """

    def __init__(self, proto: Any, whole: tuple[str, ...]) -> None:
        domains = [list(of.domain) for of in proto.variables]  # which has no negative indices
        self.low, self.high = [of[0] for of in domains], [of[-1] for of in domains]
        binary = [ends == (0, 1) for ends in zip(self.low, self.high, strict=True)]
        names = [of.name for of in proto.variables]
        self.names = [_plain(name or f"v{n}") for n, name in enumerate(names)]
        self.kept = [one or of.startswith(whole) for one, of in zip(binary, names, strict=True)]
        self.unit = [
            1 if one else power_of_ten(high, LARGEST)
            for one, high in zip(self.kept, self.high, strict=True)
        ]
        self.rows: list[IntegerRow] = []
        self.free = set(range(len(names)))
        self.count = dict[str, int]()
        goal = proto.objective
        self.costs: dict[int, int] = dict(zip(goal.vars, goal.coeffs, strict=True))
        self.offset = int(goal.offset)
        costs = sum(abs(c) for v, c in self.costs.items() if binary[v])
        units = [self.unit[v] for v in self.costs]
        self.objective_unit = max(units, default=1) * power_of_ten(costs, FLOAT_RANGE)
        self.no_worse: float | None = None

    def in_floats(self, checkpoint: Callable[[], None] = lambda: None) -> Program:
        """Return the MILP as arrays of doubles, columns and rows in the order of this program.

        A limit of the objective comes last. `row_names` has the names of all rows.

        Raises
        ------
        InputError
            If doubles do not hold the sums of a row.
        """
        data: list[float] = []
        index: list[int] = []
        start, lower, upper = [0], list[float](), list[float]()

        def add(terms: dict[int, int], unit: int, least: float, most: float) -> None:
            kept = [v for v, c in terms.items() if c]
            index.extend(kept)
            data.extend(terms[v] * self.unit[v] / unit for v in kept)
            start.append(len(index))
            lower.append(least)
            upper.append(most)

        for number, row in enumerate(self.rows):
            if number % ROWS_AT_ONCE == 0:
                checkpoint()
            self._refuse_inexact(row)
            side = row.twice_the_side / (2 * row.unit)
            least = -inf if row.sign < 0 else side
            add(row.terms, row.unit, least, inf if row.sign > 0 else side)
        cost, constant = np.zeros(len(self.names)), self.offset / self.objective_unit
        for v, c in self.costs.items():
            cost[v] = c * self.unit[v] / self.objective_unit
        if self.no_worse is not None:
            add(self.costs, self.objective_unit, -inf, self.no_worse - constant)
        return Program(
            cost=cost,
            lower=np.array([n / unit for n, unit in zip(self.low, self.unit, strict=True)]),
            upper=np.array([n / unit for n, unit in zip(self.high, self.unit, strict=True)]),
            integer=np.array(self.kept, dtype=np.int64),
            rows=SparseRows(
                np.array(data, float),
                np.array(index, np.int64),
                np.array(start, np.int64),
                (len(lower), len(self.names)),
            ),
            row_lower=np.array(lower, float),
            row_upper=np.array(upper, float),
            constant=constant,
        )

    @property
    def row_names(self) -> list[str]:
        """The names of the rows of `in_floats`: constraint ID and number."""
        return [row.name for row in self.rows] + ["no_worse"] * (self.no_worse is not None)

    def _refuse_inexact(self, row: IntegerRow) -> None:
        """Refuse a row whose sums floats do not hold."""
        most = sum(abs(c) * max(-self.low[v], self.high[v]) for v, c in row.terms.items())
        if most > LARGEST_SUM:
            constraint = "-".join(row.name.split("_")[:-1])
            raise InputError(
                f"{constraint} has sums up to {most}; floats hold whole"
                f" numbers up to {LARGEST_SUM} only. Method cp-sat computes in integers",
                field="milp",
            )

    def name_the_rest(self) -> None:
        """Add a row that names the variables that no other does: LP files would forget them."""
        if self.free:
            unit = max(self.unit[n] for n in self.free)
            lots = {n: unit // self.unit[n] for n in sorted(self.free)}
            most = sum(lot * self.high[n] for n, lot in lots.items())
            self.rows.append(IntegerRow("known_variables", lots, -1, 2 * most, unit))

    def convert(self, row: Any, constraint_id: str) -> None:
        """Add a row of the CP-SAT model; one of no constraint is named after its kind."""
        kind = next(kind for kind in KINDS if getattr(row, f"has_{kind}")())
        constraint_id = constraint_id or kind
        of, conditions = getattr(row, kind), list(row.enforcement_literal)
        if kind == "linear":
            terms = dict[int, int]()
            for variable, coefficient in zip(of.vars, of.coeffs, strict=True):
                terms[variable] = terms.get(variable, 0) + coefficient
            least, *_, most = of.domain
            self._within(terms, (least, most), conditions, constraint_id)
            return
        literals = list(of.literals)
        for part in [[literal] for literal in literals] if kind == "bool_and" else [literals]:
            terms, negated = _summed(part)
            least = 0 if kind == "at_most_one" else 1
            most = len(part) if kind == "bool_or" else 1
            self._within(terms, (least - negated, most - negated), conditions, constraint_id)

    def _within(
        self, terms: dict[int, int], sides: tuple[int, int], conditions: Sequence[int], at: str
    ) -> None:
        """Add that a sum is between two numbers where all conditions hold."""
        ends = [(c * self.low[v], c * self.high[v]) for v, c in terms.items()]
        least, most = sum(map(min, ends)), sum(map(max, ends))
        if sides[0] == sides[1] and not conditions and (terms or sides[0]):
            self._add(terms, sides[0], 0, at)
            return
        fails, negated = _summed([-literal - 1 for literal in conditions])
        for side, end, sign in ((sides[0], least, 1), (sides[1], most, -1)):
            if sign * (side - end) > 0:
                lifted = dict(terms)
                for variable, c in fails.items():
                    lifted[variable] = lifted.get(variable, 0) + (side - end) * c
                self._add(lifted, side - (side - end) * negated, sign, at)

    def _add(self, terms: dict[int, int], side: int, sign: int, at: str) -> None:
        """Add that a sum is at least (sign 1), at most (-1) or exactly (0) a number."""
        self.free -= terms.keys()
        if all(self.kept[v] for v in terms):
            terms, side = divided(terms, side, sign)
        number = self.count[at] = self.count.get(at, -1) + 1
        unit, twice = max((self.unit[v] for v in terms), default=1), 2 * side
        largest = max(map(abs, terms.values()), default=1)
        binary = all((self.low[v], self.high[v]) == (0, 1) for v in terms)
        if binary or (largest > FLOAT_RANGE and all(self.kept[v] for v in terms)):
            unit = power_of_ten(largest, COEFFICIENT)
            step = gcd(*terms.values()) or 1
            if unit > 1 and sign:
                twice = (-2 * sign * (-sign * side // step) - sign) * step
        self.rows.append(IntegerRow(f"{at}_{number}", terms, sign, twice, unit))


def _summed(literals: Sequence[int]) -> tuple[dict[int, int], int]:
    """Return a sum of literals as terms, and how many are negated; -n - 1 negates variable n."""
    terms, negated = dict[int, int](), 0
    for literal in literals:
        variable, sign = (literal, 1) if literal >= 0 else (-literal - 1, -1)
        terms[variable] = terms.get(variable, 0) + sign
        negated += sign < 0
    return terms, negated


def power_of_ten(largest: int, most: int) -> int:
    """Return the least power of ten of which `largest` is at most `most` times as much."""
    unit = 1
    while largest > most * unit:
        unit *= 10
    return unit


def _plain(name: str) -> str:
    """Return a variable's name as LP files allow it: ``on[3,1]`` is ``on_3_1``."""
    return name.replace("[", "_").replace(",", "_").replace("]", "")
