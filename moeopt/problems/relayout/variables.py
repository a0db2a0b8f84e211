"""The variables that the CP-SAT and the MILP model share, and how a solution is read off them."""

from collections.abc import Callable, Iterator
from typing import Any

from .instance import DOMAINS, STRIPED, Domain, Expert, Instance, Migration, Solution


class Variables:
    """Binaries for one active expert, made by the model's own `new`.

    Attributes
    ----------
    hit
        It runs on the GPU from the GPU's memory. A non-resident expert is prefetched for that, and
        only for that: a prefetch is of no use to an expert that runs elsewhere.
    runs
        By (domain, place): it runs there while its host copy lies on that DIMM, or striped. On the
        GPU this is a miss, which a resident expert does not have.
    stripe
        Its host copy is striped by a migration; None for an expert that is striped already.
    localize, rebalance
        Its host copy is brought to that DIMM, by DIMM; no entry for the DIMM it lies on.
    """

    def __init__(self, instance: Instance, row: int, new: Callable[[str], Any]) -> None:
        expert = instance.experts[row]
        self.row, self.expert = row, expert
        self.now = STRIPED if expert.dimm is None else expert.dimm
        places = [STRIPED, *range(instance.dimms)]
        able = [domain for domain in DOMAINS if not (domain == "gpu" and expert.resident)]
        self.hit = new(f"hit_{row}")
        self.runs: dict[tuple[Domain, int], Any] = {
            (domain, place): new(f"{domain}_{row}_{'s' if place == STRIPED else place}")
            for place in places
            for domain in able
        }
        self.stripe = None if self.now == STRIPED else new(f"stripe_{row}")
        elsewhere = [dimm for dimm in range(instance.dimms) if dimm != self.now]
        self.localize = {dimm: new(f"localize_{row}_{dimm}") for dimm in elsewhere}
        self.rebalance = {dimm: new(f"rebalance_{row}_{dimm}") for dimm in elsewhere}

    @property
    def prefetch(self) -> Any:
        """The variable of its prefetch; None for a resident expert."""
        return None if self.expert.resident else self.hit

    @property
    def relayouts(self) -> list[Any]:
        """The variables of its migrations between the layouts."""
        return [*([] if self.stripe is None else [self.stripe]), *self.localize.values()]

    @property
    def rebalances(self) -> list[Any]:
        """The variables of its migrations between DIMMs."""
        return list(self.rebalance.values())

    def at(self, *places: int) -> list[Any]:
        """Return the variables of its runs while its host copy lies on one of `places`."""
        return [run for (_, place), run in self.runs.items() if place in places]

    def leaves(self) -> list[Any]:
        """Return the variables of its migrations to a DIMM that it does not lie on."""
        return [*self.localize.values(), *self.rebalance.values()]

    def migrations(self, value: Callable[[Any], int]) -> Iterator[Migration]:
        """Yield its migrations, in an order in which they end where it runs.

        Only with a rule left out there are several: then it is striped before it is localized.
        """
        number = self.expert.expert
        if self.prefetch is not None and value(self.prefetch):
            yield Migration(expert=number, kind="prefetch")
        if self.stripe is not None and value(self.stripe):
            yield Migration(expert=number, kind="stripe")
        for dimm in self.localize:
            if value(self.localize[dimm]):
                yield Migration(expert=number, kind="localize", dimm=dimm)
            if value(self.rebalance[dimm]):
                yield Migration(expert=number, kind="rebalance", dimm=dimm)

    def domain(self, value: Callable[[Any], int]) -> Domain | None:
        """Return where it runs, or None if nowhere: a rule may have been left out."""
        if value(self.hit):
            return "gpu"
        return next((domain for (domain, _), run in self.runs.items() if value(run)), None)


def variables_of(instance: Instance, new: Callable[[str], Any]) -> list[Variables]:
    """Return the variables of every expert with tokens."""
    rows = (row for row, expert in enumerate(instance.experts) if expert.tokens)
    return [Variables(instance, row, new) for row in rows]


def ends_on(variables: list[Variables], dimm: int) -> tuple[list[Any], list[Any]]:
    """Return the variables of migrations that keep a DIMM's own link busy for their whole length.

    First the layout changes from or to it, then the moves from and to it (RE-C13).
    """
    changes = [of.localize[dimm] for of in variables if dimm in of.localize]
    changes += [of.stripe for of in variables if of.now == dimm]
    moves = [of.rebalance[dimm] for of in variables if dimm in of.rebalance]
    moves += [move for of in variables if of.now == dimm for move in of.rebalances]
    return changes, moves


def host_ns(expert: Expert, domain: Domain, place: int) -> int:
    """Return how long a run keeps its host busy; 0 on NDP."""
    if domain == "gpu":
        return expert.gpu_work_ns(in_memory=False, striped=place == STRIPED)
    if domain == "cpu":
        return expert.cpu_striped_ns if place == STRIPED else expert.cpu_localized_ns
    return 0


def hit_ns(expert: Expert) -> int:
    """Return how long a run from the GPU's memory keeps the GPU busy."""
    return expert.gpu_work_ns(in_memory=True, striped=True)


def transfers(variables: list[Variables]) -> Iterator[tuple[Any, int]]:
    """Yield the runs that miss the GPU's memory, and how long each keeps PCIe busy (RE-C12)."""
    for of in variables:
        for (domain, place), run in of.runs.items():
            if domain == "gpu":
                yield run, of.expert.pcie_ns(striped=place == STRIPED)


def channel_reads(
    instance: Instance, variables: list[Variables], channel: int
) -> Iterator[tuple[Any, int]]:
    """Yield the hosts' reads of what lies on a channel's DIMMs, and how long each is (RE-C11)."""
    dimms = {dimm for dimm, of in enumerate(instance.channels or ()) if of == channel}
    for of in variables:
        for (domain, place), run in of.runs.items():
            if domain != "ndp" and place in dimms:
                yield run, instance.dram_localized_ns


def striped_reads(variables: list[Variables]) -> Iterator[Any]:
    """Yield the hosts' reads of striped experts."""
    for of in variables:
        for (domain, place), run in of.runs.items():
            if domain != "ndp" and place == STRIPED:
                yield run


def dimm_ns(instance: Instance, expert: Expert, domain: Domain, place: int) -> int:
    """Return how long a run keeps each DIMM busy that the host copy lies on.

    A striped expert on NDP, which RE-C2 forbids, counts for nothing.
    """
    if domain == "ndp":
        return 0 if place == STRIPED else expert.ndp_ns
    if place == STRIPED:
        return instance.striped_charge_ns(instance.dram_striped_ns)
    return instance.dram_localized_ns


def read_off(
    instance: Instance, variables: list[Variables], value: Callable[[Any], int]
) -> Solution:
    """Return the solution that the variables' values describe."""
    assignment: list[Domain | None] = [None] * len(instance.experts)
    migrations: list[Migration] = []
    for of in variables:
        assignment[of.row] = of.domain(value)
        migrations += of.migrations(value)
    return Solution(
        instance=instance.name, migrations=tuple(migrations), assignment=tuple(assignment)
    )
