"""What is known of a feasibility subproblem."""

from enum import IntEnum


class Feasibility(IntEnum):
    """The answer to a feasibility subproblem; integers, so that compiled kernels return them.

    INFEASIBLE is a refutation: a proof that there is no solution. UNKNOWN means that the work
    allowed did not decide it, and refutes nothing.
    """

    INFEASIBLE = 0
    FEASIBLE = 1
    UNKNOWN = 2
