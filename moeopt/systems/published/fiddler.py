"""Fiddler: popular experts on the GPU, each other one where it is cheaper for the layer."""

import numpy as np

from moeopt.systems.policies import fiddler, fiddler_as_coded
from moeopt.systems.readers import Readers
from moeopt.systems.system import (
    Assignment,
    Mechanisms,
    RunState,
    System,
    SystemDecision,
    expected,
    hottest,
    idle,
)
from moeopt.systems.work import Integers
from moeopt.systems.world import World

LAUNCHES = Mechanisms(launches_per_layer=115, launch_us=16.0, sockets="interleaved")
"""7,000 launches a token of DeepSeek-V3, of 61 layers, 16 us each; no regard to sockets (2.3).

Both stand in KTransformers.
"""


class Fiddler(System):
    """Fiddler, as its text has it: the split of a layer between GPU and CPU that ends earliest."""

    name = "fiddler"
    paper = "Fiddler; KTransformers 2.3"
    needs = frozenset(("gpu", "cpu"))
    mechanisms = LAUNCHES
    decisions = (
        SystemDecision("residents", "placement", "frequency", "once per run"),
        SystemDecision("split", "tri_domain", "fiddler", "within a step"),
    )

    def prepare(self, world: World, seen: Readers) -> RunState:
        """Keep the most popular experts of all layers on the GPU."""
        return RunState.of(world, seen, resident=hottest(expected(world, seen), world.slots))

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Split by cost."""
        return Assignment(idle(fiddler(state.offer(layer, tokens))[0], tokens))


class FiddlerAsCoded(Fiddler):
    """Fiddler, as its code has it: a search over splits up to 8 experts, beyond them by its order.

    Beyond 8 active experts each runs where it is cheaper on its own.
    """

    name = "fiddler-as-coded"
    decisions = (
        SystemDecision("residents", "placement", "frequency", "once per run"),
        SystemDecision("split", "tri_domain", "fiddler-as-coded", "within a step"),
    )

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Search up to 8 experts, else let each run on its own cheaper host."""
        few = int(np.count_nonzero(tokens)) <= 8
        rule = fiddler if few else fiddler_as_coded
        return Assignment(idle(rule(state.offer(layer, tokens))[0], tokens))
