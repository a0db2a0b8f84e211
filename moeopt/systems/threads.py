"""What a CPU takes for the experts of a prompt, part by part on its threads (KTransformers 3.2)."""

from typing import Literal

import numpy as np

from moeopt.problems.threads.check import objective
from moeopt.problems.threads.generate import (
    QUANTUM_NS,
    Options,
    Team,
    grains_of,
    parts_of,
    team_of,
)
from moeopt.problems.threads.heuristics import dynamic, static, static_all_threads
from moeopt.problems.threads.instance import Instance
from moeopt.sim.costs.sockets import socket_of
from moeopt.sim.machines.cores import cores_of, node_gb_s

from .work import Integers
from .world import World

Tasks = Literal["dynamic", "static", "static-all-threads"]
"""How an expert's work is spread over threads: heuristics of the problem `threads`."""

BATCHES = ("gate-up", "down")
"""The two fused batches of a layer."""

RULES = {"dynamic": dynamic, "static": static, "static-all-threads": static_all_threads}


def cores_are_stated(world: World) -> bool:
    """Tell whether the machine says how many cores its CPU has."""
    return bool(world.machine.nodes) and world.machine.nodes[0].only("cpu").cores is not None


def on_threads_ns(world: World, tokens: Integers, tasks: Tasks) -> int:
    """Return what the experts of a layer take on the CPU's threads: both of its fused batches.

    Parameters
    ----------
    tokens
        Of each expert, shape (experts,); 0 for those that run elsewhere.
    """
    active = np.flatnonzero(tokens)
    if not len(active):
        return 0
    return sum(
        max(_batch_ns(world, tokens, of, matrices, tasks) for of in _by_team(world, active))
        for matrices in BATCHES
    ) + world.combined_ns(-(-int(tokens.sum()) // world.model.top_k))


def _batch_ns(
    world: World, tokens: Integers, experts: Integers, matrices: str, tasks: Tasks
) -> int:
    """Return what one fused batch takes on one team of threads."""
    team = _team(world)
    grains = sorted({*grains_of(Options()), team.threads})
    said = {"matrices": matrices, "grains": ",".join(map(str, grains))}
    options = Options.model_validate(said)
    times = parts_of(
        world.machine, world.model, experts, tokens[experts], options, QUANTUM_NS, team
    )
    instance = Instance(
        name=matrices,
        quantum_ns=QUANTUM_NS,
        threads=team.threads,
        pull_ns=options.pull_ns,
        grains=grains_of(options),
        experts=times,
    )
    # Expert after expert, all threads wait for each other as often; in one fused batch once.
    waits = len(experts) if tasks == "static-all-threads" else 1
    fixed_ns = round(waits * world.costs.overheads.host_expert_us * 1e3 / len(BATCHES))
    return objective(instance, RULES[tasks](instance)) + fixed_ns


def _by_team(world: World, active: Integers) -> list[Integers]:
    """Return the experts that each team of threads has a share of; teams with equal work once."""
    if world.sockets != "expert-parallel":
        return [active]
    place = socket_of(active, world.experts, len(world.machine.nodes))
    return [active[place == one] for one in np.unique(place)]


def _team(world: World) -> Team:
    """Return the threads that share a queue: of one socket, or of all if no socket is regarded."""
    machine = world.machine
    own = team_of(machine, Options())
    if world.sockets == "tensor-parallel":
        return own
    node = machine.nodes[0]
    reached = node.only("cpu").reached or 1.0
    if world.sockets == "expert-parallel":
        return Team(own.threads, node_gb_s(node) * reached)
    cores = cores_of(machine, "interleaved")
    return Team(own.threads * len(machine.nodes), cores.read_gb_s * reached)
