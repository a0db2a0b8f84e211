"""The checker: what makes migrations and a schedule valid and what they cost. Knows no solvers."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from .instance import DOMAINS, Domain, Expert, Instance, Kind, Migration, Solution

CONSTRAINTS = {
    "RE-C1": "each expert with tokens runs in exactly one domain, one without in none",
    "RE-C2": "only an expert that is localized after the migrations runs on NDP, on its own DIMM",
    "RE-C3": "an expert migrates at most once",
    "RE-C4": "a migration fits its expert: tokens, residence, layout and DIMM allow it",
    "RE-C5": "prefetches take at most the free slots of the GPU's memory",
    "RE-C6": "prefetches fit into the PCIe window",
    "RE-C7": "layout changes and moves fit into the DIMM-Link window, one after the other",
    "RE-C8": "the GPU's costs sum to at most the makespan (TriMoE Eq. 5)",
    "RE-C9": "the CPU's costs sum to at most the makespan (TriMoE Eq. 5)",
    "RE-C10": "a DIMM's NDP work and host reads sum to at most the makespan (TriMoE Eq. 6)",
    "RE-C11": "a memory channel's host reads sum to at most the makespan",
    "RE-C12": "PCIe transfers of the experts run on the GPU sum to at most the makespan",
    "RE-C13": "layout changes and moves fit into the window of each DIMM's own link",
}

OBJECTIVE = ("makespan_ns",)
"""What is minimised, in order of importance; the name ends with the unit."""


@dataclass(frozen=True)
class Loads:
    """How long each device is busy, in ns.

    `dimm_ns` has one entry per DIMM, `channel_ns` one per memory channel if the instance has any.
    """

    gpu_ns: int
    cpu_ns: int
    dimm_ns: tuple[int, ...]
    channel_ns: tuple[int, ...] = ()
    pcie_ns: int = 0

    @property
    def makespan_ns(self) -> int:
        """The load of the busiest device (TriMoE Eq. 7)."""
        return max(self.gpu_ns, self.cpu_ns, *self.dimm_ns, *self.channel_ns, self.pcie_ns)


def layout_after(instance: Instance, solution: Solution) -> tuple[list[bool], list[int | None]]:
    """Return, per expert, whether the GPU's memory holds it and its DIMM after the migrations.

    Migrations are applied in their order. What cannot be applied (an unknown expert, no such DIMM)
    changes nothing; `violations` reports it.
    """
    resident = [expert.resident for expert in instance.experts]
    place = [expert.dimm for expert in instance.experts]
    rows = {expert.expert: row for row, expert in enumerate(instance.experts)}
    for migration in solution.migrations:
        row = rows.get(migration.expert)
        if row is None:
            continue
        if migration.kind == "prefetch":
            resident[row] = True
        elif migration.kind == "stripe":
            place[row] = None
        elif migration.dimm is not None and migration.dimm < instance.dimms:
            place[row] = migration.dimm
    return resident, place


def loads(instance: Instance, solution: Solution) -> Loads:
    """Return the busy time of every device after the migrations (TriMoE Eq. 5 and 6).

    A striped expert that a host reads keeps every channel busy and every DIMM for its share, a
    localized one only its own; one in the GPU's memory loads none when it runs there. Work that is
    not allowed (an expert without tokens, a striped one on NDP) counts for nothing; `violations`
    reports it.
    """
    gpu, cpu, pcie = instance.base_ns, 0, 0
    striped_reads = 0
    own, reads = [0] * instance.dimms, [0] * instance.dimms
    resident, place = layout_after(instance, solution)
    for row, (expert, domain) in enumerate(
        zip(instance.experts, solution.assignment, strict=False)
    ):
        dimm = place[row]
        if not expert.tokens or domain is None:
            continue
        if domain == "ndp":
            if dimm is not None:
                own[dimm] += expert.ndp_ns
            continue
        if domain == "gpu":
            gpu += expert.gpu_work_ns(in_memory=resident[row], striped=dimm is None)
            if resident[row]:
                continue
            pcie += expert.pcie_ns(striped=dimm is None)
        else:
            cpu += expert.cpu_striped_ns if dimm is None else expert.cpu_localized_ns
        if dimm is None:
            striped_reads += 1
        else:
            reads[dimm] += instance.dram_localized_ns
    every_dimm = striped_reads * instance.striped_charge_ns(instance.dram_striped_ns)
    every_channel = striped_reads * instance.dram_striped_ns
    channels = instance.channels or ()
    return Loads(
        gpu_ns=gpu,
        cpu_ns=cpu,
        dimm_ns=tuple(every_dimm + busy + read for busy, read in zip(own, reads, strict=True)),
        channel_ns=tuple(
            every_channel + sum(reads[d] for d, of in enumerate(channels) if of == channel)
            for channel in sorted(set(channels))
        ),
        pcie_ns=pcie,
    )


def violations(
    instance: Instance, solution: Solution, makespan_ns: int | None = None
) -> list[tuple[str, str]]:
    """Return what is wrong with a solution, as (constraint ID, sentence); empty if it is valid.

    Parameters
    ----------
    instance, solution
        The problem and the decision to check.
    makespan_ns
        The makespan claimed for the solution, if there is a claim: RE-C8 to RE-C12 hold a schedule
        to it. Without a claim the makespan is whatever the solution gives.
    """
    found = _wrong_domains(instance, solution)
    if solution.migrations:
        found += _wrong_migrations(instance, solution) + _full_windows(instance, solution)
    if makespan_ns is not None:
        found += _overruns(instance, loads(instance, solution), makespan_ns)
    return found


def objective(instance: Instance, solution: Solution) -> int:
    """Return the makespan after the migrations in ns (TriMoE Eq. 7)."""
    return loads(instance, solution).makespan_ns


def _wrong_domains(instance: Instance, solution: Solution) -> list[tuple[str, str]]:
    found = []
    if len(solution.assignment) != len(instance.experts):
        count = f"{len(solution.assignment)} entries for {len(instance.experts)} experts"
        found.append(("RE-C1", f"assignment has {count}"))
    _, place = layout_after(instance, solution)
    for row, (expert, domain) in enumerate(
        zip(instance.experts, solution.assignment, strict=False)
    ):
        name = f"assignment[{row}]: expert {expert.expert}"
        if not expert.tokens:
            if domain is not None:
                found.append(("RE-C1", f"{name} has no tokens and must not run"))
        elif domain is None:
            found.append(("RE-C1", f"{name} runs nowhere"))
        elif domain == "ndp" and place[row] is None:
            reason = "is striped after the migrations and cannot run on NDP"
            found.append(("RE-C2", f"{name} {reason}"))
    return found


def _wrong_migrations(instance: Instance, solution: Solution) -> list[tuple[str, str]]:
    """Report RE-C3 and RE-C4.

    A second migration of an expert, which RE-C3 forbids, is held by RE-C4 to the place where the
    first one left it.
    """
    counts = Counter(migration.expert for migration in solution.migrations)
    found = [
        ("RE-C3", f"migrations: expert {expert} migrates {count} times")
        for expert, count in counts.items()
        if count > 1
    ]
    experts = {expert.expert: expert for expert in instance.experts}
    place = {expert.expert: expert.dimm for expert in instance.experts}
    for row, migration in enumerate(solution.migrations):
        number = migration.expert
        if number not in experts:
            found.append(("RE-C4", f"migrations[{row}]: expert {number} is not in the instance"))
            continue
        reason = _misfit(experts[number], place[number], migration, instance.dimms)
        if reason is not None:
            found.append(("RE-C4", f"migrations[{row}]: expert {number} {reason}"))
        if migration.kind != "prefetch":
            place[number] = migration.dimm
    return found


def _misfit(expert: Expert, place: int | None, migration: Migration, dimms: int) -> str | None:
    """Return why a migration does not fit an expert that lies on `place`; None if it does."""
    kind, dimm = migration.kind, migration.dimm
    if not expert.tokens:
        return "has no tokens and must not migrate"
    if kind == "prefetch" and expert.resident:
        return "is in the GPU's memory already"
    if kind == "localize" and place is not None:
        return f"lies on DIMM {place} already: only a striped expert is localized"
    if kind in ("stripe", "rebalance") and place is None:
        return f"is striped: kind {kind!r} is for localized experts"
    if (dimm is not None) != (kind in ("localize", "rebalance")):
        return f"is given dimm {dimm} with kind {kind!r}"
    if dimm is not None and dimm >= dimms:
        return f"is sent to DIMM {dimm}, and dimms is {dimms}"
    if kind == "rebalance" and dimm == place:
        return f"lies on DIMM {dimm} already"
    return None


def _full_windows(instance: Instance, solution: Solution) -> list[tuple[str, str]]:
    """Report RE-C5 to RE-C7 and RE-C13."""
    kinds = Counter(migration.kind for migration in solution.migrations)
    prefetches = kinds["prefetch"]
    pcie = prefetches * instance.prefetch_ns
    found = []
    if prefetches > instance.hbm_free_slots:
        slots = f"hbm_free_slots is {instance.hbm_free_slots}"
        found.append(("RE-C5", f"{prefetches} experts are prefetched and {slots}"))
    if pcie > instance.pcie_window_ns:
        window = f"pcie_window_ns is {instance.pcie_window_ns}"
        found.append(("RE-C6", f"prefetches take {pcie} ns and {window}"))
    window = f"dimm_link_window_ns is {instance.dimm_link_window_ns}"
    busy_ns = link_busy_ns(instance, solution)
    if instance.relayout_share_ns is None:
        if busy_ns[0] > instance.dimm_link_window_ns:
            sentence = f"migrations between DIMMs take {busy_ns[0]} ns and {window}"
            found.append(("RE-C7", sentence))
        return found
    for dimm, busy in enumerate(busy_ns):
        if busy > instance.dimm_link_window_ns:
            sentence = f"migrations keep the link of DIMM {dimm} busy for {busy} ns and {window}"
            found.append(("RE-C13", sentence))
    return found


def link_busy_ns(instance: Instance, solution: Solution) -> list[int]:
    """Return how long migrations keep DIMM-Link busy: one entry, or one per DIMM with own links.

    A migration starts from where its expert lies today, whatever another one does with it.
    """
    busy = [0] * (1 if instance.relayout_share_ns is None else instance.dimms)
    today = {expert.expert: expert.dimm for expert in instance.experts}
    for migration in solution.migrations:
        source = today.get(migration.expert)
        for link, length in enumerate(link_time_ns(instance, migration, source)):
            busy[link] += length
    return busy


def link_time_ns(instance: Instance, migration: Migration, source: int | None) -> list[int]:
    """Return how long a migration keeps DIMM-Link busy: one entry, or one per DIMM with own links.

    With own links a layout change takes its whole length on the link of its one DIMM, where the
    expert lies or will lie, and `relayout_share_ns` on every other; a move on both its DIMMs'.

    Parameters
    ----------
    source
        The DIMM where its expert lies before, None if it is striped.
    """
    i, kind, share = instance, migration.kind, instance.relayout_share_ns
    links = 1 if share is None else i.dimms
    if kind == "prefetch":
        return [0] * links
    if share is None:
        return [i.rebalance_ns if kind == "rebalance" else i.relayout_ns]
    ends = {"stripe": [source], "localize": [migration.dimm]}.get(kind, [source, migration.dimm])
    length, elsewhere = (i.rebalance_ns, 0) if kind == "rebalance" else (i.relayout_ns, share)
    return [length if dimm in ends else elsewhere for dimm in range(links)]


def _overruns(instance: Instance, load: Loads, makespan_ns: int) -> list[tuple[str, str]]:
    devices = [("RE-C8", "the GPU", load.gpu_ns), ("RE-C9", "the CPU", load.cpu_ns)]
    devices += [("RE-C10", f"DIMM {d}", busy) for d, busy in enumerate(load.dimm_ns)]
    channels = sorted(set(instance.channels or ()))
    devices += [
        ("RE-C11", f"channel {channel}", busy)
        for channel, busy in zip(channels, load.channel_ns, strict=True)
    ]
    devices.append(("RE-C12", "PCIe", load.pcie_ns))
    claim = f"past the claimed makespan of {makespan_ns} ns"
    return [
        (rule, f"{device} is busy for {busy} ns, {claim}")
        for rule, device, busy in devices
        if busy > makespan_ns
    ]


MAX_CANDIDATES = 12**5


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return prod(
        len(fitting_migrations(instance, expert)) * len(_domains(expert))
        for expert in instance.experts
    )


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every choice of one fitting migration or none, and one domain, for each expert.

    Migrations stand in the order of the instance's experts: their order means nothing. The windows
    and whether a domain is allowed are left to the checker.
    """
    migrations = [fitting_migrations(instance, expert) for expert in instance.experts]
    domains = [_domains(expert) for expert in instance.experts]
    for chosen in product(*migrations):
        migrating = tuple(migration for migration in chosen if migration is not None)
        for assignment in product(*domains):
            # The pieces are valid by construction; skipping validation is ten times faster.
            yield Solution.model_construct(
                problem="relayout",
                instance=instance.name,
                migrations=migrating,
                assignment=assignment,
            )


def fitting_migrations(instance: Instance, expert: Expert) -> list[Migration | None]:
    """Return the migrations that RE-C4 allows the expert, first that it stays."""
    found: list[Migration | None] = [None]
    if not expert.tokens:
        return found
    if not expert.resident:
        found.append(Migration(expert=expert.expert, kind="prefetch"))
    if expert.dimm is not None:
        found.append(Migration(expert=expert.expert, kind="stripe"))
    kind: Kind = "localize" if expert.dimm is None else "rebalance"
    elsewhere = (dimm for dimm in range(instance.dimms) if dimm != expert.dimm)
    found += [Migration(expert=expert.expert, kind=kind, dimm=dimm) for dimm in elsewhere]
    return found


def _domains(expert: Expert) -> tuple[Domain | None, ...]:
    return DOMAINS if expert.tokens else (None,)
