"""The checker: step by step and layer by layer, the later of GPU and offload. Knows no solvers.

Brute force: every set of experts, for the checker to compare.

With free dispatch each comes with its best dispatch. The objective is a sum over steps and layers,
and what the GPU computes of one layer in one step changes that layer's time alone: so for each of
them every subset is tried with the rest of the GPU empty, and the checker says which is best.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations, product

import numpy as np

from .instance import Instance, Ints, Solution

CONSTRAINTS = {
    "PL-C1": "the GPU holds experts of the model, each once, in at most gpu_slots slots",
    "PL-C2": "with fill, the experts on the GPU take all of gpu_slots",
    "PL-C3": "the host has room for all experts, or without a copy for the offloaded ones",
    "PL-C4": "with restriction whole-layers, a layer is on the GPU as a whole or not at all",
    "PL-C5": "with restriction equal-counts, all layers have equally many experts on the GPU",
    "PL-C6": "in each step and layer the GPU's experts sum to at most the layer's time",
    "PL-C7": "in each step and layer the offloaded experts sum to at most the layer's time",
    "PL-C8": "a layer that offloads an expert with tokens pays the fixed charge on that side",
    "PL-C9": "the GPU computes the experts on it that have tokens; with dispatch free, any of them",
}

OBJECTIVE = ("total_ns",)
"""What is minimised, in order of importance; the name ends with the unit."""

TIMED = ("PL-C6", "PL-C7", "PL-C8")
"""The rules that make up a layer's time."""


@dataclass(frozen=True)
class LayerStep:
    """One layer in one step: the two sides in ns, and the charge, 0 if nothing is offloaded."""

    gpu_ns: int
    offload_ns: int
    fixed_ns: int

    @property
    def time_ns(self) -> int:
        """The later of the two sides."""
        return max(self.gpu_ns, self.offload_ns + self.fixed_ns)

    def without(self, rules: Sequence[str]) -> int:
        """Return the time that is left if some of the rules do not hold."""
        gpu = 0 if "PL-C6" in rules else self.gpu_ns
        fixed = 0 if "PL-C8" in rules else self.fixed_ns
        return max(gpu, 0 if "PL-C7" in rules else self.offload_ns + fixed)


def violations(
    instance: Instance, solution: Solution, total_ns: int | None = None
) -> list[tuple[str, str]]:
    """Return what is wrong with a solution, as (constraint ID, sentence); empty if it is valid.

    Parameters
    ----------
    instance, solution
        The problem and the decision to check.
    total_ns
        The objective claimed, if there is a claim: PL-C6 to PL-C8 hold the solution to it.
    """
    found = [*_shape(instance, solution), *_capacity(instance, solution)]
    found += _restrictions(instance, solution)
    found += _dispatch(instance, solution)
    if total_ns is not None:
        found += _overruns(instance, solution, total_ns)
    return found


def objective(instance: Instance, solution: Solution) -> int:
    """Return the sum of all layers' times over all steps, in ns."""
    gpu_ns, offload_ns, fixed_ns = _sides(instance, solution)
    return int(np.maximum(gpu_ns, offload_ns + fixed_ns).sum())


def layer_steps(instance: Instance, solution: Solution) -> Iterator[LayerStep]:
    """Yield every layer of every step, in the order of execution."""
    sides = (side.tolist() for side in _sides(instance, solution))
    return (LayerStep(*layer) for layer in zip(*sides, strict=True))


def _sides(instance: Instance, solution: Solution) -> tuple[Ints, Ints, Ints]:
    """Return both sides and the charge of every layer of every step, in the order of execution.

    Experts of a layer that `gpu` leaves out are offloaded, and so are numbers that do not exist:
    `violations` reports both. Where the solution says what the GPU computes, that counts.
    """
    entries, experts = instance.entries, instance.experts
    held = np.zeros((instance.layers, experts), dtype=bool)
    for layer, row in enumerate(solution.gpu[: instance.layers]):
        held[layer, [expert for expert in row if expert < experts]] = True
    on_gpu = held[entries.row % instance.layers, entries.expert]
    places = product(range(len(instance.steps)), range(instance.layers))
    stated = (
        {}
        if solution.computed_on_gpu is None
        else {
            row: runs
            for row, place in enumerate(places)
            if (runs := computed(solution, *place)) is not None
        }
    )
    if stated:
        cells = [row * experts + e for row, runs in stated.items() for e in runs if e < experts]
        runs_there = np.isin(entries.row * experts + entries.expert, cells)
        on_gpu = np.where(np.isin(entries.row, list(stated)), runs_there, on_gpu)
    gpu_ns = entries.by_row(entries.gpu_ns * on_gpu)
    offload_ns = entries.by_row(entries.offload_ns * ~on_gpu)
    return gpu_ns, offload_ns, instance.layer_offload_fixed_ns * (entries.by_row(~on_gpu) > 0)


def computed(solution: Solution, step: int, layer: int) -> tuple[int, ...] | None:
    """Return what a solution says that the GPU computes; None if it says nothing of that layer."""
    stated = solution.computed_on_gpu
    if stated is None or step >= len(stated) or layer >= len(stated[step]):
        return None
    return stated[step][layer]


def _shape(instance: Instance, solution: Solution) -> Iterator[tuple[str, str]]:
    if len(solution.gpu) != instance.layers:
        yield "PL-C1", f"gpu has {len(solution.gpu)} rows for {instance.layers} layers"
    for layer, row in enumerate(solution.gpu):
        if len(set(row)) < len(row):
            yield "PL-C1", f"gpu[{layer}]: names an expert twice"
        if row and max(row) >= instance.experts:
            yield "PL-C1", f"gpu[{layer}]: there is no expert {max(row)}, only {instance.experts}"


def _capacity(instance: Instance, solution: Solution) -> Iterator[tuple[str, str]]:
    sizes = instance.sizes
    used = sum(
        int(sizes[layer, expert])
        for layer, row in enumerate(solution.gpu[: instance.layers])
        for expert in set(row)
        if expert < instance.experts
    )
    if used > instance.gpu_slots:
        yield "PL-C1", f"{used} slots are taken, there are {instance.gpu_slots}"
    if instance.fill and used < instance.gpu_slots:
        yield "PL-C2", f"{used} of {instance.gpu_slots} slots are taken, all must be"
    on_host = int(sizes.sum()) - (0 if instance.host_copy else used)
    if instance.host_slots is not None and on_host > instance.host_slots:
        yield "PL-C3", f"the host holds {on_host} slots and has room for {instance.host_slots}"


def _restrictions(instance: Instance, solution: Solution) -> Iterator[tuple[str, str]]:
    counts = [len(set(row)) for row in solution.gpu]
    if instance.restriction == "whole-layers":
        for layer, count in enumerate(counts):
            if count not in (0, instance.experts):
                yield "PL-C4", f"gpu[{layer}]: {count} of {instance.experts} experts"
    if instance.restriction == "equal-counts" and len(set(counts)) > 1:
        yield "PL-C5", f"layers have from {min(counts)} to {max(counts)} experts on the GPU"


def _dispatch(instance: Instance, solution: Solution) -> Iterator[tuple[str, str]]:
    """Compare what the GPU computes with what is on it and has tokens."""
    stated = solution.computed_on_gpu
    if stated is None:
        return
    if len(stated) != len(instance.steps):
        yield "PL-C9", f"computed_on_gpu has {len(stated)} rows for {len(instance.steps)} steps"
        return
    for number, (of_step, step) in enumerate(zip(stated, instance.steps, strict=True)):
        if len(of_step) != instance.layers:
            lists = f"{len(of_step)} lists for {instance.layers} layers"
            yield "PL-C9", f"computed_on_gpu[{number}] has {lists}"
            continue
        for layer, (runs, active) in enumerate(zip(of_step, step, strict=True)):
            there = set(solution.gpu[layer]) if layer < len(solution.gpu) else set()
            able = there & {expert for expert, _ in active}
            where = f"computed_on_gpu[{number}][{layer}]"
            if len(set(runs)) < len(runs):
                yield "PL-C9", f"{where}: names an expert twice"
            if wrong := sorted(set(runs) - able):
                reason = "has no tokens there" if wrong[0] in there else "is not on the GPU"
                yield "PL-C9", f"{where}: expert {wrong[0]} {reason}"
            elif instance.dispatch == "resident" and (left := sorted(able - set(runs))):
                yield "PL-C9", f"{where}: expert {left[0]} is on the GPU and must be computed there"


def _overruns(instance: Instance, solution: Solution, claim: int) -> Iterator[tuple[str, str]]:
    """Name the rules that a claim below the objective leaves out.

    A claim is one sum and says nothing about each layer. Named are the fewest rules without which
    the sum meets the claim; of several such sets the one whose sum is nearest to it.
    """
    rows = list(layer_steps(instance, solution))
    total = sum(row.time_ns for row in rows)
    if total <= claim:
        return
    met: dict[tuple[str, ...], int] = {}
    for size in range(1, len(TIMED) + 1):
        for rules in combinations(TIMED, size):
            met[rules] = sum(row.without(rules) for row in rows)
        met = {rules: left for rules, left in met.items() if left <= claim}
        if met:
            break
    for rule in max(met, key=lambda rules: met[rules]) if met else TIMED:
        what = {
            "PL-C6": "the GPU's experts",
            "PL-C7": "the offloaded experts",
            "PL-C8": "the charges",
        }[rule]
        yield rule, f"{what} take more than the claimed {claim} ns leave them: {total} ns in all"


MAX_CANDIDATES = 2**14
"""The checker walks through all steps for each."""

Experts = tuple[int, ...]


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return int(2 ** (instance.layers * instance.experts))


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield all sets, whether they fit into the slots or not: checking is the checker's work."""
    layers, steps = range(instance.layers), range(len(instance.steps))

    def placed(
        gpu: tuple[Experts, ...], computed: tuple[tuple[Experts, ...], ...] | None = None
    ) -> Solution:
        return Solution.model_construct(
            problem="placement", instance=instance.name, gpu=gpu, computed_on_gpu=computed
        )

    @cache
    def best(step: int, layer: int, held: Experts) -> Experts:
        """Return what the GPU computes there if it holds these experts and nothing else."""
        gpu = tuple(held if row == layer else () for row in layers)

        def total_ns(runs: Experts) -> int:
            rows = (tuple(runs if (t, r) == (step, layer) else () for r in layers) for t in steps)
            return objective(instance, placed(gpu, tuple(rows)))

        active = [expert for expert, _ in instance.steps[step][layer] if expert in held]
        return min(_subsets(active), key=total_ns)

    for gpu in product(list(_subsets(range(instance.experts))), repeat=instance.layers):
        if instance.dispatch == "free":
            rows = (tuple(best(t, layer, gpu[layer]) for layer in layers) for t in steps)
            yield placed(gpu, tuple(rows))
        else:
            yield placed(gpu)


def _subsets(items: Sequence[int]) -> Iterator[Experts]:
    """Yield all subsets, the largest ones last."""
    return chain.from_iterable(combinations(items, size) for size in range(len(items) + 1))
