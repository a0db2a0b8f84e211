"""What every MILP engine gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from moeopt.solvers.result import Termination


@dataclass
class Answer:
    """A MILP engine's answer in the model's own units.

    Attributes
    ----------
    tolerance
        To which the engine keeps the signs of reduced costs.
    values
        Variable name -> value of the best solution; empty if there is none.
    objective, bound
        Its objective and the proven bound; None if unknown.
    """

    raw_status: str
    tolerance: float = 0.0
    termination: Termination = "completed"
    proven: Literal["optimal", "infeasible"] | None = None
    objective: float | None = None
    bound: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)


def too_large() -> Answer:
    """Return what is answered where the root alone takes more than a work limit."""
    return Answer("its root may take longer than the work limit", termination="time_limit")
