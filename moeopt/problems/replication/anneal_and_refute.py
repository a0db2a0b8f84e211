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
from moeopt.core.cpsat import Run
from moeopt.core.formulation import cp_model
from moeopt.core.search import Search
from moeopt.problems.replication import PROBLEM

from .annealing import HOT, Arrays
from .bounds import (
    has_room,
    lower_bound,
    objective_grid,
    objective_limit,
    share_times,
    window_bounds,
)
from .check import objective
from .dispatch import best_shares
from .eplb import placed, rebalance, within_nodes
from .instance import Instance, Ints, Solution

FIRST_STEPS = 50_000
"""Steps of annealing in the first round; one window of 32 devices takes 0.3 us per step."""

ROUNDS, LONGER = 30, 1.3
"""Rounds at most, each so much longer than the one before."""

HEATS = (1e-3, 3e-3, 1e-2)
"""First temperatures in turn: short runs from the incumbent, colder and hotter ones."""

FIRST_UNITS, FAR_LONGER = 0.01, 4.0
"""Units of work for exchanges in the first round, and how much longer each is with several
windows."""

TRIAL, MOST_TRIAL = 0.005, 0.05
"""Share of the work, and units at most, by which each start is tried with several windows."""

WHOLE = 100
"""Tokens a copy from which remainders matter little."""

AFRESH = 4
"""Every AFRESH-th round starts from a heuristic's placement."""

SMALL, SMALL_ROUNDS, SIZE_PER_ROUND = 3000, 6, 50
"""Experts times devices times copies up to which CP-SAT may close what is left; so many rounds
before, and one more for each so much of that size."""

TINY = 256
"""Up to this size CP-SAT has proven the optimum before a kernel could be compiled: no rounds."""

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
        bound = joint_bound(instance, search.remaining_s / 4)
        if bound is not None:
            search.prove(bound)
    size = _size(instance)
    small = size <= SMALL
    if not search.closed and size > TINY:
        _improve(instance, search, starts, min(ROUNDS, SMALL_ROUNDS + size // SIZE_PER_ROUND))
    search.enough = not small or _near_enough(search)


def _is_joint(instance: Instance) -> bool:
    """Tell whether the windows' own bounds leave out something that `joint_bound` has."""
    moves = instance.current is not None and instance.move_cost > 0
    return len(instance.windows) > 1 or instance.nodes > 1 or instance.slot_cost > 0 or moves


def _starts(instance: Instance, search: Search) -> list[Solution]:
    """Return placements to start from, offered; the best one first."""
    found = [rule(instance) for rule in PROBLEM.functions().values()]
    solutions = [solution for solution in found if solution is not None]
    solutions += _node_starts(instance, search.seed)
    values = {id(solution): objective(instance, solution) for solution in solutions}
    solutions.sort(key=lambda solution: values[id(solution)])
    for solution in solutions:
        search.offer(solution, values[id(solution)])
    return solutions


def _by_most(instance: Instance) -> Solution:
    """Return EPLB's placement by most tokens in any window; of one, with few parts of tokens."""
    most = (instance.loads_units.max(axis=0) // instance.units_per_token).tolist()
    copies, slots = instance.most_copies, instance.devices * instance.slots
    if len(instance.windows) == 1:
        copies = min(copies, max(2, -(-max(most) * instance.devices // max(1, sum(most)))))
    held = rebalance(most, slots, 1, 1, instance.devices, copies)
    return best_shares(instance, placed(held, most, instance.devices, True))


def _improve(instance: Instance, search: Search, starts: list[Solution], rounds: int) -> None:
    """Anneal in rounds, most of them from the incumbent or what is as good."""
    arrays, here, exchanges = Arrays.of(instance), search.solution, _has_exchanges(instance)
    several = len(instance.windows) > 1
    # Exchanges keep the numbers of copies, so they start from several.
    turns = [_by_most(instance), *starts] if exchanges else starts

    def ended() -> bool:
        return search.stopped or search.closed or _near_enough(search)

    def after_trial(start: Solution) -> int:
        return objective(instance, arrays.exchanged(start, trial, search))

    if exchanges and several:  # the numbers of copies with which a little work goes furthest
        trial = min(MOST_TRIAL, TRIAL * search.remaining_s)
        turns[:1] = [min(turns, key=after_trial)]

    for number in range(rounds):
        if ended():
            return
        if exchanges:
            start = turns[0] if several else [*turns, here][number % (len(turns) + 1)]
            length = _length(several, number, search.remaining_s)
            here = _offered(instance, search, arrays.exchanged(start, length, search), here)
            if ended():
                return
        fresh = number % AFRESH == AFRESH - 1
        start = starts[number // AFRESH % len(starts)] if fresh else here
        heat = HOT if fresh and number // AFRESH % 2 else HEATS[number % len(HEATS)]
        steps, seed = int(FIRST_STEPS * LONGER**number), 10**6 * search.seed + number
        here = _offered(instance, search, arrays.walked(start, steps, seed, ended, heat), here)


def _has_exchanges(instance: Instance) -> bool:
    """Tell whether what exchanges leave out is little: remainders, nodes, what copies cost."""
    paid = (
        instance.slot_cost > 0
        or instance.links is not None
        or (instance.current is not None and instance.move_cost > 0)
    )
    copies = instance.devices * instance.slots * len(instance.windows)
    whole = instance.work == "kernel" and instance.loads_units.sum() < WHOLE * copies
    return instance.nodes == 1 and not paid and not whole and _size(instance) > SMALL


def _size(instance: Instance) -> int:
    return instance.experts * instance.devices * instance.most_copies


def _length(several: bool, number: int, left: float) -> float:
    """Return the units of work of a round of exchanges; over several windows the last takes all."""
    length: float = FIRST_UNITS * (FAR_LONGER if several else LONGER) ** number
    return left if several and length * FAR_LONGER > left else length


def _offered(instance: Instance, search: Search, found: Solution, here: Solution) -> Solution:
    """Offer a placement with its best shares; return it if it is as good as the best, or `here`."""
    solution = best_shares(instance, found.copies)
    value = objective(instance, solution)
    search.offer(solution, value)
    return solution if value == search.objective else here


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


MAX_PLACES = 64
"""Groups times nodes up to which it is decided where groups lie."""

LARGEST = 10**15
"""Largest sum in CP-SAT's program: its bound comes as a float, which is exact up to 2**53."""

LINEAR = 2
"""CP-SAT's level of linear relaxation: all rows."""


def joint_bound(instance: Instance, limit: float) -> int | None:
    """Return the least objective that copies and nodes allow; None if unknown.

    Proof. In a placement let z_ek = 1 if expert e has k copies, and y_jn = 1 if group j is in node
    n. Then sum_k z_ek = 1 and sum_n y_jn = 1, the sum of k z_ek is at most the number of slots, and
    the fullest device of window w has at least what a copy of e with the most tokens of k takes,
    even if tokens are split freely, the mean of each node's devices, and the window's own bound.
    Copies beyond one per expert cost, and of k copies at least k less those that are there now are
    moves. So the placement gives a solution of this program with its own peaks. Numbers are rounded
    down to a unit, peaks too, so that n devices have up to n - 1 units more than n times the peak;
    and CP-SAT computes in integers.

    Parameters
    ----------
    instance
        One with room.
    limit
        By the solving clock, beside `BOUND_WORK` of CP-SAT's deterministic time.
    """
    own, times = window_bounds(instance), share_times(instance)
    most = times.shape[2]
    total = objective_limit(instance)
    unit = 1
    while total > LARGEST * unit:
        unit *= 2
    model = cp_model.CpModel()
    peaks = [
        model.new_int_var(int(bound) // unit, max(int(bound), total) // unit + 1, f"peak[{w}]")
        for w, bound in enumerate(own)
    ]
    z = [[model.new_bool_var(f"z[{e},{k}]") for k in range(most)] for e in range(instance.experts)]
    for row in z:
        model.add_exactly_one(row)
    copies = sum((k + 1) * flag for row in z for k, flag in enumerate(row))
    model.add(copies <= instance.devices * instance.slots)
    # An expert matters in a window only where a single copy has more than the window's own bound.
    for w, e in zip(*np.nonzero(times[:, :, 0] > own[:, None]), strict=True):
        shares = (times[w, e] // unit).tolist()
        model.add(peaks[w] >= sum(share * flag for share, flag in zip(shares, z[e], strict=True)))
    _add_nodes(instance, model, peaks, unit)
    paid: list[cp_model.LinearExpr] = []
    for e, row in enumerate(z):
        now = instance.experts if instance.current is None else len(instance.current[e])
        for k, flag in enumerate(row):
            new = 0 if instance.current is None else max(0, k + 1 - now)
            cost = (instance.move_cost * new + instance.slot_cost * k) // unit
            paid += [cost * flag] if cost else []
    weights = instance.weights.tolist()
    model.minimize(sum(w * peak for w, peak in zip(weights, peaks, strict=True)) + sum(paid))
    run = Run(model, limit, effort=BOUND_WORK, options={"linearization_level": LINEAR})
    answer = run.solve()
    if answer.bound is None:
        return None
    grid = objective_grid(instance)
    return -(-unit * answer.bound // grid) * grid


def _add_nodes(
    instance: Instance, model: cp_model.CpModel, peaks: list[cp_model.IntVar], unit: int
) -> None:
    """Let each group lie in a node, whose devices' mean is no more than the peak."""
    groups = instance.experts // instance.group_size
    if instance.nodes == 1 or groups * instance.nodes > MAX_PLACES:
        return
    flag = model.new_bool_var
    lies = [[flag(f"lies[{j},{n}]") for n in range(instance.nodes)] for j in range(groups)]
    for row in lies:
        model.add_exactly_one(row)
    # Nodes are alike but for their links: the first group lies in the first one.
    if instance.links is None:
        model.add(lies[0][0] == 1)
    token = min(instance.scaled_token_ns)
    loads = instance.loads_units.reshape(len(peaks), groups, -1).sum(axis=2) * token
    loads //= instance.scale * unit
    lost = instance.devices_per_node - 1 if unit > 1 else 0
    for node in range(instance.nodes):
        held = sum(instance.group_size * row[node] for row in lies)
        model.add(held <= instance.devices_per_node * instance.slots)
        for peak, of_group in zip(peaks, loads.tolist(), strict=True):
            mean = sum(load * row[node] for load, row in zip(of_group, lies, strict=True))
            model.add(instance.devices_per_node * peak + lost >= mean)
