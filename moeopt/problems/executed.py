"""What a decision cost on loads that came later, and how much of that is proven."""

from dataclasses import dataclass

from moeopt.core.objective import Objective


@dataclass(frozen=True)
class Run:
    """A decision that was run on an instance.

    Attributes
    ----------
    objective
        What it cost.
    unproven
        Of how many loads the exact schedule is not proven the best; 0 for all other schedulers,
        which claim nothing.
    """

    objective: Objective
    unproven: int = 0

    @property
    def unproven_in_words(self) -> str:
        """A sentence about `unproven`."""
        return f"{self.unproven} of its exact schedules not proven the best within the effort"
