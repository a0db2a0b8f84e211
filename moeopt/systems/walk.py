"""The walk of a step over its layers: the one loop that runs decisions on the clock.

Plans, systems and chunks of prompts differ in who decides, and when: a plan decides a whole step at
once, a system each layer as its experts become known.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from .clock import Begin, Clock, LayerWork


class Step(Protocol):
    """What is run layer after layer."""

    layers: int
    outside_ns: int
    """What the GPU does before the first layer."""

    def begin(self, layer: int) -> Begin:
        """Return what a layer needs before its experts are known."""

    def work(self, layer: int, routed_ns: int, there_ns: Mapping[int, int]) -> LayerWork:
        """Decide a layer: when its experts are known, and when those uploaded ahead are there."""

    def ran(self, layer: int, copies_ns: Mapping[int, int]) -> None:
        """Take note of when each copy into the layer's cache ends, by expert."""


@dataclass(frozen=True)
class Walked:
    """When things happened in a step, in ns of the clock.

    Attributes
    ----------
    edges_ns
        When each layer starts, and when the last one ends.
    routed_ns
        When each layer's experts are known.
    """

    edges_ns: list[int]
    routed_ns: list[int]


def walk(clock: Clock, step: Step) -> Walked:
    """Run a step on a clock, after everything that the clock has run."""
    clock.outside(step.outside_ns)
    edges, knowns = [clock.now_ns], list[int]()
    for layer in range(step.layers):
        routed, there = clock.begin(step.begin(layer))
        step.ran(layer, clock.run(routed, step.work(layer, routed, there)))
        knowns.append(routed)
        edges.append(clock.now_ns)
    return Walked(edges, knowns)
