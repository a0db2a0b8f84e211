"""A layer whose layout is decided is a tri_domain instance: built here, scheduled by TriMoE 4.2."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend
from moeopt.core.errors import InputError
from moeopt.problems.tri_domain import heuristics as tri_domain
from moeopt.problems.tri_domain.expert import Expert as FixedExpert
from moeopt.problems.tri_domain.instance import Instance as FixedLayout
from moeopt.problems.tri_domain.instance import Solution as Schedule

from .instance import STRIPED, Domain, Expert, Instance, Migration, Solution

Flags = NDArray[np.bool_]

REFINED = 5e-05
"""Units of work for one refined schedule."""

NEWER = {"schema_version", "channels", "dimm_share", "gpu_base_ns"}
"""Fields of schema 2 that an instance of tri_domain has as well."""


def migrated(instance: Instance, migrations: Iterable[Migration]) -> tuple[Expert, ...]:
    """Return the experts where they lie after the migrations.

    Raises
    ------
    InputError
        If a migration names an expert that the instance does not have.
    """
    experts = {expert.expert: expert for expert in instance.experts}
    for number, migration in enumerate(migrations):
        if migration.expert not in experts:
            raise InputError(f"migrations[{number}]: there is no expert {migration.expert}")
        prefetched = migration.kind == "prefetch"
        change = {"resident": True} if prefetched else {"dimm": migration.dimm}
        experts[migration.expert] = experts[migration.expert].model_copy(update=change)
    return tuple(experts.values())


def after_migrations(instance: Instance, migrations: Iterable[Migration] = ()) -> FixedLayout:
    """Return the layer's experts with tokens on the layout that the migrations leave.

    A host's read costs what the layout says; one of an expert in the GPU's memory loads no DIMM.
    """
    experts = migrated(instance, migrations)
    rows = tuple(_fixed(instance, expert) for expert in experts if expert.tokens)
    newer = instance.model_dump(include=NEWER) if instance.schema_version > 1 else {}
    return FixedLayout(name=instance.name, dimms=instance.dimms, experts=rows, **newer)


def _fixed(instance: Instance, expert: Expert) -> FixedExpert:
    striped = expert.dimm is None
    read = instance.dram_striped_ns if striped else instance.dram_localized_ns
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
    return refined_after(instance, migrations, [])[0]


def refined_after(
    instance: Instance, migrations: Sequence[Migration], tried: Sequence[Migration]
) -> list[int]:
    """Return the makespans of `refined` after migrations, and after these and each one tried.

    One expert differs from the layout before it, so that one column of its table is changed.
    """
    spend(REFINED * (1 + len(tried)))
    from moeopt.problems import device_loads  # compiled loops are imported when they are run

    c = instance.columns
    resident, dimm = c.resident.copy(), c.dimm.copy()
    for move in migrations:
        _move(c.expert == move.expert, move, resident, dimm)
    active = np.argsort(c.expert, kind="stable")  # of equally costly experts the first is moved
    active = active[c.tokens[active] > 0]
    table, choice = _rows(instance, resident[active], dimm[active], active)
    place = {int(expert): row for row, expert in enumerate(c.expert[active])}
    at = [place.get(move.expert, -1) for move in tried]
    rows = active[at] if len(active) else np.zeros(len(tried), dtype=np.int64)
    there, lies = resident[rows], dimm[rows]
    for number, move in enumerate(tried):
        _move(number, move, there, lies)
    columns, choices = _rows(instance, there, lies, rows)

    def span(number: int) -> int:
        changed, domain = table.copy(), choice.copy()
        if number >= 0 and at[number] >= 0:
            changed[:, at[number]] = columns[:, number]
            domain[at[number]] = choices[number]
        return int(device_loads.refine(changed, domain, instance.dimms, False, True))

    return [span(number) for number in range(-1, len(tried))]


def _move(at: Flags | int, move: Migration, resident: Flags, dimm: NDArray[np.int64]) -> None:
    """Change residents and places as a migration does."""
    if move.kind == "prefetch":
        resident[at] = True
    else:
        dimm[at] = STRIPED if move.dimm is None else move.dimm


def _rows(
    instance: Instance, resident: Flags, dimm: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the table of `moeopt.problems.device_loads` of some experts, and cheapest paths.

    `resident` and `dimm` are theirs, `rows` their places in the instance's columns.
    """
    from moeopt.problems import device_loads

    c = instance.columns
    striped = dimm == STRIPED
    read = np.where(striped, instance.dram_striped_ns, instance.dram_localized_ns)
    hit, *misses = (path[rows] for path in c.paths_ns)
    gpu = np.where(resident, hit, np.where(striped, *misses))
    cpu = np.where(striped, c.cpu_striped_ns[rows], c.cpu_localized_ns[rows])
    ndp = np.where(striped, np.iinfo(np.int64).max, c.ndp_ns[rows])
    columns = [gpu, cpu, ndp, np.where(resident, 0, read), read, dimm]
    if instance.two_parts:
        transfer = np.where(striped, c.pcie_striped_ns[rows], c.pcie_localized_ns[rows])
        columns += [c.gpu_hit_ns[rows], np.where(resident, 0, transfer)]
    choice = tri_domain.cheapest_path(np.stack([gpu, cpu, ndp]))
    return device_loads.table_for(instance, *columns), choice


def schedule_of(instance: Instance, solution: Solution) -> Schedule:
    """Return a valid solution's schedule as one of `after_migrations`."""
    domains = [
        domain
        for expert, domain in zip(instance.experts, solution.assignment, strict=True)
        if expert.tokens
    ]
    return Schedule(instance=instance.name, assignment=tuple(domains))
