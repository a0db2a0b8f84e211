"""The Lagrangian relaxation: its bound, in integers, and reduced-cost fixing.

It is a Lagrangian decomposition by variable splitting (Guignard and Kim 1987). x[e] says whether
expert e is on the GPU. Each row (layer and distinct step) t gets its own copy v[t, e] for the
experts that have tokens in it, and the constraints v[t, e] = x[e] are relaxed with a multiplier
m[t, e] of any sign. What is left falls apart:

- one row subproblem for each t: min over v of cost(t, v) - sum of m[t, e] over the e in v;
- one capacity subproblem: min over x that keep the rules of the sum of c[e] over the e in x, with
  c[e] = sum over t of weight[t] m[t, e].

Proof (weak duality). For a placement x let v[t] be x on the experts of row t. Then

    cost(t, v[t]) = (cost(t, v[t]) - sum of m[t, e] over e in v[t]) + the same sum.

The bracket is at least the row subproblem's optimum. Weighted with how many steps a row stands for
and summed over all rows, the second parts are the sum of c[e] over the e in x, which is at least
the capacity subproblem's optimum. So the two optima together are a lower bound on the objective,
for any multipliers, and a lower bound on either optimum will do as well.

With free dispatch v[t, e] says whether the GPU computes expert e, and v[t, e] <= x[e] takes the
place of the equation. Its multiplier is at most 0, and the rest holds as it stands: cost(t, v[t])
is the bracket plus the sum of m[t, e] over e in v[t], which is at least that over all e in x.

Row subproblems of few experts are enumerated. For others the bound is the lesser of two: all
experts on the GPU, where no charge is due; and else, as max(G, O) >= (p G + (q - p) O) / q for
0 <= p <= q, a sum of minima over single experts, plus the offload time and the charge: any p gives
a lower bound, and `kernels.by_weighting` takes the best of a few. With p fixed to 0 or 1 for all
rows this is the bound of the linear relaxation; the subsets make it better.

The multipliers are raised by the volume algorithm (`moeopt.algorithms.lagrangian`). Its averages
of the subproblems' solutions approach a solution of the linear relaxation, from which placements
are rounded.

Whole layers on the GPU or none of one: a 0-1 knapsack, solved by a table.

Proof. With this restriction a layer costs either what it takes with all its experts on the GPU, or
with none, and takes all its slots or none. So the objective is a sum over layers of two constants
each: a multiple-choice knapsack. Slots are counted in the layers' greatest common divisor.
"""

from dataclasses import dataclass

import numpy as np

from moeopt.algorithms.knapsack import FAR, Knapsack
from moeopt.algorithms.lagrangian import Averages, stride
from moeopt.core.clock import spend
from moeopt.core.rounding import rounded
from moeopt.problems.placement.bounds import Capacity, capacity_of, knapsack_bound
from moeopt.problems.placement.instance import Instance
from moeopt.problems.placement.layer_steps import Flags, Floats, Ints, LayerSteps

from .kernels import FEW, ROW_STEPS_PER_UNIT, row_steps, row_subproblems

LARGEST = 2**61

LAYER_WORK = 3e-5
"""Units of work that a layer takes besides its rows: a dozen calls of NumPy."""


@dataclass(frozen=True)
class Model:
    """What the algorithm computes with.

    Attributes
    ----------
    layers, fixed_ns, capacity
        The merged steps of every layer, the charge, and the limits on the slots.
    parts
        Where each layer's entries stand among those of all layers, one after the other.
    grid
        A number that every objective is a multiple of.
    scale
        Power of two in whose parts weights are counted: sums stay in 64 bits.
    row_work
        What all row subproblems take, in units of work.
    """

    layers: list[LayerSteps]
    fixed_ns: int
    capacity: Capacity
    parts: list[slice]
    grid: int
    scale: int
    row_work: float

    @classmethod
    def of(cls, instance: Instance, grid: int) -> "Model":
        """Return the model of an instance."""
        layers, fixed_ns = instance.layer_steps, instance.layer_offload_fixed_ns
        both = sum(
            int((of.weight[of.row] * (of.gpu_ns + of.offload_ns + fixed_ns)).sum()) for of in layers
        )
        scale = 1 << max(0, min(20, (LARGEST // max(1, 2 * both)).bit_length() - 1))
        work = sum(map(row_steps, layers)) / ROW_STEPS_PER_UNIT
        ends = np.cumsum([len(of.expert) for of in layers]).tolist()
        parts = [slice(end - len(of.expert), end) for of, end in zip(layers, ends, strict=True)]
        return cls(layers, fixed_ns, capacity_of(instance), parts, grid, scale, work)

    @property
    def free_dispatch(self) -> bool:
        """Whether experts on the GPU may be computed on the other side."""
        return self.layers[0].free_dispatch

    @property
    def large_rows(self) -> bool:
        """Whether a mean row is too large to be enumerated: a linear relaxation is as good then."""
        entries = sum(len(of.expert) for of in self.layers)
        return entries > FEW * sum(of.rows for of in self.layers)

    def sides_ns(self, held: Flags) -> list[tuple[Ints, Ints]]:
        """Return, by layer, what the GPU and the other side take in every row."""
        found = []
        for layer, row in zip(self.layers, held, strict=True):
            gpu, off, count = layer.sums(layer.computed(row, self.fixed_ns))
            found.append((gpu, off + self.fixed_ns * (count > 0)))
        return found


@dataclass(frozen=True)
class Relaxed:
    """The relaxation at some multipliers, rounded to whole ns: what it proves, in integers.

    Attributes
    ----------
    bound
        The Lagrangian bound, in ns.
    base_ns, cost_ns
        Any objective is at least the first plus the sum of the second over the experts on the GPU;
        `cost_ns` is c of the capacity subproblem, shape (layers, experts).
    at
        The multipliers before they were rounded, shape (entries of all layers,).
    multipliers, row_bounds
        By layer, for every entry its multiplier, and for every row `Model.scale` times a lower
        bound on its subproblem.
    selected
        The capacity subproblem's x, shape (layers, experts), from 0 to 1.
    subgradient
        By entry x[e] - v[t, e], the subgradient less the factor weight[t].
    """

    bound: int
    base_ns: int
    cost_ns: Ints
    at: Floats
    multipliers: list[Ints]
    row_bounds: list[Ints]
    selected: Floats
    subgradient: Floats


def allowed(model: Model, multipliers: Floats) -> Floats:
    """Return multipliers cut off where they are absurd, and with free dispatch at 0."""
    least = np.concatenate([-layer.offload_ns - model.fixed_ns for layer in model.layers])
    if model.free_dispatch:
        return np.clip(multipliers, least, 0.0)
    return np.clip(multipliers, least, np.concatenate([layer.gpu_ns for layer in model.layers]))


def relaxed(model: Model, multipliers: Floats) -> Relaxed:
    """Evaluate the relaxation at allowed multipliers, one for each entry of all layers."""
    spend(model.row_work + len(model.layers) * LAYER_WORK)
    total, cost = 0, np.zeros(model.capacity.sizes.shape, dtype=np.int64)
    wholes, bounds, copies = [], [], []
    for row, (layer, part) in enumerate(zip(model.layers, model.parts, strict=True)):
        whole = np.rint(multipliers[part]).astype(np.int64)
        bound, copy = np.empty(layer.rows, dtype=np.int64), np.empty(len(whole))
        times = layer.start, layer.gpu_ns, layer.offload_ns, model.fixed_ns
        row_subproblems(*times, whole, model.scale, bound, copy)
        total += int((layer.weight * bound).sum())
        np.add.at(cost[row], layer.expert, layer.weight[layer.row] * whole)
        wholes.append(whole)
        bounds.append(bound)
        copies.append(copy)
    base_ns = -(-total // model.scale)
    chosen_ns, selected = capacity_subproblem(cost, model.capacity)
    of_entries = [selected[row, layer.expert] for row, layer in enumerate(model.layers)]
    subgradient = np.concatenate(of_entries) - np.concatenate(copies)
    found = multipliers, wholes, bounds, selected, subgradient
    return Relaxed(base_ns + chosen_ns, base_ns, cost, *found)


@dataclass(frozen=True)
class Decomposition:
    """The dual that the volume algorithm raises."""

    model: Model

    def evaluate(self, at: Floats) -> Relaxed:
        """Evaluate the relaxation."""
        return relaxed(self.model, allowed(self.model, at))

    def seen(self, value: Relaxed) -> Averages:
        """Return the subgradient, and the capacity subproblem's solution."""
        return {"subgradient": value.subgradient, "selected": value.selected}

    def moved(self, now: Relaxed, mean: Averages, step: float, gap: float) -> Floats | None:
        """Return multipliers a step along the mean subgradient."""
        upward = mean["subgradient"]
        if self.model.free_dispatch:  # a multiplier of 0 must not become positive
            upward = np.where((now.at >= 0) & (upward > 0), 0.0, upward)
        factor = stride(step, gap, upward)
        return now.at + factor * upward if factor else None


def capacity_subproblem(cost: Ints, capacity: Capacity) -> tuple[int, Floats]:
    """Return a lower bound on the summed cost of any placement, and who attains it or nearly.

    Parameters
    ----------
    cost
        Of each expert on the GPU, shape (layers, experts); negative where it gains.

    Returns
    -------
    int, Floats
        The second from 0 to 1: with sizes one expert may be there in part.

    Notes
    -----
    Proof for equal counts: with n experts in each layer the sum is at least that of the n cheapest
    of each. Only those n count for which some choice of n experts per layer can fit. For the rest,
    and for whole layers, see `knapsack_bound`.
    """
    bound, _ = knapsack_bound(cost, capacity)
    if capacity.restriction == "equal-counts":
        equal, selected = _equal_counts(cost, capacity)
        if equal >= bound:
            return equal, selected
    return bound, _by_density(cost, capacity)


def reduced_cost_fixing(cost: Ints, capacity: Capacity, most: int) -> tuple[Flags, Flags]:
    """Return who can be on the GPU, and who off it, if the costs sum to at most `most`.

    Notes
    -----
    Proof. With the multiplier u of `knapsack_bound`, the reduced cost of an expert is
    cost + u size, and the sum of any placement is at least that bound plus |reduced cost| of each
    expert on the side that the bound does not choose. With equal counts it is also, for its own n,
    at least the n cheapest of each layer; an expert beyond these that is on the GPU replaces the
    n-th cheapest, and one of them that is off is replaced by the next one.
    """
    bound, multiplier = knapsack_bound(cost, capacity)
    reduced = cost + multiplier * capacity.sizes
    near = np.abs(reduced) <= most - bound
    on, off = (reduced < 0) | near, (reduced >= 0) | near
    if bound > most:
        on, off = np.zeros_like(on), np.zeros_like(off)
    if capacity.restriction == "equal-counts":
        on_too, off_too = _fixed_by_counts(cost, capacity, most)
        return on & on_too, off & off_too
    return on, off


def _fixed_by_counts(cost: Ints, capacity: Capacity, most: int) -> tuple[Flags, Flags]:
    ranked, counts, sums = _by_count(cost, capacity)
    on, off = np.zeros(cost.shape, dtype=bool), np.zeros(cost.shape, dtype=bool)
    for n in counts.tolist():
        if n > 0:
            on |= sums[n] + np.maximum(0, cost - ranked[:, [n - 1]]) <= most
        if n < cost.shape[1]:
            off |= sums[n] + np.maximum(0, ranked[:, [n]] - cost) <= most
    return on, off


def _by_count(cost: Ints, capacity: Capacity) -> tuple[Ints, Ints, Ints]:
    """Return costs ranked by layer, the counts that can fit, and the least sum of every count."""
    ranked, small = np.sort(cost, axis=1), np.sort(capacity.sizes, axis=1)
    sums, fewest, largest = (
        np.concatenate([[0], rows.cumsum(axis=1).sum(axis=0)])
        for rows in (ranked, small, small[:, ::-1])
    )
    counts = np.flatnonzero((fewest <= capacity.most) & (largest >= capacity.least))
    return ranked, counts, sums


def _equal_counts(cost: Ints, capacity: Capacity) -> tuple[int, Floats]:
    _, counts, sums = _by_count(cost, capacity)
    if not len(counts):  # nothing is feasible: any bound is right
        return int(np.iinfo(np.int64).min), np.zeros(cost.shape)
    count = int(counts[sums[counts].argmin()])
    order = np.argsort(cost, axis=1, kind="stable")
    selected = np.zeros(cost.shape)
    np.put_along_axis(selected, order[:, :count], 1.0, axis=1)
    return int(sums[count]), selected


def _by_density(cost: Ints, capacity: Capacity) -> Floats:
    """Take experts by cost per slot, as far as they gain and fit, and as many as are due."""
    sizes = capacity.sizes.ravel()
    order = np.argsort(cost.ravel() / sizes, kind="stable")
    gaining = int(sizes[cost.ravel() < 0].sum())
    limit = max(capacity.least, min(capacity.most, gaining))
    before = np.cumsum(sizes[order]) - sizes[order]
    selected = np.zeros(len(sizes))
    selected[order] = np.clip((limit - before) / sizes[order], 0, 1)
    return selected.reshape(cost.shape)


SOFT = 0.1
"""Rows whose two sides differ by this part of the longer one begin with clearly unequal weights."""


def first_multipliers(model: Model, held: Flags) -> Floats:
    """Return multipliers from a placement: each row weighs its sides by which one is longer."""
    weights = []
    for gpu, off in model.sides_ns(held):
        lead = (gpu - off) / (SOFT * np.maximum(gpu, off) + 1)
        weights.append(rounded(1 / (1 + np.exp(-np.clip(lead, -50, 50)))))
    return weighed(model, weights)


def weighed(model: Model, weights: list[Floats]) -> Floats:
    """Return the multipliers at which rows weigh the GPU's side, by layer from 0 to 1."""
    of_entries = [
        of_rows[layer.row] * layer.gpu_ns - (1 - of_rows[layer.row]) * layer.offload_ns
        for layer, of_rows in zip(model.layers, weights, strict=True)
    ]
    return np.concatenate(of_entries)


def cheapest_layers(model: Model) -> Flags | None:
    """Return the best placement; None if there is none.

    Raises
    ------
    TooLarge
        If the table would not fit into memory.
    """
    capacity = model.capacity
    sizes = capacity.sizes.sum(axis=1)
    unit = int(np.gcd.reduce(sizes))
    most, least = capacity.most // unit, -(-capacity.least // unit)
    if least > most:
        return None
    experts = capacity.sizes.shape[1]
    costs = [
        [layer.cost_ns(np.full(experts, there), model.fixed_ns) for there in (False, True)]
        for layer in model.layers
    ]
    weights = np.column_stack([np.zeros_like(sizes), sizes // unit])
    table = Knapsack(weights, np.array(costs, dtype=np.int64), most)
    at = least + int(table.costs_at[least:].argmin())
    if table.costs_at[at] >= FAR:
        return None
    held: Flags = np.repeat(table.choice(at)[:, None] > 0, experts, axis=1)
    return held
