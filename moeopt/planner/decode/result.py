"""What a simulation found out."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.sim.engine.timeline import Timeline, Usage


@dataclass(frozen=True)
class Simulation:
    """Decode steps under a plan, as executed.

    Attributes
    ----------
    plan, machine, model
        Names.
    steps, layers, tokens
        Layers with experts that were executed; tokens of all steps together.
    model_layers
        How many layers with experts the model has: with fewer executed, latencies and rates are of
        these alone. The layers executed where no model is known.
    step_ns
        Latency of each step, shape (steps,): from its start until its last layer's output is
        complete, so that the next step may start.
    layer_ns
        Shape (steps, layers): from a layer's attention becoming ready to the next one's.
    makespan_ns
        When everything has ended; transfers may outlast the last step.
    usage
        Busy and idle time of every resource up to the makespan.
    experts_run
        Domain -> how many experts it ran, over all steps and layers.
    hits, misses, fetches
        Of the expert caches.
    migrations_done, migrations_missed, migrations_needless
        Made, left out because they did not fit their window, and asked for what was so already.
    timeline
        Every task, if asked for.
    """

    plan: str
    machine: str
    model: str
    steps: int
    layers: int
    model_layers: int
    tokens: int
    step_ns: NDArray[np.int64]
    layer_ns: NDArray[np.int64]
    makespan_ns: int
    usage: list[Usage]
    experts_run: dict[str, int]
    hits: int
    misses: int
    fetches: int
    migrations_done: int
    migrations_missed: int
    migrations_needless: int
    timeline: Timeline | None = None

    def __repr__(self) -> str:
        what = f"{self.plan} on {self.machine}, {self.model}"
        size = f"{self.steps} steps of {self.share}, {self.tokens} tokens"
        return f"<simulation of {what}: {size}; {self.makespan_ns} ns>"

    @property
    def share(self) -> str:
        """How much of the model was executed, in words."""
        whole = self.layers == self.model_layers
        return f"{self.layers} layers" if whole else f"{self.layers} of {self.model_layers} layers"

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens decoded per second of step latencies; None if the steps take no time.

        Of the layers executed alone, see `model_layers`.
        """
        total = int(self.step_ns.sum())
        return self.tokens * 1e9 / total if total else None

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the timeline as JSON values."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        del plain["timeline"]
        return plain | {
            "step_ns": self.step_ns.tolist(),
            "layer_ns": self.layer_ns.tolist(),
            "usage": [
                {name: getattr(used, name) for name in used.__dataclass_fields__}
                for used in self.usage
            ],
            "tokens_per_s": self.tokens_per_s,
        }
