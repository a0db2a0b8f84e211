"""Exact where experts are alike, or where the link is slower than the GPU: what the paper's are.

Given a makespan, every NDP unit is asked the same: to give up enough work. Two relaxations follow,
each solved exactly, with proofs in `bounds`:

- the link alone: residents for free, no computation longer than a transfer;
- the GPU's computations alone.

Theorem. The smaller of the flow shop of everything and the larger of the two relaxations is a
lower bound. It is the optimum (1) if no expert is resident and no computation is longer than a
transfer, (2) if all experts are resident, (3) if none is and no computation is shorter than a
transfer, (4) if all experts have the same times.

Proof. Either no NDP work remains, or both relaxations hold. In (1) the relaxation of the link is
the problem itself, in (2) and (3) that of the GPU. In (4) let the larger one be C, and m the fewest
slices that every unit must give up for C on the NDP side. What the link and the GPU need grows with
that number, and both relaxations are within C for some number, so they are for m. Let every unit
give up m slices, residents' first. By the closed form of the flow shop that takes C: its middle
term, a transfer and the work on pulled slices, is the GPU's relaxation if no expert is resident; if
one is, either a computation is as long as a transfer, and the residents' outweigh it, or it is
shorter, and the last term is larger. Both relaxations take residents first and the fewest slices
of equal worth, so the one whose value is C finds this solution. qed

In between, where residents and others compete for the GPU, bound and best solution may differ. They
are the bracket for the method that goes on.
"""

from collections.abc import Sequence

from moeopt.core.search import Feasibility, Search

from .bounds import gpu_relaxation, link_relaxation, lower_bound, taken_slices
from .check import objective
from .heuristics import all_gpu, all_ndp
from .instance import Instance, Solution

FEW_EXCHANGES = 2**22
"""Slices of a unit times experts: so many exchanges are compared within some 20 ms."""


def brief(instance: Instance) -> bool:
    """Tell whether the algorithm comes back to Python every 50 ms, and looks at the clock."""
    return instance.slices_per_unit * len(instance.experts) ** 2 <= FEW_EXCHANGES


def solve(instance: Instance, search: Search) -> None:
    """Bound by the link, then by the GPU, until the best solution found meets the bound."""
    for one_side in (all_ndp, all_gpu):
        _offer(instance, search, one_side(instance).gpu_slices)
    _offer(instance, search, taken_slices(instance, link_relaxation(instance)))
    search.prove(lower_bound(instance))
    best = search.objective
    if search.closed or not isinstance(best, int):
        return
    answer = gpu_relaxation(instance, best, search)
    if answer.feasibility == Feasibility.INFEASIBLE:
        search.prove_incumbent()
    elif answer.state is None:
        search.note = answer.note
    else:
        _offer_alike(instance, search, answer.state.slices)
        # It is below the incumbent, hence below the flow shop of everything.
        search.prove(answer.state.value_ns)


def _offer_alike(instance: Instance, search: Search, each: Sequence[int]) -> None:
    """Offer the solution in which all units give up the same slices."""
    _offer(instance, search, tuple((count,) * instance.ndp_units for count in each))


def _offer(instance: Instance, search: Search, rows: tuple[tuple[int, ...], ...]) -> None:
    solution = Solution(instance=instance.name, gpu_slices=rows)
    search.offer(solution, objective(instance, solution))
