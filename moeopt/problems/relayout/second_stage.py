"""The layer as it runs after migrations: a tri_domain instance, scheduled by TriMoE 4.2."""

from collections.abc import Sequence

from moeopt.problems.tri_domain import heuristics as tri_domain
from moeopt.problems.tri_domain.instance import Instance as FixedLayout
from moeopt.problems.tri_domain.solution import Solution as Schedule

from .check import layout_after
from .instance import Instance
from .solution import Domain, Migration, Solution


def fixed_layout(instance: Instance, migrations: Sequence[Migration] = ()) -> FixedLayout:
    """Return the layer's active experts on the layout that the migrations leave.

    A host's read costs what the layout says; one of an expert in the GPU's memory loads no DIMM.
    """
    asked = Solution(instance=instance.name, migrations=tuple(migrations), assignment=())
    resident, place = layout_after(instance, asked)
    rows = []
    for row, expert in enumerate(instance.experts):
        if not expert.tokens:
            continue
        striped = place[row] is None
        miss = expert.gpu_miss_striped_ns if striped else expert.gpu_miss_localized_ns
        read = instance.dram_striped_ns if striped else instance.dram_localized_ns
        rows.append(
            {
                "expert": expert.expert,
                "tokens": expert.tokens,
                "resident": resident[row],
                "dimm": place[row],
                "gpu_ns": expert.gpu_hit_ns if resident[row] else miss,
                "cpu_ns": expert.cpu_striped_ns if striped else expert.cpu_localized_ns,
                "ndp_ns": None if striped else expert.ndp_ns,
                "gpu_dram_ns": 0 if resident[row] else read,
                "cpu_dram_ns": read,
            }
        )
    return FixedLayout(name=instance.name, dimms=instance.dimms, experts=rows)


def refined(instance: Instance, migrations: Sequence[Migration] = ()) -> Solution:
    """Return the migrations with TriMoE's refined schedule of the layout that they leave."""
    schedule = tri_domain.trimoe(fixed_layout(instance, migrations))
    domains = iter(schedule.assignment)
    assignment: list[Domain | None] = [
        next(domains) if expert.tokens else None for expert in instance.experts
    ]
    return Solution(
        instance=instance.name, migrations=tuple(migrations), assignment=tuple(assignment)
    )


def schedule_of(instance: Instance, solution: Solution) -> Schedule:
    """Return a valid solution's schedule as one of `fixed_layout`."""
    domains = [
        domain
        for expert, domain in zip(instance.experts, solution.assignment, strict=True)
        if expert.tokens
    ]
    return Schedule(instance=instance.name, assignment=tuple(domains))
