"""A layer whose layout is decided is a tri_domain instance: built here, scheduled by TriMoE 4.2."""

from collections.abc import Iterable, Sequence

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.host_memory import HostMemory
from moeopt.problems.tri_domain import heuristics as tri_domain
from moeopt.problems.tri_domain.expert import Expert as FixedExpert
from moeopt.problems.tri_domain.instance import Instance as FixedLayout
from moeopt.problems.tri_domain.instance import Solution as Schedule

from .check import layout_after, objective
from .instance import STRIPED, Domain, Expert, Instance, Migration, Solution

REFINED = 5e-05
"""Units of work for one refined schedule."""

NEWER = {"schema_version", "channels", "dimm_share", "gpu_base_ns"}
"""Fields of schema 2 that an instance of tri_domain has as well."""


def fixed_layout(
    name: str,
    dimms: int,
    striped_ns: int,
    localized_ns: int,
    experts: Iterable[Expert],
    memory: HostMemory | None = None,
) -> FixedLayout | None:
    """Return the tri_domain instance of experts where they lie, or None if none has tokens.

    A host's read costs what the layout says; one of an expert in the GPU's memory loads no DIMM.

    Parameters
    ----------
    name, dimms
        Of the instance returned.
    striped_ns, localized_ns
        How long a host's read of a striped or localized expert keeps a DIMM busy.
    experts
        Each with its place and what every path would cost it; those without tokens are left out.
    memory
        Whose fields of schema 2 the instance has; by default none.
    """
    rows = tuple(_fixed(expert, striped_ns, localized_ns) for expert in experts if expert.tokens)
    newer = {} if memory is None else _newer(memory)
    return FixedLayout(name=name, dimms=dimms, experts=rows, **newer) if rows else None


def _newer(memory: HostMemory) -> dict[str, object]:
    return memory.model_dump(include=NEWER) if memory.schema_version > 1 else {}


def _fixed(expert: Expert, striped_ns: int, localized_ns: int) -> FixedExpert:
    striped = expert.dimm is None
    read = striped_ns if striped else localized_ns
    pcie_ns = 0 if expert.resident else expert.pcie_ns(striped=striped)
    miss = expert.gpu_miss_striped_ns if striped else expert.gpu_miss_localized_ns
    return FixedExpert(
        expert=expert.expert,
        tokens=expert.tokens,
        resident=expert.resident,
        dimm=expert.dimm,
        gpu_ns=expert.gpu_hit_ns if expert.resident else miss,
        cpu_ns=expert.cpu_striped_ns if striped else expert.cpu_localized_ns,
        ndp_ns=None if striped else expert.ndp_ns,
        gpu_dram_ns=0 if expert.resident else read,
        cpu_dram_ns=read,
        gpu_calc_ns=expert.gpu_calc_ns,
        pcie_ns=None if expert.gpu_calc_ns is None else pcie_ns,
    )


def after_migrations(instance: Instance, migrations: Sequence[Migration] = ()) -> FixedLayout:
    """Return the layer's active experts on the layout that the migrations leave."""
    moved = Solution(instance=instance.name, migrations=tuple(migrations), assignment=())
    resident, place = layout_after(instance, moved)
    rows = tuple(
        _fixed(
            expert.model_copy(update={"resident": in_memory, "dimm": dimm}),
            instance.dram_striped_ns,
            instance.dram_localized_ns,
        )
        for expert, in_memory, dimm in zip(instance.experts, resident, place, strict=True)
        if expert.tokens
    )
    name, dimms = instance.name, instance.dimms
    return FixedLayout(name=name, dimms=dimms, experts=rows, **_newer(instance))


def refined(instance: Instance, migrations: Sequence[Migration] = ()) -> Solution:
    """Return the migrations with TriMoE's refined schedule of the layout that they leave."""
    schedule = tri_domain.trimoe(after_migrations(instance, migrations))
    domains = iter(schedule.assignment)
    assignment: list[Domain | None] = [
        next(domains) if expert.tokens else None for expert in instance.experts
    ]
    return Solution(
        instance=instance.name, migrations=tuple(migrations), assignment=tuple(assignment)
    )


def refined_ns(instance: Instance, migrations: Sequence[Migration] = ()) -> int:
    """Return the makespan of `refined`, some twenty times faster: for rules that try many."""
    spend(REFINED)
    if instance.schema_version > 1:
        return objective(instance, refined(instance, migrations))
    from moeopt.core import device_loads  # compiled loops are imported when they are run

    c = instance.columns
    resident, dimm = c.resident.copy(), c.dimm.copy()
    for move in migrations:
        at = c.expert == move.expert
        if move.kind == "prefetch":
            resident[at] = True
        else:
            dimm[at] = STRIPED if move.dimm is None else move.dimm
    striped = dimm == STRIPED
    read = np.where(striped, instance.dram_striped_ns, instance.dram_localized_ns)
    miss = np.where(striped, c.gpu_miss_striped_ns, c.gpu_miss_localized_ns)
    gpu = np.where(resident, c.gpu_hit_ns, miss)
    cpu = np.where(striped, c.cpu_striped_ns, c.cpu_localized_ns)
    ndp = np.where(striped, np.iinfo(np.int64).max, c.ndp_ns)
    active = np.argsort(c.expert, kind="stable")  # of equally costly experts the first is moved
    active = active[c.tokens[active] > 0]
    choice = tri_domain.cheapest_path(np.stack([gpu, cpu, ndp])[:, active])
    columns = (gpu, cpu, ndp, np.where(resident, 0, read), read, dimm)
    table = device_loads.table_of(*(column[active] for column in columns))
    return int(device_loads.refine(table, choice, instance.dimms, False, True))


def schedule_of(instance: Instance, solution: Solution) -> Schedule:
    """Return a valid solution's schedule as one of `after_migrations`."""
    domains = [
        domain
        for expert, domain in zip(instance.experts, solution.assignment, strict=True)
        if expert.tokens
    ]
    return Schedule(instance=instance.name, assignment=tuple(domains))
