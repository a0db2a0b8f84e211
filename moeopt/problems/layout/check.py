"""The checker: what makes a layout with its schedules valid, and what it costs. No solvers.

Brute force: every layout there is, each with its best schedules. Ground truth of the tests.

Written from the spec's text alone: all experts, with tokens or without, all residents and places,
nothing left out as equal or useless. What is valid and what it costs, the checker says.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import comb

from .instance import DOMAINS, Domain, Instance, Scenario, Solution

CONSTRAINTS = {
    "LA-C1": "in each scenario each expert with tokens runs in exactly one domain, others in none",
    "LA-C2": "only a localized expert runs on NDP, on its DIMM; it runs from a copy that it has",
    "LA-C3": "at most hbm_slots experts are resident",
    "LA-C4": "at most dimm_slots experts are localized on one DIMM",
    "LA-C5": "per scenario the GPU's base load and costs sum to at most the makespan (Eq. 5)",
    "LA-C6": "per scenario the CPU's costs sum to at most the makespan (TriMoE Eq. 5)",
    "LA-C7": "per scenario a DIMM's NDP work and host reads sum to at most the makespan (Eq. 6)",
    "LA-C8": "per scenario the host reads through a memory channel sum to at most the makespan",
    "LA-C9": "per scenario the transfers over PCIe sum to at most the makespan",
    "LA-C10": "at most copies.max_per_expert copies of an expert, one in each place",
    "LA-C11": "a DIMM's localized copies, its shares of striped ones and what is reserved fit it",
}

OBJECTIVE = ("weighted_makespan_ns",)
"""What is minimised, in order of importance; the name ends with the unit."""

SERIAL = ("LA-C5", "LA-C6", "LA-C7", "LA-C8", "LA-C9")
"""The rules that hold a schedule to its makespan."""

Violations = list[tuple[str, str]]


@dataclass(frozen=True)
class Loads:
    """How long each device is busy in one scenario, in ns.

    `dimm_ns` has one entry per DIMM; `channel_ns` one per memory channel, by rising number, and
    none where channels are no limit; `pcie_ns` is 0 where misses keep the GPU busy as a whole.
    """

    gpu_ns: int
    cpu_ns: int
    dimm_ns: tuple[int, ...]
    channel_ns: tuple[int, ...] = ()
    pcie_ns: int = 0

    @property
    def makespan_ns(self) -> int:
        """The load of the busiest device (TriMoE Eq. 7)."""
        return self.makespan_without(())

    def makespan_of(self, rule: str) -> int:
        """Return the load of the busiest device that a rule of `SERIAL` is about."""
        busiest = {
            "LA-C5": self.gpu_ns,
            "LA-C6": self.cpu_ns,
            "LA-C7": max(self.dimm_ns),
            "LA-C8": max(self.channel_ns, default=0),
            "LA-C9": self.pcie_ns,
        }
        return busiest[rule]

    def makespan_without(self, rules: Sequence[str]) -> int:
        """Return the load of the busiest device that none of `rules` is about."""
        left = (self.makespan_of(rule) for rule in SERIAL if rule not in rules)
        return max(left, default=0)


def serial_rules(instance: Instance) -> tuple[str, ...]:
    """Return those of `SERIAL` that say something about an instance."""
    silent = {"LA-C8"} if instance.channels is None else set()
    if not instance.in_two_parts:
        silent.add("LA-C9")
    return tuple(rule for rule in SERIAL if rule not in silent)


def loads(instance: Instance, solution: Solution) -> list[Loads]:
    """Return the busy time of every device in each scenario (TriMoE Eq. 5 and 6).

    Missing entries count as striped, not resident and running nowhere, and so does work in a domain
    that the expert may not use; `violations` reports both.
    """
    return [
        scenario_loads(
            instance,
            number,
            solution.resident,
            solution.dimm,
            solution.assignment[number] if number < len(solution.assignment) else (),
            solution.sources(number),
        )
        for number in range(len(instance.scenarios))
    ]


def scenario_loads(
    instance: Instance,
    number: int,
    resident: Sequence[bool],
    dimm: Sequence[int | None],
    assignment: Sequence[Domain | None],
    source: Sequence[int | None] = (),
) -> Loads:
    """Return the busy time of every device in scenario `number` under a layout and an assignment.

    A resident expert costs the GPU its hit and loads nothing else there; on the CPU it is read from
    its host copy. A host's read of a striped expert keeps every DIMM busy for its charge and every
    channel for its whole length, one of a localized expert its own DIMM and that one's channel. NDP
    work keeps its DIMM busy and no channel. Where `source` names a DIMM, the expert is run from the
    copy there, else from where `dimm` says.
    """
    scenario = instance.scenarios[number]
    gpu, cpu, pcie, striped_reads = instance.base_ns, 0, 0, 0
    own, local_reads = [0] * instance.dimms, [0] * instance.dimms
    for row, domain in enumerate(assignment[: instance.experts]):
        if domain is None or not scenario.tokens[row]:
            continue
        where = dimm[row] if row < len(dimm) else None
        if row < len(source) and source[row] is not None:
            where = source[row]
        if domain == "ndp":
            if where is not None and where < instance.dimms:
                own[where] += scenario.ndp_ns[row]
            continue
        if domain == "cpu":
            cpu += (scenario.cpu_striped_ns if where is None else scenario.cpu_localized_ns)[row]
        elif row < len(resident) and resident[row]:
            gpu += scenario.gpu_hit_ns[row]
            continue
        else:
            of_gpu, of_pcie = _miss_ns(scenario, row, striped=where is None)
            gpu, pcie = gpu + of_gpu, pcie + of_pcie
        if where is None:
            striped_reads += 1
        elif where < instance.dimms:
            local_reads[where] += 1
    charge_ns = instance.striped_charge_ns(instance.dram_striped_ns)
    local_ns = [reads * instance.dram_localized_ns for reads in local_reads]
    dimm_ns = tuple(
        striped_reads * charge_ns + busy + reads for busy, reads in zip(own, local_ns, strict=True)
    )
    full_ns = striped_reads * instance.dram_striped_ns
    of_channel: dict[int, int] = dict.fromkeys(sorted(instance.channels or ()), full_ns)
    for channel, reads in zip(instance.channels or (), local_ns, strict=False):
        of_channel[channel] += reads
    return Loads(gpu, cpu, dimm_ns, tuple(of_channel.values()), pcie)


def _miss_ns(scenario: Scenario, row: int, *, striped: bool) -> tuple[int, int]:
    """Return how long an expert that is not resident keeps the GPU and PCIe busy."""
    if scenario.gpu_calc_ns is not None:
        copied = scenario.pcie_striped_ns if striped else scenario.pcie_localized_ns
        return scenario.gpu_calc_ns[row], copied[row] if copied else 0
    whole = scenario.gpu_miss_striped_ns if striped else scenario.gpu_miss_localized_ns
    return whole[row], 0


def violations(
    instance: Instance, solution: Solution, objective_ns: int | None = None
) -> Violations:
    """Return what is wrong with a solution, as (constraint ID, sentence); empty if it is valid.

    Parameters
    ----------
    instance, solution
        The problem and the decision to check.
    objective_ns
        The objective claimed for the solution, if there is a claim: LA-C5 to LA-C9 hold the
        schedules to it. Without a claim the objective is whatever the assignments give.
    """
    found = [*_assignment(instance, solution), *_layout(instance, solution)]
    found += [*_sources(instance, solution), *_copies(instance, solution)]
    if objective_ns is not None:
        found += _overruns(instance, solution, objective_ns)
    return found


def objective(instance: Instance, solution: Solution) -> int:
    """Return the sum of weight x makespan over the scenarios, in ns."""
    return _weighted_sum(instance, loads(instance, solution))


def _assignment(instance: Instance, solution: Solution) -> Iterator[tuple[str, str]]:
    rows, wanted = len(solution.assignment), len(instance.scenarios)
    if rows != wanted:
        yield "LA-C1", f"assignment has {rows} rows for {wanted} scenarios"
    for number, (scenario, row) in enumerate(
        zip(instance.scenarios, solution.assignment, strict=False)
    ):
        if len(row) != instance.experts:
            count = f"{len(row)} entries for {instance.experts} experts"
            yield "LA-C1", f"assignment[{number}] has {count}"
        for expert, (tokens, domain) in enumerate(zip(scenario.tokens, row, strict=False)):
            at = f"assignment[{number}][{expert}]"
            if tokens and domain is None:
                yield "LA-C1", f"{at}: expert {expert} has tokens and runs nowhere"
            elif domain is not None and not tokens:
                yield "LA-C1", f"{at}: expert {expert} has no tokens and runs on {domain}"
            elif domain == "ndp" and not _localized(solution, number, expert):
                yield "LA-C2", f"{at}: expert {expert} is not localized and cannot run on NDP"


def _localized(solution: Solution, number: int, expert: int) -> bool:
    """Tell whether an expert is run from a copy on one DIMM."""
    source, dimm = solution.sources(number), solution.dimm
    of_copy = expert < len(source) and source[expert] is not None
    return of_copy or (expert < len(dimm) and dimm[expert] is not None)


def _sources(instance: Instance, solution: Solution) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the copies that experts are run from."""
    if solution.source is None:
        return
    rows, wanted = len(solution.source), len(instance.scenarios)
    if rows != wanted:
        yield "LA-C2", f"source has {rows} rows for {wanted} scenarios"
    copies = solution.copies or ()
    for number, row in enumerate(solution.source[:wanted]):
        if len(row) != instance.experts:
            count = f"{len(row)} entries for {instance.experts} experts"
            yield "LA-C2", f"source[{number}] has {count}"
        for expert, dimm in enumerate(row[: instance.experts]):
            if dimm is not None and (expert >= len(copies) or dimm not in copies[expert]):
                reason = f"expert {expert} has no further copy on DIMM {dimm}"
                yield "LA-C2", f"source[{number}][{expert}]: {reason}"


def _copies(instance: Instance, solution: Solution) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the number of copies, and with the memory that they take."""
    of, copies = instance.copies, solution.copies or ()
    if solution.copies is not None and len(copies) != instance.experts:
        yield "LA-C10", f"copies has {len(copies)} entries for {instance.experts} experts"
    most = 1 if of is None else of.max_per_expert
    for expert, dimms in enumerate(copies[: instance.experts]):
        first = solution.dimm[expert] if expert < len(solution.dimm) else None
        if len({first, *dimms}) <= len(dimms):
            yield "LA-C10", f"copies[{expert}]: two copies of expert {expert} lie in one place"
        if 1 + len(dimms) > most:
            yield (
                "LA-C10",
                f"expert {expert} has {1 + len(dimms)} copies, at most {most} are allowed",
            )
    if of is not None:
        for dimm, used in enumerate(_bytes_on_dimms(instance, solution)):
            if used > of.room_bytes:
                sentence = f"DIMM {dimm} has to hold {used} bytes of weights"
                yield "LA-C11", f"{sentence} and has room for {of.room_bytes}"


def _bytes_on_dimms(instance: Instance, solution: Solution) -> list[int]:
    """Return the bytes that copies take on each DIMM; what is not there counts as striped."""
    if instance.copies is None:
        return []
    used, striped = [0] * instance.dimms, 0
    for expert in range(instance.experts):
        first = solution.dimm[expert] if expert < len(solution.dimm) else None
        others = (solution.copies or ())[expert : expert + 1]
        striped += first is None
        for dimm in {first, *(d for of in others for d in of)}:
            if dimm is not None and dimm < instance.dimms:
                used[dimm] += instance.copies.expert_bytes
    return [local + striped * instance.copies.share_bytes(instance.dimms) for local in used]


def _layout(instance: Instance, solution: Solution) -> Iterator[tuple[str, str]]:
    if len(solution.dimm) != instance.experts:
        count = f"{len(solution.dimm)} entries for {instance.experts} experts"
        yield "LA-C2", f"dimm has {count}"
    on = [0] * instance.dimms
    for expert, dimm in enumerate(solution.dimm):
        if dimm is None:
            continue
        if dimm >= instance.dimms:
            yield "LA-C2", f"dimm[{expert}]: there is no DIMM {dimm}, only {instance.dimms}"
            continue
        on[dimm] += 1
    for expert, dimms in enumerate((solution.copies or ())[: instance.experts]):
        for dimm in dimms:
            if dimm >= instance.dimms:
                sentence = f"there is no DIMM {dimm}, only {instance.dimms}"
                yield "LA-C2", f"copies[{expert}]: {sentence}"
            else:
                on[dimm] += 1
    if len(solution.resident) != instance.experts:
        count = f"{len(solution.resident)} entries for {instance.experts} experts"
        yield "LA-C3", f"resident has {count}"
    kept = sum(solution.resident)
    if kept > instance.hbm_slots:
        yield "LA-C3", f"{kept} experts are resident, there are {instance.hbm_slots} slots"
    for number, held in enumerate(on):
        if instance.dimm_slots is not None and held > instance.dimm_slots:
            yield "LA-C4", f"DIMM {number} holds {held} experts and has {instance.dimm_slots} slots"


def _overruns(instance: Instance, solution: Solution, claim: int) -> Iterator[tuple[str, str]]:
    """Name the rules that a claim below the objective leaves out.

    A claim is one sum over the scenarios and says nothing about each. Named are the fewest rules
    without which the sum meets the claim; of several such sets the one whose sum is nearest to it.
    With one scenario these are exactly the rules of the devices that are busy past the claim.
    """
    load = loads(instance, solution)
    if _weighted_sum(instance, load) <= claim:
        return
    serial = serial_rules(instance)
    met: dict[tuple[str, ...], int] = {}
    for size in range(1, len(serial) + 1):
        sums = {rules: _weighted_sum(instance, load, rules) for rules in combinations(serial, size)}
        met = met or {rules: total for rules, total in sums.items() if total <= claim}
    left_out = max(met, key=lambda rules: met[rules]) if met else serial
    allowed = [of.makespan_without(left_out) for of in load]
    for rule in left_out:
        yield rule, _latest(instance, load, rule, allowed)


def _latest(instance: Instance, load: Sequence[Loads], rule: str, allowed_ns: Sequence[int]) -> str:
    """Return a sentence on the device of `rule` where it is latest, weighted."""
    late = [
        scenario.weight * (of.makespan_of(rule) - allowed)
        for scenario, of, allowed in zip(instance.scenarios, load, allowed_ns, strict=True)
    ]
    number = late.index(max(late))
    device = {"LA-C5": "the GPU", "LA-C6": "the CPU", "LA-C9": "PCIe"}.get(rule)
    if rule == "LA-C7":
        device = _busiest("DIMM", range(instance.dimms), load[number].dimm_ns)
    elif rule == "LA-C8":
        channels = sorted(set(instance.channels or ()))
        device = _busiest("channel", channels, load[number].channel_ns)
    busy = f"busy for {load[number].makespan_of(rule)} ns in scenario {number}"
    return f"{device} is {busy}, which is more than the claimed objective leaves it"


def _busiest(kind: str, numbers: Sequence[int], busy_ns: Sequence[int]) -> str:
    return f"{kind} {numbers[busy_ns.index(max(busy_ns))]}"


def _weighted_sum(
    instance: Instance, load: Sequence[Loads], without_rules: Sequence[str] = ()
) -> int:
    return sum(
        scenario.weight * of.makespan_without(without_rules)
        for scenario, of in zip(instance.scenarios, load, strict=True)
    )


MAX_CANDIDATES = 10**6

OF_LAYOUTS = {"LA-C2", "LA-C4", "LA-C10", "LA-C11"}
"""The rules that a layout keeps or breaks whatever runs on it."""

Run = tuple[Domain | None, int | None]
"""The domain of an expert, and the DIMM of the copy that it is run from; None: the first."""


def count(instance: Instance) -> int:
    """Return how many schedules `candidates` compares at most: layouts times assignments."""
    places = _places(instance)
    ways = len(DOMAINS) * max(len(of) for of in places)
    schedules = sum(
        int(ways ** sum(1 for tokens in scenario.tokens if tokens))
        for scenario in instance.scenarios
    )
    slots = min(instance.hbm_slots, instance.experts)
    residents = sum(comb(instance.experts, size) for size in range(slots + 1))
    return residents * int(len(places) ** instance.experts) * schedules


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every valid layout with the best assignment of each scenario under it.

    Given a layout the scenarios have nothing to do with each other, and the objective is a weighted
    sum, so each scenario's least makespan gives the least objective.
    """
    several = instance.copies is not None
    nobody: tuple[Domain | None, ...] = (None,) * instance.experts
    for resident in product((False, True), repeat=instance.experts):
        if sum(resident) > instance.hbm_slots:
            continue
        for places in product(_places(instance), repeat=instance.experts):
            # The pieces are well-formed by construction; skipping validation is much faster.
            layout = Solution.model_construct(
                problem="layout",
                instance=instance.name,
                resident=resident,
                dimm=tuple(of[0] for of in places),
                copies=tuple(tuple(d for d in of[1:] if d is not None) for of in places)
                if several
                else None,
                source=None,
                assignment=(nobody,) * len(instance.scenarios),
            )
            if any(rule in OF_LAYOUTS for rule, _ in violations(instance, layout)):
                continue
            runs = [_best(instance, number, layout) for number in range(len(instance.scenarios))]
            yield layout.model_copy(
                update={
                    "assignment": tuple(tuple(of for of, _ in row) for row in runs),
                    "source": tuple(tuple(of for _, of in row) for row in runs)
                    if several
                    else None,
                }
            )


def _places(instance: Instance) -> list[tuple[int | None, ...]]:
    """Return where an expert may lie at once, the first copy first; None: striped."""
    most = 1 if instance.copies is None else instance.copies.max_per_expert
    everywhere = (None, *range(instance.dimms))
    sets = product((False, True), repeat=len(everywhere))
    return [
        tuple(place for place, lies in zip(everywhere, flags, strict=True) if lies)
        for flags in sets
        if 1 <= sum(flags) <= most
    ]


def _best(instance: Instance, number: int, layout: Solution) -> tuple[Run, ...]:
    """Return the runs of least makespan among all that a layout allows in a scenario."""
    able: list[list[Run]] = []
    for row, tokens in enumerate(instance.scenarios[number].tokens):
        sources = (None, *(layout.copies[row] if layout.copies else ()))
        able.append(
            [
                (domain, source)
                for domain, source in product(DOMAINS, sources)
                if domain != "ndp" or source is not None or layout.dimm[row] is not None
            ]
            if tokens
            else [(None, None)]
        )

    def makespan(runs: tuple[Run, ...]) -> int:
        domains, source = zip(*runs, strict=True)
        fixed = (layout.resident, layout.dimm, domains, source)
        return scenario_loads(instance, number, *fixed).makespan_ns

    return min(product(*able), key=makespan)
