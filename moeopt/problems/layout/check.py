"""The checker: what makes a layout with its schedules valid, and what it costs. No solvers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from .instance import Instance
from .solution import Domain, Solution

CONSTRAINTS = {
    "LA-C1": "in each scenario each expert with tokens runs in exactly one domain, others in none",
    "LA-C2": "only an expert localized on an existing DIMM runs on NDP, and on its own DIMM",
    "LA-C3": "at most hbm_slots experts are resident",
    "LA-C4": "at most dimm_slots experts are localized on one DIMM",
    "LA-C5": "per scenario the GPU's costs sum to at most the makespan (TriMoE Eq. 5)",
    "LA-C6": "per scenario the CPU's costs sum to at most the makespan (TriMoE Eq. 5)",
    "LA-C7": "per scenario a DIMM's NDP work and host reads sum to at most the makespan (Eq. 6)",
}

OBJECTIVE = ("weighted_makespan_ns",)
"""What is minimised, in order of importance; the name ends with the unit."""

SERIAL = ("LA-C5", "LA-C6", "LA-C7")
"""The rules that hold a schedule to its makespan."""

Violations = list[tuple[str, str]]


@dataclass(frozen=True)
class Loads:
    """How long each device is busy in one scenario, in ns; `dimm_ns` has one entry per DIMM."""

    gpu_ns: int
    cpu_ns: int
    dimm_ns: tuple[int, ...]

    @property
    def makespan_ns(self) -> int:
        """The load of the busiest device (TriMoE Eq. 7)."""
        return max(self.gpu_ns, self.cpu_ns, *self.dimm_ns)

    def makespan_of(self, rule: str) -> int:
        """Return the load of the busiest device that LA-C5, LA-C6 or LA-C7 is about."""
        return {"LA-C5": self.gpu_ns, "LA-C6": self.cpu_ns}.get(rule, max(self.dimm_ns))

    def makespan_without(self, rules: Sequence[str]) -> int:
        """Return the load of the busiest device that none of `rules` is about."""
        left = (self.makespan_of(rule) for rule in SERIAL if rule not in rules)
        return max(left, default=0)


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
        )
        for number in range(len(instance.scenarios))
    ]


def scenario_loads(
    instance: Instance,
    number: int,
    resident: Sequence[bool],
    dimm: Sequence[int | None],
    assignment: Sequence[Domain | None],
) -> Loads:
    """Return the busy time of every device in scenario `number` under a layout and an assignment.

    A resident expert costs the GPU its hit and loads no DIMM there; on the CPU it is read from its
    host copy. A striped expert that a host reads keeps every DIMM busy, a localized one its own.
    """
    scenario = instance.scenarios[number]
    gpu = cpu = every_dimm = 0
    own = [0] * instance.dimms
    for row, domain in enumerate(assignment[: instance.experts]):
        if domain is None or not scenario.tokens[row]:
            continue
        where = dimm[row] if row < len(dimm) else None
        read = domain != "ndp"
        if domain == "gpu":
            if row < len(resident) and resident[row]:
                gpu += scenario.gpu_hit_ns[row]
                read = False
            elif where is None:
                gpu += scenario.gpu_miss_striped_ns[row]
            else:
                gpu += scenario.gpu_miss_localized_ns[row]
        elif domain == "cpu":
            cpu += (scenario.cpu_striped_ns if where is None else scenario.cpu_localized_ns)[row]
        if where is None:
            every_dimm += instance.dram_striped_ns if read else 0
        elif where < instance.dimms:
            local_ns = scenario.ndp_ns[row] if domain == "ndp" else instance.dram_localized_ns
            own[where] += local_ns if read or domain == "ndp" else 0
    return Loads(gpu, cpu, tuple(every_dimm + busy for busy in own))


def violations(
    instance: Instance, solution: Solution, objective_ns: int | None = None
) -> Violations:
    """Return what is wrong with a solution, as (constraint ID, sentence); empty if it is valid.

    Parameters
    ----------
    instance, solution
        The problem and the decision to check.
    objective_ns
        The objective claimed for the solution, if there is a claim: LA-C5 to LA-C7 hold the
        schedules to it. Without a claim the objective is whatever the assignments give.
    """
    found = [*_assignment(instance, solution), *_layout(instance, solution)]
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
            elif domain == "ndp" and (
                expert >= len(solution.dimm) or solution.dimm[expert] is None
            ):
                yield "LA-C2", f"{at}: expert {expert} is not localized and cannot run on NDP"


def _layout(instance: Instance, solution: Solution) -> Iterator[tuple[str, str]]:
    active = [any(column) for column in zip(*(s.tokens for s in instance.scenarios), strict=True)]
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
        if expert < instance.experts and not active[expert]:
            yield "LA-C2", f"dimm[{expert}]: must be null, expert {expert} never has tokens"
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
    met: dict[tuple[str, ...], int] = {}
    for size in range(1, len(SERIAL) + 1):
        sums = {rules: _weighted_sum(instance, load, rules) for rules in combinations(SERIAL, size)}
        met = met or {rules: total for rules, total in sums.items() if total <= claim}
    left_out = max(met, key=lambda rules: met[rules]) if met else SERIAL
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
    dimms = load[number].dimm_ns
    dimm = f"DIMM {dimms.index(max(dimms))}"
    device = {"LA-C5": "the GPU", "LA-C6": "the CPU", "LA-C7": dimm}[rule]
    busy = f"busy for {load[number].makespan_of(rule)} ns in scenario {number}"
    return f"{device} is {busy}, which is more than the claimed objective leaves it"


def _weighted_sum(
    instance: Instance, load: Sequence[Loads], without_rules: Sequence[str] = ()
) -> int:
    return sum(
        scenario.weight * of.makespan_without(without_rules)
        for scenario, of in zip(instance.scenarios, load, strict=True)
    )
