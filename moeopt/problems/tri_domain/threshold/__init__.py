"""Threshold search: an optimal schedule, proven, mostly in a fraction of a millisecond.

For a threshold C the feasibility subproblem asks for a schedule of makespan at most C. Each DIMM's
choices are reduced to their Pareto labels (`pareto`), the Lagrangian relaxation of the two hosts'
constraints TD-C3 and TD-C4 bounds what they need, and dynamic programming from two sides decides
the rest (`feasibility`). The search (`search`) raises C from the least value that the
relaxation leaves open, and starts from a schedule built at once (`incumbent`).

Proof, with the lemmas of `formulations/tri_domain/spec.md`, "Threshold search". (1) An expert whose
DIMM is busy no longer with its NDP work than with a host's read loses nothing by leaving that host.
(2) For given striped reads TD-C5 separates by DIMM, and TD-C3 and TD-C4 see two numbers of each
DIMM's choice, its GPU and its CPU time: undominated choices suffice. (3) The Lagrangian value is at
most the makespan of every schedule within C. (4) A choice whose reduced cost exceeds C less that
value is in no schedule within C. (5) With striped reads taken at their least, more choices fit, so
a refutation holds; where the schedule found runs a striped expert on the host with the longer read,
one branch binds it to either host. (6) Every makespan is a multiple of the costs' greatest common
divisor. All sums are integers below 2**62. The search ends with C refuted one step below the
incumbent. (7) In schema 2 the base load is a striped expert that only the GPU can run, and channels
and the PCIe link are relaxed: `Bracket` takes any table of `device_loads.table_for`.
"""

from .search import FIRST_WORK, MOST_WORK, NO_CUTOFF, Bracket, brief, solve

__all__ = ["FIRST_WORK", "MOST_WORK", "NO_CUTOFF", "Bracket", "brief", "solve"]
