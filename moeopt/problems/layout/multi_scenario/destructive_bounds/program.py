"""One layout for a group of scenarios, within given makespans and numbers of striped reads.

The aggregated model takes the DIMMs together. Once it is known how many striped reads a scenario
has at least, and how long it lasts at most, it is also known how much room a DIMM has for work of
its own, and large pieces cannot share a DIMM as their average would have it. Dual feasible
functions say so in linear rows: if f gives at most 1 to all that fits into a DIMM, then all pieces
on the DIMMs get at most as much as there are DIMMs.

Why "no" is a proof. Makespans are raised by `MARGIN`, a thousand times what HiGHS's tolerances are
worth, and so are the right-hand sides of the new rows: a plan that exists satisfies every row with
a cost in it with room to spare. All other rows have entries of -1, 0 and 1 and integer right-hand
sides, which a plan satisfies exactly.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, vstack

from moeopt.numeric.highs import Program, minimize
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.multi_scenario.aggregated import Model, aggregated
from moeopt.problems.layout.multi_scenario.rows import Rows

MARGIN = 0.005
"""Added to makespans in the model's units, of which the largest cost has 1000."""

PARTS = (1, 2, 3, 4)
"""The functions used: the k-th sees pieces that need more than 1 / (k + 1) of a DIMM's room."""

ANY_PLAN = 10.0
"""Relative gap at which the first plan found ends the search."""

Answer = Literal["no", "perhaps", "limit"]
Reads = tuple[int, int]
"""At least and at most so many striped reads."""

Values = NDArray[np.float64]


def shares(sizes: NDArray[np.int64], room: int, parts: int) -> Values:
    """Return `parts` times the dual feasible function of pieces in a DIMM of positive `room`.

    ``u(x) = x`` if ``(k + 1) x`` is an integer, else ``floor((k + 1) x) / k``, for x the share of
    the room: pieces that fit together get at most 1 (Fekete and Schepers 2001).
    """
    times = (parts + 1) * sizes
    return np.where(times % room == 0, parts * sizes / room, times // room)


@dataclass(frozen=True)
class SharedLayout:
    """The program of a group of scenarios; what a question changes is changed in a copy.

    Attributes
    ----------
    instance, model, program
        The aggregated model with two rows more: `cutoff` holds the weighted sum of the makespans,
        and `reads` has, for each scenario, the row of its striped reads.
    weight, least_ns
        Of each scenario in the group: its weight, and a makespan that is known to be the least.
    """

    instance: Instance
    model: Model
    program: Program
    cutoff: int
    reads: list[int]
    weight: list[int]
    least_ns: list[int]

    @classmethod
    def of(
        cls, instance: Instance, rows: Rows, scenarios: list[int], least_ns: list[int]
    ) -> "SharedLayout":
        """Return the program of some scenarios."""
        model = aggregated(instance, rows, scenarios)
        weight = [int(rows.weight[s]) for s in scenarios]
        reads = []
        for columns in model.scenarios:
            reads.append(len(model.row_upper))
            model.at_most([(column, 1.0) for column in columns.striped.tolist()], np.inf)
        cutoff = len(model.row_upper)
        model.at_most([(c.makespan, w) for c, w in zip(model.scenarios, weight, strict=True)], 0.0)
        integer = np.ones(len(model.cost), dtype=np.int64)
        for columns in model.scenarios:
            integer[[columns.makespan, columns.own]] = 0
        program = replace(model.program(integer=True), integer=integer)
        return cls(instance, model, program, cutoff, reads, weight, least_ns)

    def most_ns(self, number: int, slack: int) -> int:
        """Return the makespan of a scenario if all of the `slack` in the objective is its own."""
        return self.least_ns[number] + slack // self.weight[number]

    def decide(self, reads: list[Reads], slack: int, whole: bool, limit_s: float) -> Answer:
        """Ask for a plan with so many striped reads whose objective exceeds the least by `slack`.

        Parameters
        ----------
        reads
            For each scenario.
        slack
            The weighted makespans sum to at most their least sum and this.
        whole
            Whether experts and their ways are not divided; otherwise the linear relaxation.
        limit_s
            Seconds for HiGHS.
        """
        unit, program = self.model.unit_ns, self.program
        lower, upper = program.lower.copy(), program.upper.copy()
        row_lower, row_upper = program.row_lower.copy(), program.row_upper.copy()
        total = slack + sum(w * t for w, t in zip(self.weight, self.least_ns, strict=True))
        row_upper[self.cutoff] = total / unit + MARGIN * sum(self.weight)
        packed: list[tuple[NDArray[np.int64], Values, float]] = []
        for number, (columns, (fewest, most)) in enumerate(
            zip(self.model.scenarios, reads, strict=True)
        ):
            row_lower[self.reads[number]], row_upper[self.reads[number]] = fewest, most
            latest = self.most_ns(number, slack)
            room = latest - fewest * self.instance.dram_striped_ns
            if room < 0:
                return "no"
            lower[columns.makespan] = self.least_ns[number] / unit
            upper[columns.makespan] = latest / unit + MARGIN
            upper[columns.own] = room / unit + MARGIN
            upper[columns.items[columns.sizes_ns > room]] = 0.0
            fits = columns.sizes_ns <= room
            for parts in PARTS if room else ():
                share = shares(columns.sizes_ns[fits], room, parts)
                packed.append((columns.items[fits], share, parts * self.instance.dimms))
        matrix, limits = _rows(packed, len(lower))
        asked = Program(
            cost=program.cost * int(whole),
            lower=lower,
            upper=upper,
            integer=program.integer * int(whole),
            rows=csr_array(vstack([program.rows, matrix])),
            row_lower=np.concatenate([row_lower, np.full(len(limits), -np.inf)]),
            row_upper=np.concatenate([row_upper, limits + MARGIN]),
        )
        status = minimize(asked, limit_s, relative_gap=ANY_PLAN).status
        return "no" if status == "infeasible" else "limit" if status == "limit" else "perhaps"


def _rows(
    packed: list[tuple[NDArray[np.int64], Values, float]], width: int
) -> tuple[csr_array, Values]:
    """Return rows from columns, values and upper limits."""
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *(c for c, _, _ in packed)])
    values = np.concatenate([np.zeros(0), *(v for _, v, _ in packed)])
    row = np.repeat(np.arange(len(packed)), [len(c) for c, _, _ in packed])
    matrix = csr_array(coo_array((values, (row, columns)), shape=(len(packed), width)))
    matrix.eliminate_zeros()
    return matrix, np.array([limit for _, _, limit in packed], dtype=np.float64)
