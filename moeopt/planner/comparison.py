"""A plan, ours or a runtime's own, executed on the steps decided on and on others."""

from dataclasses import dataclass
from typing import Any

from moeopt.planner.decode.loads import Loads
from moeopt.sim.plan.schema import Plan
from moeopt.sim.traces.trace import Trace

from .defaults import Default
from .predict import Predicted, predicted
from .request import Request


@dataclass(frozen=True)
class Comparison:
    """A plan by name, on the steps that were decided on and on others.

    Attributes
    ----------
    held_out, drawn_anew
        On the held-out part of a trace; on steps drawn anew where there is none. The other is None.
    default
        The runtime whose own plan it is, with its flags; None for a plan of ours.
    """

    plan: Plan
    kept: Predicted
    held_out: Predicted | None
    drawn_anew: Predicted | None = None
    default: Default | None = None

    @property
    def later(self) -> Predicted:
        """On the steps that were not decided on, held out or drawn anew."""
        found = self.drawn_anew if self.held_out is None else self.held_out
        if found is None:
            raise RuntimeError(f"{self.plan.name}: executed on no other steps")
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values; what there is none of is null, as flags of a plan of ours."""
        executed = {"held_out": self.held_out, "drawn_anew": self.drawn_anew}
        on_others = {name: None if of is None else of.to_dict() for name, of in executed.items()}
        flags = None if self.default is None else self.default.flags
        return {"name": self.plan.name, "kept": self.kept.to_dict()} | on_others | {"flags": flags}


def compared(
    request: Request, plan: Plan, default: Default | None, loads: Loads, later: Loads
) -> Comparison:
    """Execute a plan on the loads that were decided on, and on later ones."""
    kept, others = predicted(request, plan, loads), predicted(request, plan, later)
    if isinstance(request.trace, Trace):
        return Comparison(plan, kept, held_out=others, default=default)
    return Comparison(plan, kept, held_out=None, drawn_anew=others, default=default)
