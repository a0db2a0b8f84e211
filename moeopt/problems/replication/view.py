"""What reports say about a placement, and where two of them differ."""

from collections.abc import Iterator

from moeopt.core.view import Changes, Difference, expert_words, replaced

from .check import device_loads, moved
from .instance import Instance, Solution

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


def changes(instance: Instance, solution: Solution) -> Changes:
    """Yield copies of the fullest devices moved, left out or exchanged, and copies added.

    Other moves leave the fullest device of every window as full as it is.
    """
    loads, copies = device_loads(instance, solution), solution.copies
    fullest = sorted({at for row in loads for at, load in enumerate(row) if load == max(row)})
    on: list[list[int]] = [[] for _ in range(instance.devices)]
    for expert, devices in enumerate(copies):
        for device in devices:
            on[device].append(expert)

    def plan(*changed: tuple[int, int | None, int | None]) -> Solution:
        rows = copies
        for expert, source, target in changed:
            left = tuple(device for device in rows[expert] if device != source)
            rows = replaced(rows, expert, left if target is None else (*left, target))
        return solution.model_copy(update={"copies": rows})

    for device in fullest:
        for expert in on[device]:
            what = f"expert {expert}"
            yield f"{what}: no copy on device {device}", plan((expert, device, None))
            for other in range(instance.devices):
                if other == device or expert in on[other]:
                    continue
                if len(on[other]) < instance.slots:
                    words = f"{what} from device {device} to {other}"
                    yield words, plan((expert, device, other))
                    yield f"{what}: one more copy, on {other}", plan((expert, None, other))
                for back in on[other]:
                    if back not in on[device]:
                        words = f"{what} from device {device} to {other}, expert {back} back"
                        yield words, plan((expert, device, other), (back, other, device))
