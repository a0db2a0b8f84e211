"""A solution of some problem as the engine ran it."""

from dataclasses import dataclass

from moeopt.core.objective import Objective
from moeopt.sim.engine.core import Engine
from moeopt.sim.engine.timeline import Resource, Timeline


@dataclass(frozen=True)
class Executed:
    """A solution as it ran: the timeline, and the objective as measured on it.

    Attributes
    ----------
    numbers
        What tasks are numbered by: "expert", or "layer" where tasks are whole layers'.
    weights
        How often each bundle of the timeline counts in the objective; None: once each. Those that
        do not count once lie between two tasks that everything else is before or after.
    """

    timeline: Timeline
    objective: Objective
    numbers: str = "expert"
    weights: tuple[int, ...] | None = None


BETWEEN = Resource("between windows", capacity=None)
"""Where the tasks without length are that stand between windows."""


class Windows:
    """Parts of a schedule that run one after the other and count differently in the objective.

    Parameters
    ----------
    engine
        What they are added to. Without the resource `BETWEEN` there is one window only.

    Attributes
    ----------
    before
        What the tasks of the next window depend on.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.before: tuple[int, ...] = ()
        self._weights: list[int] = []
        self._clock = 0

    @property
    def weights(self) -> tuple[int, ...]:
        """How often each bundle counts, for `Executed`."""
        return tuple(self._weights)

    def end(self, weight: int, label: str) -> int:
        """Run what was added since the last window; return its weight times its length in ns."""
        added = range(len(self._weights), len(self.engine))
        self._weights += [weight] * len(added)
        self.engine.run()
        last = max((self.engine.finish_ns(bundle) for bundle in added), default=self._clock)
        length, self._clock = last - self._clock, last
        if added and BETWEEN in self.engine.resources:
            end = self.engine.add(BETWEEN.name, 0, after=added, kind="all done", label=label)
            self.engine.run()
            self._weights.append(1)
            self.before = (end,)
        return weight * length
