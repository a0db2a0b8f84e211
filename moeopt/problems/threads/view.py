"""A solution as a schedule to look at, and the facts about it that reports ask for."""

from collections import Counter
from collections.abc import Iterator

from moeopt.core.view import Bar, Changes, Difference, Lane, replaced

from .bounds import lower_bound
from .check import ends_ns
from .instance import Instance, Solution


def lanes(instance: Instance, solution: Solution) -> list[Lane]:
    """Return one lane for each thread, with its experts in the order of the file.

    An expert's load is a bar of its own, before its parts, which are one bar with their pulls.
    """
    bars: list[list[Bar]] = [[] for _ in range(instance.threads)]
    clock = [0] * instance.threads
    for row, grain in enumerate(solution.grain):
        expert, pulled = instance.experts[row], instance.pulled_ns(row, grain)
        label = str(expert.expert)
        for thread, parts in sorted(Counter(solution.thread[row]).items()):
            for length, kind in ((expert.load_ns, "read"), (parts * pulled, "work")):
                if length:
                    begin = clock[thread]
                    clock[thread] += length
                    bar = Bar(begin, clock[thread], label, "read" if kind == "read" else "work")
                    bars[thread].append(bar)
    return [Lane(f"thread {number}", tuple(of)) for number, of in enumerate(bars)]


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return the number of parts and of loads, the idle time of all threads, and the bound."""
    ends = ends_ns(instance, solution)
    return {
        "parts": sum(map(len, solution.thread)),
        "loads": sum(len(set(parts)) for parts in solution.thread),
        "idle_ns": sum(max(ends) - end for end in ends),
        "bound_ns": lower_bound(instance),
    }


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield the experts with other grains or other numbers of threads, by their work."""
    for row, expert in enumerate(instance.experts):
        a, b = (
            f"{len(one.thread[row])} parts on {len(set(one.thread[row]))} threads"
            for one in (ours, best)
        )
        if a != b:
            grain = best.grain[row]
            work = instance.grains[grain] * instance.pulled_ns(row, grain)
            yield work, f"expert {expert.expert}", a, b


def changes(instance: Instance, solution: Solution) -> Changes:
    """Yield moves of one part to each other thread, and another grain with parts dealt in turn."""
    threads = instance.threads
    for row, parts in enumerate(solution.thread):
        number = instance.experts[row].expert
        for of in sorted(set(parts)):
            at = parts.index(of)
            for thread in range(threads):
                if thread != of:
                    moved = replaced(solution.thread, row, replaced(parts, at, thread))
                    words = f"a part of expert {number} on thread {thread} and not {of}"
                    yield words, solution.model_copy(update={"thread": moved})
        for grain in instance.choices(row):
            if grain != solution.grain[row]:
                count = instance.grains[grain]
                dealt = tuple(part % threads for part in range(count))
                update = {
                    "grain": replaced(solution.grain, row, grain),
                    "thread": replaced(solution.thread, row, dealt),
                }
                words = f"expert {number} in {count} and not {len(parts)} parts"
                yield words, solution.model_copy(update=update)
