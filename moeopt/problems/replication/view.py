"""What reports say about a placement, and where two of them differ."""

from collections.abc import Iterator

from moeopt.problems.view import Difference, expert_words

from .check import device_loads, moved
from .instance import Instance
from .solution import Solution

PER_MILLE = 1000


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return copies, moves, and how well the devices are balanced.

    `balancedness_permille` is the mean load of all devices over that of the fullest one, summed
    over the windows before they are divided, as load balancers report it; rounded down.
    """
    loads = device_loads(instance, solution)
    weights = instance.weights.tolist()
    peaks = sum(weight * max(row) for weight, row in zip(weights, loads, strict=True))
    means = sum(weight * sum(row) for weight, row in zip(weights, loads, strict=True))
    share = PER_MILLE * means // (instance.devices * peaks) if peaks else PER_MILLE
    window = max(range(len(loads)), key=lambda number: weights[number] * max(loads[number]))
    return {
        "bottleneck": f"device {loads[window].index(max(loads[window]))}",
        "copies": sum(map(len, solution.copies)),
        "most_copies": max(map(len, solution.copies)),
        "moved": len(moved(instance, solution)),
        "balancedness_permille": share,
    }


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield the experts with another number of copies, by their tokens."""
    for expert, (mine, theirs) in enumerate(zip(ours.copies, best.copies, strict=True)):
        if len(mine) != len(theirs):
            tokens = sum(w.weight * w.loads[expert] for w in instance.windows)
            words = [f"{len(row)} cop{'ies' if len(row) != 1 else 'y'}" for row in (mine, theirs)]
            yield tokens, expert_words(expert, tokens), words[0], words[1]
