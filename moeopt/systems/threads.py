"""What a CPU takes for the experts of a prompt, part by part on its threads (KTransformers 3.2)."""

from typing import Literal

import numpy as np

from moeopt.problems.threads.check import objective
from moeopt.problems.threads.generate import QUANTUM_NS, Options, grains_of, parts_of, threads_of
from moeopt.problems.threads.heuristics import dynamic, static_all_threads
from moeopt.problems.threads.instance import Instance

from .work import Integers
from .world import World

Tasks = Literal["dynamic", "static-all-threads"]
"""How an expert's work is spread over threads: heuristics of the problem `threads`."""

RULES = {"dynamic": dynamic, "static-all-threads": static_all_threads}


def cores_are_stated(world: World) -> bool:
    """Tell whether the machine says how many cores its CPU has."""
    return bool(world.machine.nodes) and world.machine.nodes[0].only("cpu").cores is not None


def on_threads_ns(world: World, tokens: Integers, tasks: Tasks) -> int:
    """Return what the experts of a layer take on a node's threads: both of its fused batches.

    Parameters
    ----------
    tokens
        Of each expert, shape (experts,); 0 for those that run elsewhere.
    """
    active = np.flatnonzero(tokens)
    total = 0
    for matrices in ("gate-up", "down") if len(active) else ():
        options = Options(matrices=matrices)
        parts = parts_of(world.machine, world.model, active, tokens[active], options, QUANTUM_NS)
        instance = Instance(
            name=matrices,
            quantum_ns=QUANTUM_NS,
            threads=threads_of(world.machine, options),
            pull_ns=options.pull_ns,
            grains=grains_of(options),
            experts=parts,
        )
        total += objective(instance, RULES[tasks](instance))
    return total
