"""The checker: which grains and threads may be, and when the last thread ends. Knows no solvers."""

from collections.abc import Iterator
from itertools import product

from .instance import Instance, Solution

CONSTRAINTS = {
    "TH-C1": "each expert has one grain, which exists",
    "TH-C2": "each part of an expert runs on one thread",
    "TH-C3": "a thread does its parts, pulls and loads one after the other",
}

OBJECTIVE = ("makespan_ns",)
"""What is minimised, in order of importance; the name ends with the unit."""


def ends_ns(instance: Instance, solution: Solution) -> list[int]:
    """Return when each thread ends.

    Parts of grains that do not exist take nothing, and neither do parts on threads that do not;
    rows and parts that are missing are not there, surplus rows are left out.
    """
    ends = [0] * instance.threads
    for expert, grain, parts in zip(
        instance.experts, solution.grain, solution.thread, strict=False
    ):
        part_ns = expert.part_ns[grain] if grain < len(expert.part_ns) else None
        if part_ns is None:
            continue
        touched = set()
        for thread in parts:
            if thread < instance.threads:
                ends[thread] += part_ns + instance.pull_ns
                touched.add(thread)
        for thread in touched:
            ends[thread] += expert.load_ns
    return ends


def violations(
    instance: Instance, solution: Solution, makespan_ns: int | None = None
) -> list[tuple[str, str]]:
    """Return what is wrong with a solution, as (constraint ID, sentence); empty if it is valid.

    Parameters
    ----------
    instance, solution
        The problem and the decision to check.
    makespan_ns
        The makespan claimed for the solution, if there is a claim: TH-C3 holds each thread to it.
    """
    found = []
    experts, grains = len(instance.experts), len(instance.grains)
    if len(solution.grain) != experts:
        reason = f"grain has {len(solution.grain)} entries for {experts} experts"
        found.append(("TH-C1", reason))
    if len(solution.thread) != experts:
        reason = f"thread has {len(solution.thread)} rows for {experts} experts"
        found.append(("TH-C2", reason))
    for row, grain in enumerate(solution.grain[:experts]):
        if grain >= grains:
            reason = f"grain[{row}] is {grain}; the last of the instance's is {grains - 1}"
            found.append(("TH-C1", reason))
        elif instance.experts[row].part_ns[grain] is None:
            number = instance.experts[row].expert
            reason = f"grain[{row}] is {grain}, which expert {number} does not have"
            found.append(("TH-C1", reason))
        elif row < len(solution.thread) and len(solution.thread[row]) != instance.grains[grain]:
            have, due = len(solution.thread[row]), instance.grains[grain]
            found.append(("TH-C2", f"thread[{row}] has {have} entries for {due} parts"))
    for row, parts in enumerate(solution.thread[:experts]):
        for part, thread in enumerate(parts):
            if thread >= instance.threads:
                reason = f"is {thread}; the last thread is {instance.threads - 1}"
                found.append(("TH-C2", f"thread[{row}][{part}] {reason}"))
    if makespan_ns is not None:
        for thread, end in enumerate(ends_ns(instance, solution)):
            if end > makespan_ns:
                reason = f"ends at {end} ns, past the claimed makespan of {makespan_ns} ns"
                found.append(("TH-C3", f"thread {thread} {reason}"))
    return found


def objective(instance: Instance, solution: Solution) -> int:
    """Return when the last thread ends, in ns."""
    return max(ends_ns(instance, solution))


MAX_CANDIDATES = 3**11


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields; of too many, that they are too many."""
    number = 1
    for expert in instance.experts:
        if number > MAX_CANDIDATES:
            break
        number *= sum(
            instance.threads**parts
            for parts, part_ns in zip(instance.grains, expert.part_ns, strict=True)
            if part_ns is not None
        )
    return number


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every thread for every part, at every grain that an expert has."""
    rows = [
        [
            (grain, threads)
            for grain, parts in enumerate(instance.grains)
            if expert.part_ns[grain] is not None
            for threads in product(range(instance.threads), repeat=parts)
        ]
        for expert in instance.experts
    ]
    for chosen in product(*rows):
        # The pieces are valid by construction; skipping validation makes this ten times faster.
        yield Solution.model_construct(
            problem="threads",
            instance=instance.name,
            grain=tuple(grain for grain, _ in chosen),
            thread=tuple(threads for _, threads in chosen),
        )
