"""A layer whose layout is decided, as a tri_domain instance: what is left is the schedule."""

from collections.abc import Callable, Iterable

from moeopt.problems.relayout.instance import Expert as Placed
from moeopt.problems.tri_domain.check import objective
from moeopt.problems.tri_domain.instance import Expert, Instance
from moeopt.problems.tri_domain.solution import Domain, Solution

Schedule = Callable[[Instance], Solution]
"""A method for tri_domain: ``trimoe`` of its heuristics, or an exact one, such as
``lambda instance: moeopt.solve(instance, "cp-sat").solution``."""


def fixed_layout(
    name: str, dimms: int, striped_ns: int, localized_ns: int, experts: Iterable[Placed]
) -> Instance | None:
    """Return the tri_domain instance of experts where they lie, or None if none has tokens.

    Parameters
    ----------
    striped_ns, localized_ns
        How long a host's read of a striped or localized expert keeps a DIMM busy.
    experts
        Each with its place and what every path would cost it; those without tokens are left out.
    """
    rows = [_row(expert, striped_ns, localized_ns) for expert in experts if expert.tokens]
    return Instance(name=name, dimms=dimms, experts=tuple(rows)) if rows else None


def scheduled(
    instance: Instance | None, schedule: Schedule
) -> tuple[dict[int, Domain | None], int]:
    """Return the domain of each expert by its number, and the makespan; 0 where nothing runs."""
    if instance is None:
        return {}, 0
    solution = schedule(instance)
    numbers = (expert.expert for expert in instance.experts)
    makespan_ns = objective(instance, solution)
    return dict(zip(numbers, solution.assignment, strict=True)), makespan_ns


def _row(expert: Placed, striped_ns: int, localized_ns: int) -> Expert:
    striped = expert.dimm is None
    read = striped_ns if striped else localized_ns
    miss = expert.gpu_miss_striped_ns if striped else expert.gpu_miss_localized_ns
    return Expert(
        expert=expert.expert,
        tokens=expert.tokens,
        resident=expert.resident,
        dimm=expert.dimm,
        gpu_ns=expert.gpu_hit_ns if expert.resident else miss,
        cpu_ns=expert.cpu_striped_ns if striped else expert.cpu_localized_ns,
        ndp_ns=None if striped else expert.ndp_ns,
        gpu_dram_ns=0 if expert.resident else read,
        cpu_dram_ns=read,
    )
