"""What was claimed in a solve, by whom, and what of it stands."""

from dataclasses import dataclass
from typing import Literal

from moeopt.core.objective import Objective, entries

Proof = Literal["certificate", "own", "confirmed", "single"]
"""What a bound, or a proof that there is no solution, rests on.

- ``certificate``: a certificate that `moeopt.certificates.certificate` accepted.
- ``own``: every step was computed by this package, exactly or with a safe margin.
- ``confirmed``: an engine proved it, and a second one, or the same another way, refuted better.
- ``single``: one engine's word, which nothing has confirmed.
"""

Kind = Literal["bound", "infeasible", "solution"]
"""What a claim is about: see `Claim`."""

REFUTED = "REFUTED"
"""How `Evidence` marks a claim that does not stand."""


@dataclass(frozen=True)
class Claim:
    """What one engine or method said.

    Attributes
    ----------
    engine
        Its name, or that of a method of this package.
    kind
        "bound": nothing is below `value`; "infeasible": there is no solution; "solution": there is
        one of `value`.
    value
        The objective, None where there is none.
    parameters
        How it was asked, where there are several ways.
    stands
        Whether nothing contradicts it.
    reason
        What contradicts it.
    """

    engine: str
    kind: Kind
    value: Objective | None = None
    parameters: str = ""
    stands: bool = True
    reason: str = ""

    def __str__(self) -> str:
        how = f" ({self.parameters})" if self.parameters else ""
        value = "" if self.value is None else ", ".join(str(one) for one in entries(self.value))
        what = {
            "bound": f"nothing below {value}",
            "infeasible": "infeasible",
            "solution": f"a solution of {value}",
        }[self.kind]
        said = f"{self.engine}{how}: {what}"
        return said if self.stands else f"{REFUTED}: {said}, but {self.reason}"


@dataclass(frozen=True)
class Evidence:
    """The claims of a solve, in the order in which they were made."""

    claims: tuple[Claim, ...] = ()

    @property
    def refuted(self) -> tuple[Claim, ...]:
        """The claims that do not stand."""
        return tuple(claim for claim in self.claims if not claim.stands)

    def __str__(self) -> str:
        return "; ".join(str(claim) for claim in self.claims)
