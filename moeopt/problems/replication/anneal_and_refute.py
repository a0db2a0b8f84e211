"""anneal-and-refute: placements by simulated annealing, and a refutation of anything better.

1. Bounds: each window alone (`bounds`); several windows by the copies they share (`joint_bound`).
2. Starts: the heuristics; with nodes, other shares of groups over nodes (`node_starts`).
3. Annealing (`kernels`) in rounds of rising length, from the best so far and from the starts.
4. One window with an even split, one node and no moves: the next better peak is refuted or found by
   packing with copies as an arc flow (`arc_flow`), if its graph is small.

Proof. Objectives offered are the checker's. Bounds are those of `bounds` and `joint_bound`, with
their proofs, and the grid above a refuted peak: every objective is a multiple of the grid, so that
nothing is between them. An incumbent that meets a bound is optimal.
"""

from moeopt.core.feasibility import Feasibility
from moeopt.core.search import Search

from .annealing import Arrays
from .arc_flow import placement
from .bounds import has_room, lower_bound, objective_grid
from .check import objective
from .heuristics import HEURISTICS
from .instance import Instance
from .joint_bound import copies_bound
from .node_starts import node_starts
from .solution import Solution

FIRST_STEPS = 50_000
"""Steps of annealing in the first round; one window of 32 devices takes 0.15 us per step."""

ROUNDS = 10
"""Rounds at most, each of twice as many steps as the one before."""

SMALL = 3000
"""Experts times devices times copies up to which CP-SAT may close what is left."""

BOUND_NODES = 200
"""Nodes of branch and bound for the numbers of copies."""


def solve(instance: Instance, search: Search) -> None:
    """Find the best placement and prove it, or report the best and the bound reached."""
    if not has_room(instance):
        search.infeasible = True
        return
    search.prove(lower_bound(instance))
    starts = _starts(instance, search)
    if (len(instance.windows) > 1 or instance.nodes > 1) and not search.closed:
        limit_s = search.remaining_s / 4
        bound = copies_bound(instance, limit_s, BOUND_NODES)
        if bound is not None:
            search.prove(bound, floats=True)
    small = instance.experts * instance.devices * instance.most_copies <= SMALL
    if not search.closed:
        _improve(instance, search, starts, 3 if small else ROUNDS)
    if not search.closed and not _near_enough(search):
        _refute(instance, search)
    search.enough = not small or _near_enough(search)


def _starts(instance: Instance, search: Search) -> list[Solution]:
    """Return placements to start from, offered; the best one first."""
    found = [rule(instance) for rule in HEURISTICS.values()]
    solutions = [solution for solution in found if solution is not None]
    solutions += node_starts(instance, search.seed)
    values = {id(solution): objective(instance, solution) for solution in solutions}
    solutions.sort(key=lambda solution: values[id(solution)])
    for solution in solutions:
        search.offer(solution, values[id(solution)])
    return solutions


def _improve(instance: Instance, search: Search, starts: list[Solution], rounds: int) -> None:
    """Anneal in rounds, half of them from the incumbent."""
    arrays = Arrays.of(instance)
    steps = FIRST_STEPS

    def ended() -> bool:
        return search.stopped or search.closed or _near_enough(search)

    for number in range(rounds):
        for turn, start in enumerate([search.solution, starts[number % len(starts)]]):
            if ended():
                return
            seed = 10**6 * search.seed + 10**4 * (2 * number + turn)
            solution = arrays.annealed(start, steps, seed, ended)
            search.offer(solution, objective(instance, solution))
        steps *= 2


def _near_enough(search: Search) -> bool:
    """Tell whether the gap is what was asked for, if anything was."""
    objective, bound = int(search.objective), int(search.bound)  # type: ignore[arg-type]
    return bool(search.enough_gap) and objective - bound <= search.enough_gap * objective


def _refute(instance: Instance, search: Search) -> None:
    """Refute the next better peak, or find it and try the next; HiGHS is not asked to verify."""
    plain = len(instance.windows) == 1 and instance.split == "even" and instance.nodes == 1
    if not plain or search.verify or (instance.current is not None and instance.move_cost):
        return
    weight, grid = int(instance.weights[0]), objective_grid(instance)
    while not search.closed and not search.stopped:
        below = int(search.objective) - grid  # type: ignore[arg-type]  # one integer
        answer, solution = placement(instance, below // weight, search.remaining_s)
        if answer is Feasibility.INFEASIBLE:
            search.prove_incumbent(floats=True)
        elif solution is not None:
            search.offer(solution, objective(instance, solution))
        else:
            return
