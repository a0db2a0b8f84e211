"""A certificate by whichever of an instance's models proves most.

Also what lemmas' models count, for layout and relayout; nothing here is trusted.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from ortools.linear_solver import pywraplp

from moeopt.core.clock import TimeLimitError, checkpoint, solving_clock, told
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.search import Search
from moeopt.problems.relayout.modes import Modes
from moeopt.problems.relayout.striped_reads.plan_model import PlanModel
from moeopt.problems.relayout.striped_reads.plans import TooManyError

from .certificate import Model
from .emit import Proof, Relaxation, certify, proven
from .lemmas import LEMMAS
from .lemmas.layout import Counted, Packing, counted
from .lemmas.plans import MOST_LENGTHS
from .model import Form

if TYPE_CHECKING:
    from moeopt.problems.layout import Instance
    from moeopt.problems.relayout import Instance as Relayout


SCALE = 600
"""Weight of what fills a DIMM."""

NODES, ROUNDS, COLUMNS = 400, 40, 80
"""Most branches, rows of weights in each, and patterns for each of these."""

LABELS, PLACES_S = 20_000, 8.0
"""Most labels per step, and most time, with which places of a number of reads are looked for."""

SLACK = 1e-6

Vector = NDArray[np.float64]


def found_weights(instance: "Instance", below: int) -> list[list[int]]:
    """Return weights that leave the relaxations of most branches no point.

    A branch has a number of striped reads, then bounds of the sums that `counted` names first.
    """
    model = counted(instance, below)
    weights: list[list[int]] = []
    patterns: list[Vector] = []
    sides = list(zip(*model.made.variables, strict=True))[:2]
    lower, upper = (np.array(side, float) for side in sides)
    relaxation = _relaxation(model)
    nodes = 0
    for number, flag in enumerate(model.reads):
        low = lower.copy()
        low[flag] = 1
        pending = [(low, upper)]
        while pending and nodes < NODES:
            low, high = pending.pop()
            nodes += 1
            for _ in range(ROUNDS):
                checkpoint(0.01)
                found = relaxation.solved(low, high, why=False)
                point = found.values
                if point is None or not found.weight or found.least >= below:
                    break
                lengths = model.packing.lengths
                items = np.array([sum(point[j] for j, _ in model.items[n]) for n in lengths])
                row = _violated(model.packing, number, items, patterns)
                if row is None:
                    pending += _halves(model.made.first, point, low, high)
                    break
                weights.append(row)
                model.weigh(row)
                relaxation = _relaxation(model)
    return weights


def found_places(instance: "Relayout", below: int, limit: float = PLACES_S) -> list[list[int]]:
    """Return numbers of striped reads with lengths of places that leave combinations no room."""
    modes = Modes(instance)
    limit = (below - 1) // modes.step_ns
    places = [[reads] for reads in modes.reads if PlanModel.applies(modes)]
    with suppress(TooManyError):
        plans = PlanModel(modes, limit)
        for of in places:
            plans.solve(limit, of[0], Search(limit_s=limit), LABELS)
            of += sorted(length * modes.step_ns for length in plans.thresholds[of[0]])
    return [of[: MOST_LENGTHS + 1] for of in places if len(of) > 1]


def _relaxation(model: Counted) -> Relaxation:
    made = model.made
    data = {
        "format": "moeopt-model", "vars": made.variables, "rows": made.rows, "lemmas": [],
        "objective": made.objective, "constant": 0, "denominator": 1, "grid": 1,
    }  # fmt: skip
    return Relaxation(Model(data))


def _halves(
    first: list[int], point: Vector, lower: Vector, upper: Vector
) -> list[tuple[Vector, Vector]]:
    """Return the boxes of a branch on the first sum that is no whole number; none if all are."""
    for column in first:
        if abs(point[column] - round(point[column])) > SLACK:
            low, high = lower.copy(), upper.copy()
            high[column] = np.floor(point[column])
            low[column] = high[column] + 1
            return [(low, upper), (lower, high)]
    return []


def _violated(
    packing: Packing, number: int, items: Vector, patterns: list[Vector]
) -> list[int] | None:
    """Return weights by which the items are too heavy for all DIMMs; None if they fit in parts."""
    room, dimms = packing.rooms[number], packing.instance.dimms
    lengths = np.array(packing.lengths)
    some = np.flatnonzero(items > SLACK)
    known = [one for one in patterns if one @ lengths <= room]
    slots = packing.instance.dimm_slots
    for place in some:
        count = packing.numbers[place]
        if lengths[place]:
            count = min(count, int(room // lengths[place]))
        one = np.zeros(len(lengths))
        one[place] = count if slots is None else min(count, slots)
        if not one[place]:
            return [int(length >= lengths[place]) for length in packing.lengths]
        known.append(one)
    master = _Master(some, items)
    for one in known:
        master.add(one)
    for _ in range(COLUMNS):
        checkpoint(0.005)
        if (least := master.solve()) is None:
            return None
        prices = master.prices(len(lengths))
        weights = np.rint(prices * SCALE).astype(int)
        pattern, value = _heaviest(packing, weights.tolist(), room)
        if weights @ items > dimms * value * (1 + SLACK):
            # What is longer may weigh as much: it takes the place of what is shorter.
            return [int(one) for one in np.maximum.accumulate(weights[::-1])[::-1]]
        if value <= SCALE * (1 + 1e-3) or least <= dimms:
            return None
        master.add(pattern)
        patterns.append(pattern)
    return None


class _Master:
    """How many DIMMs, in parts, hold some items by known patterns; patterns come one by one."""

    def __init__(self, some: NDArray[np.int64], items: Vector) -> None:
        self.some = some.tolist()
        self.solver = pywraplp.Solver.CreateSolver("GLOP")
        self.rows = [self.solver.Constraint(float(items[n]), np.inf) for n in self.some]
        self.solver.Objective().SetMinimization()

    def add(self, pattern: Vector) -> None:
        """Add a pattern."""
        column = self.solver.NumVar(0.0, np.inf, "")
        self.solver.Objective().SetCoefficient(column, 1.0)
        for row, place in zip(self.rows, self.some, strict=True):
            if pattern[place]:
                row.SetCoefficient(column, float(pattern[place]))

    def solve(self) -> float | None:
        """Return the least number; None if it was not found."""
        done = self.solver.Solve() == pywraplp.Solver.OPTIMAL
        return float(self.solver.Objective().Value()) if done else None

    def prices(self, size: int) -> Vector:
        """Return what an item of each length is worth."""
        found = np.zeros(size)
        found[self.some] = [max(row.dual_value(), 0.0) for row in self.rows]
        return found


def _heaviest(packing: Packing, weights: list[int], room: int) -> tuple[Vector, int]:
    """Return the heaviest items of a DIMM, and their weight."""
    loads, steps = packing.least_loads(weights, room)
    slot, value = max(zip(*np.nonzero(loads <= room), strict=True), key=lambda at: at[1])
    pattern, weight = np.zeros(len(weights)), int(value)
    for place, better in reversed(steps):
        if better[slot, value]:
            pattern[place] += 1
            value -= weights[place]
            slot -= len(loads) > 1
    return pattern, weight


def forms(
    instance: InstanceEnvelope, below: int, places: float = PLACES_S
) -> Iterator[Form | None]:
    """Yield the forms for what costs less than `below`, the likeliest first; None: exact model.

    `places` is the most work for each number of reads of `found_places`.
    """
    known: Any = instance
    for lemma in LEMMAS.get(instance.problem, ()):
        if instance.problem == "relayout":
            yield {"lemma": lemma, "below": below, "places": found_places(known, below, places)}
        elif lemma != "packing weights":
            yield {"lemma": lemma, "below": below}
        elif len(known.scenarios) == 1:
            yield {"lemma": lemma, "below": below, "weights": found_weights(known, below)}
    yield None


def proven_by_any(instance: InstanceEnvelope, objective: int | None, limit: float) -> Proof | None:
    """Return a checked certificate that nothing costs less, by a lemma's model or the exact one.

    A lemma's model may have half of what is left of the limit. What `proven` says holds here too.
    """
    clock = solving_clock()
    end = clock.now() + limit
    some = objective is not None and objective > 0
    try:
        with told(end, gives_up=True):
            for form in forms(instance, objective or 0, limit / 8) if some else [None]:
                left = end - clock.now()
                found = proven(instance, objective, left if form is None else left / 2, form)
                if found is not None:
                    return found
    except (InputError, TimeLimitError):
        pass
    return None


def best_certificate(
    instance: InstanceEnvelope, upper: int, limit_s: float, max_nodes: int, exact: bool = True
) -> Proof:
    """Return the certificate of the highest bound.

    Parameters
    ----------
    upper
        The objective of a known solution, in steps.
    limit_s, max_nodes
        When to stop, in all, and with each model.
    exact
        Whether to try the exact model where one by a lemma has given a certificate.

    Raises
    ------
    InputError
        If no model gives any.
    """
    clock = solving_clock()
    end, best, reason = clock.now() + limit_s, None, "nothing costs less than 1"
    tried = list(forms(instance, upper)) if upper > 0 else [None]
    # The root of each first, where there are several that a lemma makes: one may say it all.
    rounds = [(form, max_nodes) for form in tried]
    if len(tried) > 2:
        rounds = [(form, 1) for form in tried if form is not None] + rounds
    for form, nodes in rounds:
        if form is None and best is not None and not exact:
            break
        try:
            with told(end, gives_up=best is not None):
                found = certify(instance, upper, (end - clock.now()) / 2, nodes, form)
        except TimeLimitError:
            break
        except InputError as error:
            reason = str(error)
            continue
        if best is None or found["bound"] > best["bound"]:
            best = found
        if best["bound"] == upper:
            break
    if best is None:
        raise InputError(reason)
    return best
