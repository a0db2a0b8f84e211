"""Types that `moeopt.core` gets in version 2.0: errors."""

from typing import ClassVar

class MoeoptError(Exception):
    """Base of every error that is meant for a user's eyes."""

    exit_code: ClassVar[int]

class InputError(MoeoptError):
    """Wrong file, field or option (exit code 2)."""

    where: str
    field: str
    reason: str
    suggestion: str | None

class HeuristicError(MoeoptError):
    """Failure inside a custom heuristic, which is kept as the cause (exit code 2)."""

class StoreError(MoeoptError):
    """Store of a campaign that cannot be read or written (exit code 2)."""

class InfeasibleError(MoeoptError):
    """Request for a plan where none exists (exit code 3)."""

class LimitError(MoeoptError):
    """Limit that ended before any solution was known (exit code 4)."""

class ContradictionError(MoeoptError):
    """Disagreement of claims of which none stands (exit code 5)."""
