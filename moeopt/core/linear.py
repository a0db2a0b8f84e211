"""A CP-SAT model as a MILP in PuLP: every row is written once, in integers, and scaled here.

Binaries stay binaries and what a model names in `whole` stays whole. Other variables become
continuous, in units that keep numbers small, since MILP solvers work to absolute tolerances of
1e-6. A row of binaries, or of whole numbers with large coefficients, that is scaled goes half-way
to the next sum there is, which floats cannot blur. A row under conditions gets a big number, the
smallest that the variables' limits allow.
"""

from collections.abc import Callable, Collection, Sequence
from math import gcd
from typing import Any, ClassVar, TypeVar

import pulp

from .errors import InputError
from .formulation import FLOAT_RANGE, Formulation
from .rows import divided

InstanceT = TypeVar("InstanceT")
ModelT = TypeVar("ModelT")

LARGEST = 10**4
"""Continuous variables are counted in units, powers of ten, that keep them within this."""

LARGEST_SUM = 2**53
"""Of a row: a double holds every whole number up to it."""

COEFFICIENT = 10**3
"""Likewise the coefficients of rows of binaries, such as bytes."""

NEAR = 1e-6
"""Added to a known objective: a limit that just fits makes solvers in floats call it infeasible."""

ROWS_AT_ONCE = 200
"""Rows that are turned, in some 0.03 s, between two looks at the limit."""

KINDS = ("linear", "bool_or", "bool_and", "exactly_one", "at_most_one")
"""The rows of CP-SAT's that can be turned into rows of a MILP."""


class InFloats(Formulation):
    """Mixed in before a problem's CP-SAT model, it makes that a MILP as soon as it is posted.

    Attributes
    ----------
    model
        The CP-SAT model, and once posted the PuLP problem.
    objective_unit
        What is minimised, per unit of the model's objective.
    units
        Of the variables by name, once posted: one is so many of the CP-SAT model's, a whole number.
    """

    parameters: ClassVar[dict[str, object]] = {}
    model: Any
    objective_unit: int
    units: dict[str, int]

    def post(
        self, without: Collection[str] = (), checkpoint: Callable[[], None] = lambda: None
    ) -> None:
        """Post every constraint but those in `without`, then turn the model into a MILP."""
        self.look = checkpoint
        ids = [""] * len(self.model.proto.constraints)
        for constraint, method in self.constraints().items():
            if constraint not in without:
                checkpoint()
                getattr(self, method)()
                more = len(self.model.proto.constraints) - len(ids)
                ids += [constraint.replace("-", "_")] * more
        checkpoint()
        rows = _Rows(self.model.proto, tuple(self.whole))
        for number, row in enumerate(self.model.proto.constraints):
            if number % ROWS_AT_ONCE == 0:
                checkpoint()
            rows.convert(row, ids[number])
        self.model, self._columns = rows.finished(), rows.columns
        self.units = dict(zip((of.name for of in rows.columns), rows.unit, strict=True))
        self.objective_unit *= rows.objective_unit

    def start_from(self, solution: Any, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        limit = objective * (1 + NEAR) / self.objective_unit
        self.model += self.model.objective + 0 <= limit, "no_worse"

    def decode(self, value: Callable[[Any], int]) -> Any:
        """Read the decision off the solver's values."""
        model: Any = super()
        return model.decode(lambda variable: value(self._columns[variable.index]))


def in_floats(model: Callable[[InstanceT], ModelT]) -> Callable[[InstanceT], ModelT]:
    """Return the class of the MILP model with the rows of a class of CP-SAT models."""
    if not isinstance(model, type):
        raise TypeError("a model is a class")
    return type("Model", (InFloats, model), {"__doc__": model.__doc__})


class _Rows:
    """The MILP of a posted model, row by row; variables whose names begin so are whole numbers."""

    def __init__(self, proto: Any, whole: tuple[str, ...]) -> None:
        self.milp = pulp.LpProblem("model", pulp.LpMinimize)
        domains = [list(of.domain) for of in proto.variables]  # which has no negative indices
        self.low, self.high = [of[0] for of in domains], [of[-1] for of in domains]
        binary = [ends == (0, 1) for ends in zip(self.low, self.high, strict=True)]
        names = [of.name for of in proto.variables]
        kept = [one or of.startswith(whole) for one, of in zip(binary, names, strict=True)]
        self.kept = kept
        self.unit = [
            1 if one else power_of_ten(high, LARGEST)
            for one, high in zip(kept, self.high, strict=True)
        ]
        self.columns = [
            self.milp.add_variable(
                _plain(name or f"v{n}"),
                self.low[n] / self.unit[n],
                self.high[n] / self.unit[n],
                pulp.LpInteger if kept[n] else pulp.LpContinuous,
            )
            for n, name in enumerate(names)
        ]
        self.free = set(range(len(self.columns)))
        self.count = dict[str, int]()
        goal = dict(zip(proto.objective.vars, proto.objective.coeffs, strict=True))
        costs = sum(abs(c) for v, c in goal.items() if binary[v])
        units = [self.unit[v] for v in goal]
        self.objective_unit = max(units, default=1) * power_of_ten(costs, FLOAT_RANGE)
        offset = proto.objective.offset / self.objective_unit
        self.milp.setObjective(self._sum(goal, self.objective_unit) + offset)

    def finished(self) -> pulp.LpProblem:
        """Return the MILP, with a row that names what no other does: PuLP would forget it."""
        if self.free:
            others = [self.columns[n] for n in sorted(self.free)]
            limit = sum(variable.upBound for variable in others)
            self.milp += pulp.lpSum(others) <= limit, "known_variables"
        return self.milp

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
        most = sum(abs(c) * max(-self.low[v], self.high[v]) for v, c in terms.items())
        if most > LARGEST_SUM:
            raise InputError(
                f"milp, mathprog: {at.replace('_', '-')} has sums up to {most}; floats hold whole"
                f" numbers up to {LARGEST_SUM} only. Method cp-sat computes in integers"
            )
        number = self.count[at] = self.count.get(at, -1) + 1
        unit, value = max((self.unit[v] for v in terms), default=1), float(side)
        largest = max(map(abs, terms.values()), default=1)
        binary = all((self.low[v], self.high[v]) == (0, 1) for v in terms)
        if binary or (largest > FLOAT_RANGE and all(self.kept[v] for v in terms)):
            unit = power_of_ten(largest, COEFFICIENT)
            step = gcd(*terms.values()) or 1
            if unit > 1 and sign:
                value = (-sign * (-sign * side // step) - sign * 0.5) * step
        total, name = self._sum(terms, unit), f"{at}_{number}"
        if sign > 0:
            self.milp += total >= value / unit, name
        elif sign < 0:
            self.milp += total <= value / unit, name
        else:
            self.milp += total == value / unit, name

    def _sum(self, terms: dict[int, int], unit: int) -> pulp.LpAffineExpression:
        found = ((self.columns[v], c * self.unit[v] / unit) for v, c in terms.items() if c)
        return pulp.LpAffineExpression(found)


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
