"""The aggregated model: one layout for all scenarios, the DIMMs taken together.

A solution's residents, localized experts and paths satisfy every row below, with each scenario's
makespan in its column: the DIMM rows hold for the average over the DIMMs because they hold for each
of them. So the model's optimum is a lower bound; `formulations/layout/spec.md`, section "Several
scenarios", has the proof. Its linear relaxation also says what to localize to begin with.
"""

from dataclasses import dataclass, field
from functools import reduce
from math import gcd

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from moeopt.numeric.highs import Found, Program, minimize
from moeopt.problems.layout.bounds import makespan_grid
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.paths import Path

LARGEST = 1000.0
"""The largest cost in the model's units, so that HiGHS's tolerances of 1e-6 are small."""

Terms = list[tuple[int, float]]


@dataclass(frozen=True)
class ScenarioColumns:
    """The columns of one scenario.

    Attributes
    ----------
    makespan, own
        The makespan, and what the longest DIMM does besides striped reads.
    striped
        Those of host reads of striped experts.
    items, sizes_ns
        Those of what a DIMM does by itself, localized reads and NDP work, and how long it takes.
    """

    makespan: int
    own: int
    striped: NDArray[np.int64]
    items: NDArray[np.int64]
    sizes_ns: NDArray[np.int64]


@dataclass
class Model:
    """A mixed-integer program under construction; times in units of `unit_ns`.

    Attributes
    ----------
    resident, localized
        First stage: a column per expert that has tokens in some scenario.
    scenarios
        Second stage: the columns of each scenario.
    """

    unit_ns: float
    cost: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[int] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    row_lower: list[float] = field(default_factory=list)
    row_upper: list[float] = field(default_factory=list)
    resident: dict[int, int] = field(default_factory=dict)
    localized: dict[int, int] = field(default_factory=dict)
    scenarios: list[ScenarioColumns] = field(default_factory=list)

    def column(self, cost: float = 0.0, upper: float = 1.0, integer: bool = False) -> int:
        """Add a column from 0 to `upper` and return its number."""
        self.cost.append(cost)
        self.lower.append(0.0)
        self.upper.append(upper)
        self.integer.append(int(integer))
        return len(self.cost) - 1

    def at_most(self, terms: Terms, upper: float, lower: float = -np.inf) -> None:
        """Add a row: the sum of terms is at most `upper` and at least `lower`."""
        row = len(self.row_upper)
        self.entries += [(row, column, value) for column, value in terms]
        self.row_lower.append(lower)
        self.row_upper.append(upper)

    def program(self, integer: bool) -> Program:
        """Return the program as arrays; without `integer` its linear relaxation."""
        row, column, value = zip(*self.entries, strict=True)
        shape = (len(self.row_upper), len(self.cost))
        return Program(
            cost=np.array(self.cost),
            lower=np.array(self.lower),
            upper=np.array(self.upper),
            integer=np.array(self.integer) * int(integer),
            rows=csr_array((value, (row, column)), shape=shape),
            row_lower=np.array(self.row_lower),
            row_upper=np.array(self.row_upper),
        )

    def solve(self, limit_s: float, integer: bool = True) -> Found:
        """Hand the model to HiGHS."""
        return minimize(self.program(integer), max(0.0, limit_s))

    def chosen(found: Found, columns: dict[int, int], experts: int) -> NDArray[np.bool_]:
    """Return the experts whose column is at least one half, as a mask of shape (experts,)."""
    mask = np.zeros(experts, dtype=np.bool_)
    if found.values is not None:
        mask[list(columns)] = found.values[list(columns.values())] >= 0.5
    return mask
