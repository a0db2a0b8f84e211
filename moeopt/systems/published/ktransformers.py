"""KTransformers: routed experts on the AMX CPU, expert deferral for single requests."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from moeopt.problems.deferral.scores import Affected, lost
from moeopt.systems.clock import LayerWork
from moeopt.systems.deferring import deferred_counts, late_tokens
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
from moeopt.systems.work import CPU, GPU, Integers
from moeopt.systems.world import World


class KTransformers(System):
    """KTransformers 2.1, 3 and 4: shared experts on the GPU, routed ones on the CPU, one graph.

    Routed experts are all on the CPU where the model has shared experts; else the most popular are
    on the GPU. With one request, each layer but the last defers as many experts as saturate the CPU
    (4.2), those of least weight; the paper defers none in larger batches, where an expert needed by
    both classes of tokens is read twice.
    """

    name = "ktransformers"
    paper = "KTransformers"
    needs = frozenset(("gpu", "cpu"))
    mechanisms = Mechanisms(cpu_tasks="dynamic")
    decisions = (
        SystemDecision("residents", "placement", "frequency", "none"),
        SystemDecision("deferral", "deferral", "saturate", "quality"),
    )

    method = "saturate"
    """By which method of problem `deferral` the counts are chosen."""

    def at_best_counts(self) -> "KTransformers":
        """Return the system that defers no more experts in all, in the layers where it helps."""
        other = KTransformers(self.assumed)
        other.method = "dp"
        return other

    def prepare(self, world: World, seen: Readers) -> RunState:
        """Put the popular experts on the GPU where the model has no shared ones."""
        slots = 0 if world.model.shared_weights else world.slots
        return RunState.of(world, seen, resident=hottest(expected(world, seen), slots))

    def notes(self, world: World) -> Sequence[str]:
        """Say how many experts are deferred."""
        counts = (
            deferred_counts(world, self.method) if self.defers(world) else np.zeros(1, np.int64)
        )
        if not counts.any():
            return ()
        affected = cast(Affected, self.takes("affected"))
        verb = "defers" if affected == "deferred" else "skips"
        loss = lost(world.model.name, affected, int(counts.max()))
        price = "at a price that is not published" if loss is None else f"for {loss:.2%} of scores"
        return (f"{verb} {counts.max()} of each token's {world.model.top_k} experts, {price}",)

    def defers(self, world: World) -> bool:
        """Tell whether experts are deferred at all."""
        return world.batch == 1 or self.takes("deferral") == "all batches"

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Run residents on the GPU, all others on the CPU; defer for single requests."""
        domain = idle(np.where(state.resident[layer], GPU, CPU), tokens)
        late = None
        if self.defers(state.world) and not state.prompt:
            count = deferred_counts(state.world, self.method)[layer]
            late = late_tokens(state, layer, domain, count)
        return Assignment(domain, late)

    def work(self, state: RunState, layer: int, tokens: Integers, made: Assignment) -> LayerWork:
        """Return the work of all experts, or without those that are skipped."""
        if made.late_tokens is None or self.takes("affected") == "deferred":
            return super().work(state, layer, tokens, made)
        left = tokens - made.late_tokens
        kept = replace(made, domain=idle(made.domain, left), late_tokens=None)
        return super().work(state, layer, left, kept)
