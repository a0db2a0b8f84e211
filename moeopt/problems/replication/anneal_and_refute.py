"""anneal-and-refute: placements by simulated annealing, and bounds that refute anything better.

1. Bounds: each window alone (`bounds`), and all by the copies and nodes that they share
   (`joint_bound`).
2. Starts: the heuristics; with nodes, other shares of groups over nodes.
3. Annealing (`annealing`) in rounds of rising length, most from the best so far, some from the
   starts. It goes by even splits; where shares are to be decided, `dispatch` does for its copies.
4. CP-SAT goes on where instances are small (`ExactMethod.then`).

Proof. Objectives offered are the checker's. Bounds are those of these modules, in integers, with
their proofs. An incumbent that meets a bound is optimal.
"""

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.search import Search

from .annealing import HOT, Arrays
from .bounds import has_room, lower_bound
from .check import objective
from .dispatch import best_shares
from .eplb import placed, within_nodes
from .heuristics import HEURISTICS
from .instance import Instance, Ints
from .joint_bound import joint_bound
from .solution import Solution

FIRST_STEPS = 50_000
"""Steps of annealing in the first round; one window of 32 devices takes 0.3 us per step."""

ROUNDS, LONGER = 30, 1.3
"""Rounds at most, each so much longer than the one before."""

HEATS = (1e-3, 3e-3, 1e-2)
"""First temperatures in turn: short runs from the incumbent, colder and hotter ones."""

AFRESH = 4
"""Every so manieth round starts from a heuristic's placement."""

SMALL, SMALL_ROUNDS, SIZE_PER_ROUND = 3000, 6, 50
"""Experts times devices times copies up to which CP-SAT may close what is left; so many rounds
before, and one more for each so much of that size."""

BOUND_WORK = 2.0
"""Deterministic time for the numbers of copies; most take some hundredths."""

NODE_STARTS, EXCHANGES = 4, 20_000
"""Shares of groups over nodes that are looked for, and pairs compared for each, at most."""

EXCHANGES_PER_UNIT = 2e5
"""Pairs of groups that are compared in a second of one core."""


def solve(instance: Instance, search: Search) -> None:
    """Find the best placement and prove it, or report the best and the bound reached."""
    if not has_room(instance):
        search.infeasible = True
        return
    search.prove(lower_bound(instance))
    starts = _starts(instance, search)
    if not search.closed and _is_joint(instance):
        bound = joint_bound(instance, min(BOUND_WORK, search.remaining_s / 4))
        if bound is not None:
            search.prove(bound)
    size = instance.experts * instance.devices * instance.most_copies
    small = size <= SMALL
    if not search.closed:
        _improve(instance, search, starts, min(ROUNDS, SMALL_ROUNDS + size // SIZE_PER_ROUND))
    search.enough = not small or _near_enough(search)


def _is_joint(instance: Instance) -> bool:
    """Tell whether the windows' own bounds leave out something that `joint_bound` has."""
    moves = instance.current is not None and instance.move_cost > 0
    return len(instance.windows) > 1 or instance.nodes > 1 or instance.slot_cost > 0 or moves


def _starts(instance: Instance, search: Search) -> list[Solution]:
    """Return placements to start from, offered; the best one first."""
    found = [rule(instance) for rule in HEURISTICS.values()]
    solutions = [solution for solution in found if solution is not None]
    solutions += _node_starts(instance, search.seed)
    values = {id(solution): objective(instance, solution) for solution in solutions}
    solutions.sort(key=lambda solution: values[id(solution)])
    for solution in solutions:
        search.offer(solution, values[id(solution)])
    return solutions


def _improve(instance: Instance, search: Search, starts: list[Solution], rounds: int) -> None:
    """Anneal in rounds, most of them from the incumbent or what is as good."""
    arrays, here = Arrays.of(instance), search.solution

    def ended() -> bool:
        return search.stopped or search.closed or _near_enough(search)

    for number in range(rounds):
        if ended():
            return
        fresh = number % AFRESH == AFRESH - 1
        start = starts[number // AFRESH % len(starts)] if fresh else here
        heat = HOT if fresh and number // AFRESH % 2 else HEATS[number % len(HEATS)]
        steps, seed = int(FIRST_STEPS * LONGER**number), 10**6 * search.seed + number
        solution = best_shares(instance, arrays.annealed(start, steps, seed, ended, heat).copies)
        value = objective(instance, solution)
        search.offer(solution, value)
        if value == search.objective:
            here = solution


def _near_enough(search: Search) -> bool:
    """Tell whether the gap is what was asked for, if anything was."""
    objective, bound = int(search.objective), int(search.bound)  # type: ignore[arg-type]
    return bool(search.enough_gap) and objective - bound <= search.enough_gap * objective


def _node_starts(instance: Instance, seed: int) -> list[Solution]:
    """Return placements with different groups in the nodes; none where there is one node.

    From random shares, two groups change places as long as the weighted sum over windows of the
    fullest node's load falls. Within the nodes copies are made and placed as EPLB does.
    """
    if instance.nodes == 1:
        return []
    rng, size = np.random.default_rng(seed), instance.group_size
    groups = instance.experts // size
    loads = instance.loads_units.reshape(len(instance.windows), groups, size).sum(axis=2)
    summed = (instance.weights @ (instance.loads_units // instance.units_per_token)).tolist()
    found = []
    for _ in range(NODE_STARTS):
        node = rng.permutation(np.arange(groups) % instance.nodes)
        _exchange(instance, loads, node)
        members = [np.flatnonzero(node == n).tolist() for n in range(instance.nodes)]
        slots = instance.devices * instance.slots
        on_device = within_nodes(
            summed, members, groups, slots, instance.devices, instance.most_copies
        )
        rows = placed(on_device, summed, instance.devices_per_node, True)
        found.append(best_shares(instance, rows))
    return found


def _exchange(instance: Instance, loads: Ints, node: Ints) -> None:
    """Let groups change places while that helps; `node` is changed."""
    of_node = np.zeros((len(loads), instance.nodes), dtype=np.int64)
    for group, at in enumerate(node.tolist()):
        of_node[:, at] += loads[:, group]
    best, left, improved = int(instance.weights @ of_node.max(axis=1)), EXCHANGES, True
    while improved and left > 0:
        improved = False
        for a in range(len(node)):
            for b in range(a):
                left -= 1
                if left <= 0 or node[a] == node[b]:
                    continue
                differ = loads[:, a] - loads[:, b]
                after = of_node.copy()
                after[:, node[a]] -= differ
                after[:, node[b]] += differ
                value = int(instance.weights @ after.max(axis=1))
                if value < best:
                    best, of_node, improved = value, after, True
                    node[a], node[b] = node[b], node[a]
    spend((EXCHANGES - left) / EXCHANGES_PER_UNIT)
