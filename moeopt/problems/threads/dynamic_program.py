"""Optional: an exact algorithm. It reports to the search and says why its answer is optimal.

Proof. After k experts `best` holds, for each (bytes used, number kept) that some choice among them
reaches, the largest sum of miss costs avoided. A choice among k + 1 experts is one among k with or
without the last, so the step below keeps the property; at the end the best entry with at least
`min_kept` kept is the optimum, and no entry proves that there is no solution.
"""

from moeopt.core.search import Search

from .check import objective
from .instance import Instance, Solution


def solve(instance: Instance, search: Search) -> None:
    """Extend the table by one expert at a time; return early if told to stop."""
    best: dict[tuple[int, int], tuple[int, tuple[bool, ...]]] = {(0, 0): (0, ())}
    for expert in instance.experts:
        if search.stopped:
            return
        step: dict[tuple[int, int], tuple[int, tuple[bool, ...]]] = {}
        for (used, count), (avoided, kept) in best.items():
            candidates = [((used, count), (avoided, (*kept, False)))]
            if used + expert.size_bytes <= instance.capacity_bytes:
                state = (used + expert.size_bytes, count + 1)
                candidates.append((state, (avoided + expert.miss_ns, (*kept, True))))
            for state, value in candidates:
                if state not in step or value[0] > step[state][0]:
                    step[state] = value
        best = step
    finished = [value for (_, count), value in best.items() if count >= instance.min_kept]
    if not finished:
        search.infeasible = True
        return
    solution = Solution(instance=instance.name, kept=max(finished)[1])
    search.offer(solution, objective(instance, solution))
    search.prove_incumbent()
