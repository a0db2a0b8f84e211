"""The bound of given prices, certified in integers, and prices that make it high.

Proof. Take any number price[t, e] for each layer, row (step) t and expert e with tokens in it. For
a placement X let v[t] be X on the experts of row t. Then the cost of row t is

    cost(t, v[t]) = (cost(t, v[t]) - sum over e in v[t] of price[t, e]) + the same sum.

The bracket is at least its minimum over all subsets of the row's experts, whatever X is. Weighted
with how many steps a row stands for and summed over all rows and layers, the second parts are the
sum over X of value[e] = sum over t of weight[t] price[t, e]: a linear function of X, of which
`chosen` gives a lower bound over all placements that keep the rules. Both bounds together bound the
objective.

The minimum over subsets is tried out for rows of few experts. For others it is the lesser of two:
all experts on the GPU, where no charge is due; and else, as max(G, O) >= (p G + (q - p) O) / q for
0 <= p <= q, a sum of minima over single experts, plus the offload time and the charge: any p gives
a lower bound, and `certified` takes the best of a bisection. With p fixed to 0 or 1 for all rows
this is the bound of the linear relaxation; the subsets make it better.
"""

from dataclasses import dataclass

import numpy as np

from moeopt.problems.placement.instance import Instance
from moeopt.problems.placement.layer_steps import Flags, Ints, LayerSteps
from moeopt.problems.placement.room import Room, room_of

from .chosen import chosen
from .kernels import Floats, certified, supports

LARGEST = 2**61


@dataclass(frozen=True)
class Model:
    """What the algorithm computes with.

    Attributes
    ----------
    layers, fixed_ns, room
        The merged steps of every layer, the charge, and the limits on the slots.
    grid
        A number that every objective is a multiple of.
    scale
        Power of two in whose parts weights are counted: sums stay in 64 bits.
    """

    layers: list[LayerSteps]
    fixed_ns: int
    room: Room
    grid: int
    scale: int

    @classmethod
    def of(cls, instance: Instance, grid: int) -> "Model":
        """Return the model of an instance."""
        layers, fixed_ns = instance.layer_steps, instance.layer_offload_fixed_ns
        both = sum(
            int((of.weight[of.row] * (of.gpu_ns + of.offload_ns + fixed_ns)).sum()) for of in layers
        )
        scale = 1 << max(0, min(20, (LARGEST // max(1, 2 * both)).bit_length() - 1))
        return cls(layers, fixed_ns, room_of(instance), grid, scale)

    def sides_ns(self, held: Flags) -> list[tuple[Ints, Ints]]:
        """Return, by layer, what the GPU and the other side take in every row."""
        found = []
        for layer, row in zip(self.layers, held, strict=True):
            gpu, off, count = layer.sides(row)
            found.append((gpu, off + self.fixed_ns * (count > 0)))
        return found


@dataclass(frozen=True)
class Answer:
    """What prices say: the bound in floats, and how rows and room disagree, by layer and entry."""

    bound_ns: float
    wanted: Floats
    lacking: list[Floats]


def answer(model: Model, prices: list[Floats]) -> Answer:
    """Return the bound of prices in floats, and the direction in which it rises.

    `lacking` is what the room's choice has of an entry's expert less what its row wants.
    """
    value = np.zeros((len(model.layers), model.room.sizes.shape[1]))
    total, shares = 0.0, []
    for row, (layer, price) in enumerate(zip(model.layers, prices, strict=True)):
        share = np.zeros(len(price))
        total += supports(
            layer.weight, layer.start, layer.gpu_ns, layer.offload_ns, model.fixed_ns, price, share
        )
        value[row] = value_of(layer, price, value.shape[1])
        shares.append(share)
    bound, wanted = chosen(np.rint(value).astype(np.int64), model.room)
    lacking = [
        wanted[row, layer.expert] - share
        for row, (layer, share) in enumerate(zip(model.layers, shares, strict=True))
    ]
    return Answer(total + bound, wanted, lacking)


@dataclass(frozen=True)
class Certified:
    """What prices in whole ns prove, in integers.

    Attributes
    ----------
    base_ns, value
        Any objective is at least the first plus the values of the experts on the GPU; values have
        the shape (layers, experts).
    prices, supports
        By layer, for every entry its price, and for every row `Model.scale` times a number that the
        row's cost is never below once the prices of its experts on the GPU are taken off.
    """

    base_ns: int
    value: Ints
    prices: list[Ints]
    supports: list[Ints]


def certify(model: Model, prices: list[Floats]) -> Certified:
    """Return what prices prove, rounded and cut off where they are absurd."""
    total, value = 0, np.zeros(model.room.sizes.shape, dtype=np.int64)
    wholes, supports = [], []
    for row, (layer, price) in enumerate(zip(model.layers, prices, strict=True)):
        whole = np.clip(
            np.rint(price).astype(np.int64), -layer.offload_ns - model.fixed_ns, layer.gpu_ns
        )
        support = np.empty(layer.rows, dtype=np.int64)
        certified(
            layer.start,
            layer.gpu_ns,
            layer.offload_ns,
            model.fixed_ns,
            whole,
            model.scale,
            support,
        )
        total += int((layer.weight * support).sum())
        np.add.at(value[row], layer.expert, layer.weight[layer.row] * whole)
        wholes.append(whole)
        supports.append(support)
    return Certified(-(-total // model.scale), value, wholes, supports)


def value_of(layer: LayerSteps, price: Floats, experts: int) -> Floats:
    """Return the weighted sum of every expert's prices."""
    paid = layer.weight[layer.row] * price
    return np.bincount(layer.expert, paid, experts).astype(np.float64)
