"""The checker: which slices may be pulled, and when both sides are done. Knows no solvers."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from .instance import Instance, Solution

CONSTRAINTS = {
    "BA-C1": "the GPU takes from each unit at most the slices of an expert that it holds",
    "BA-C2": "pulled slices pass the link and then the GPU one after the other, activations added",
    "BA-C3": "each unit computes the slices it keeps one after the other, activations added",
}

OBJECTIVE = ("makespan_ns",)
"""What is minimised, in order of importance; the name ends with the unit."""


@dataclass(frozen=True)
class Sides:
    """What each side is made of, in ns; `units_ns` is how long each NDP unit computes.

    Both overheads are the activations', due if any NDP work remains (Eq. 1 and 2).
    """

    flow_shop_ns: int
    gpu_overhead_ns: int
    units_ns: tuple[int, ...]
    ndp_overhead_ns: int

    @property
    def gpu_ns(self) -> int:
        """When the GPU is done."""
        return self.flow_shop_ns + self.gpu_overhead_ns

    @property
    def ndp_ns(self) -> int:
        """When the last NDP unit is done."""
        return max(self.units_ns) + self.ndp_overhead_ns


def sides(instance: Instance, solution: Solution) -> Sides:
    """Return both sides' times.

    Rows and entries that are missing take nothing, surplus ones are left out. A unit is spared all
    slices that are taken from it, even those that it does not hold.
    """
    pulled = _fitting(instance, solution)
    kept = [[instance.slices_per_unit - count for count in row] for row in pulled]
    units = [0] * instance.ndp_units
    for expert, row in zip(instance.experts, kept, strict=True):
        for unit, count in enumerate(row):
            units[unit] += count * expert.slice_ndp_ns
    due = any(count > 0 for row in kept for count in row)
    return Sides(
        flow_shop_ns=johnson_ns(instance, [sum(row) for row in pulled]),
        gpu_overhead_ns=instance.gpu_overhead_ns if due else 0,
        units_ns=tuple(units),
        ndp_overhead_ns=instance.ndp_overhead_ns if due else 0,
    )


def johnson_ns(instance: Instance, pulled: list[int]) -> int:
    """Return the least makespan of the GPU's flow shop: link, then GPU.

    Johnson's rule: jobs with transfer <= computation first, by rising transfer; then the others by
    falling computation. The makespan of a sequence is the largest, over its jobs k, of all
    transfers up to k plus all computations from k on. Among a run of equal jobs that sum is linear
    in k, so its first and its last job are enough.

    Parameters
    ----------
    instance
        Says what a slice costs.
    pulled
        Slices of each expert that the GPU computes.
    """
    jobs = [
        (0 if expert.resident else instance.slice_transfer_ns, expert.slice_gpu_ns, count)
        for expert, count in zip(instance.experts, pulled, strict=True)
        if count
    ]
    early = sorted((job for job in jobs if job[0] <= job[1]), key=lambda job: job[0])
    late = sorted((job for job in jobs if job[0] > job[1]), key=lambda job: -job[1])
    transferred, to_compute = 0, sum(compute * count for _, compute, count in jobs)
    makespan = 0
    for transfer, compute, count in [*early, *late]:
        first = transferred + transfer + to_compute
        transferred += transfer * count
        to_compute -= compute * count
        makespan = max(makespan, first, transferred + to_compute + compute)
    return makespan


def violations(
    instance: Instance, solution: Solution, makespan_ns: int | None = None
) -> list[tuple[str, str]]:
    """Return what is wrong with a solution, as (constraint ID, sentence); empty if it is valid.

    Parameters
    ----------
    instance, solution
        The problem and the decision to check.
    makespan_ns
        The makespan claimed for the solution, if there is a claim: BA-C2 and BA-C3 hold the sides
        to it.
    """
    found = []
    rows, wanted = len(solution.gpu_slices), len(instance.experts)
    if rows != wanted:
        found.append(("BA-C1", f"gpu_slices has {rows} rows for {wanted} experts"))
    for row, counts in enumerate(solution.gpu_slices):
        if len(counts) != instance.ndp_units:
            have = f"{len(counts)} entries for {instance.ndp_units} units"
            found.append(("BA-C1", f"gpu_slices[{row}] has {have}"))
        for unit, count in enumerate(counts):
            if count > instance.slices_per_unit:
                reason = f"{count} slices of the {instance.slices_per_unit} that unit {unit} holds"
                found.append(("BA-C1", f"gpu_slices[{row}][{unit}]: {reason}"))
    if makespan_ns is not None:
        found += _overruns(sides(instance, solution), makespan_ns)
    return found


def objective(instance: Instance, solution: Solution) -> int:
    """Return when the later of the two sides is done, in ns."""
    both = sides(instance, solution)
    return max(both.gpu_ns, both.ndp_ns)


def _fitting(instance: Instance, solution: Solution) -> list[list[int]]:
    units = instance.ndp_units
    rows = [list(row[:units]) for row in solution.gpu_slices[: len(instance.experts)]]
    rows += [[] for _ in range(len(instance.experts) - len(rows))]
    return [row + [0] * (units - len(row)) for row in rows]


def _overruns(both: Sides, makespan_ns: int) -> list[tuple[str, str]]:
    unit = f"unit {both.units_ns.index(max(both.units_ns))}"
    ends = [("BA-C2", "the GPU", both.gpu_ns), ("BA-C3", unit, both.ndp_ns)]
    claim = f"past the claimed makespan of {makespan_ns} ns"
    return [
        (rule, f"{side} ends at {end} ns, {claim}") for rule, side, end in ends if end > makespan_ns
    ]


MAX_CANDIDATES = 3**11


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    cells = len(instance.experts) * instance.ndp_units
    return int((instance.slices_per_unit + 1) ** cells)


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every count of slices for every expert and unit."""
    rows = list(product(range(instance.slices_per_unit + 1), repeat=instance.ndp_units))
    for gpu_slices in product(rows, repeat=len(instance.experts)):
        # The pieces are valid by construction; skipping validation makes this ten times faster.
        yield Solution.model_construct(
            problem="balance", instance=instance.name, gpu_slices=gpu_slices
        )
