"""A solution as schedules to look at, and the facts about it that reports ask for."""

from collections.abc import Iterator, Sequence
from typing import Any

from moeopt.core.problem import HINDSIGHT, THIS_STEP
from moeopt.core.view import Changes, Difference, Kind, Lane, expert_words, longest_first, replaced

from .check import loads
from .instance import DOMAINS, Domain, Instance, Solution
from .paths import PATH_OF
from .systems import ALL_STRIPED, SYSTEMS
from .with_copies import COPIES

Piece = tuple[int, str, Kind]

BASE = "base"
"""What the GPU's base load is called."""


def lanes(instance: Instance, solution: Solution) -> list[Lane]:
    """Return one lane per scenario and device: GPU, CPU, DIMMs; in schema 2 channels and PCIe.

    The order on a device is free (Eq. 5 and 6 are sums): the hosts' reads before a DIMM's own NDP
    work, the longest first. With one scenario the lanes are named after the devices alone.
    """
    found = []
    for number in range(len(instance.scenarios)):
        pieces: dict[str, list[Piece]] = {name: [] for name in devices_of(instance)}
        pieces["GPU"].append((instance.base_ns, BASE, "work"))
        for row, domain in enumerate(solution.assignment[number]):
            if domain is not None:
                for device, ns, kind in tasks(instance, solution, number, row, domain):
                    pieces[device].append((ns, str(row), kind))
        where = f"scenario {number}: " if len(instance.scenarios) > 1 else ""
        found += [longest_first(where + name, of) for name, of in pieces.items()]
    return found


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return what binds in how many scenarios, what the layout is, and how long hosts are busy.

    Ties as in the refinement: GPU, CPU, DIMM; then channel, PCIe. `host_ns` is the hosts' total
    over the scenarios, weighted: the objective says nothing about it where the DIMMs bind.
    """
    devices = ["gpu", "cpu", "dimm"]
    devices += ["channel"] * (instance.channels is not None) + ["pcie"] * instance.in_two_parts
    found: dict[str, str | int] = {f"{name}_binds": 0 for name in devices}
    host = 0
    for scenario, load in zip(instance.scenarios, loads(instance, solution), strict=True):
        busy = {"gpu": load.gpu_ns, "cpu": load.cpu_ns, "dimm": max(load.dimm_ns)}
        busy |= {"channel": max(load.channel_ns, default=0), "pcie": load.pcie_ns}
        binds = next(name for name in devices if busy[name] == load.makespan_ns)
        found[f"{binds}_binds"] = int(found[f"{binds}_binds"]) + 1
        host += scenario.weight * (load.gpu_ns + load.cpu_ns)
    found["resident"] = sum(solution.resident)
    found["localized"] = sum(dimm is not None for dimm in solution.dimm)
    if instance.copies is not None:
        found["further_copies"] = sum(len(dimms) for dimms in solution.copies or ())
    found["host_ns"] = host
    return found


def information(instance: Instance, method: str) -> str | None:
    """Return what a system knew when it decided its layout; its schedules it makes for the loads.

    Without residents a layout that is the same for every expert needs no loads.
    """
    if method in COPIES:
        if method != "copies-by-load" and not instance.hbm_slots:
            return THIS_STEP
        return HINDSIGHT if instance.forecast_tokens is None else f"a forecast; then {THIS_STEP}"
    if method not in SYSTEMS:
        return None
    if method in ALL_STRIPED and not instance.hbm_slots:
        return THIS_STEP
    return None if instance.forecast_tokens is None else f"a forecast; then {THIS_STEP}"


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield what lies elsewhere (which DIMM is arbitrary) and what runs elsewhere, by tokens."""
    for row in range(instance.experts):
        tokens = sum(scenario.tokens[row] for scenario in instance.scenarios)
        a, b = (_lies(solution, row) for solution in (ours, best))
        if a != b:
            yield tokens, f"layout of {expert_words(row, tokens)}", a, b
    several = len(instance.scenarios) > 1
    for number, scenario in enumerate(instance.scenarios):
        where = f"window {number}, " if several else ""
        rows = zip(scenario.tokens, ours.assignment[number], best.assignment[number], strict=True)
        for row, (tokens, one, other) in enumerate(rows):
            if one != other:
                what = where + expert_words(row, tokens)
                yield tokens, what, one or "nowhere", other or "nowhere"


def changes(instance: Instance, solution: Solution) -> Changes:
    """Yield other domains of each expert in each window, other places, and another residence.

    An expert that lies elsewhere runs as it did, or in one domain in all windows.
    """
    several = len(instance.scenarios) > 1
    for row in range(instance.experts):
        runs = [number for number, s in enumerate(instance.scenarios) if s.tokens[row]]
        what = expert_words(row, sum(scenario.tokens[row] for scenario in instance.scenarios))

        def running(domain: Domain, row: int = row, runs: Sequence[int] = runs) -> dict[str, Any]:
            rows = solution.assignment
            for number in runs:
                rows = replaced(rows, number, replaced(rows[number], row, domain))
            return {"assignment": rows}

        for number in runs:
            now = solution.assignment[number][row]
            where = f"window {number}, " if several else ""
            for domain in DOMAINS:
                if domain != now:
                    rows = replaced(solution.assignment[number], row, domain)
                    update = {"assignment": replaced(solution.assignment, number, rows)}
                    words = f"{where}{what} from {now} to {domain}"
                    yield words, solution.model_copy(update=update)
        if not runs:
            continue
        for dimm in (None, *range(instance.dimms)):
            if dimm != solution.dimm[row]:
                lies: dict[str, Any] = {"dimm": replaced(solution.dimm, row, dimm)}
                words = f"{what} {'striped' if dimm is None else f'on DIMM {dimm}'}"
                yield words, solution.model_copy(update=lies)
                for domain in DOMAINS:
                    yield (
                        f"{words}, run on {domain}",
                        solution.model_copy(update=lies | running(domain)),
                    )
        held = solution.resident[row]
        lies = {"resident": replaced(solution.resident, row, not held)}
        words = f"{what} {'not ' if held else ''}resident"
        for domain in DOMAINS:
            update = lies | running(domain)
            yield f"{words}, run on {domain}", solution.model_copy(update=update)


def _lies(solution: Solution, row: int) -> str:
    spread = "striped" if solution.dimm[row] is None else "localized"
    if solution.copies is not None and (others := len(solution.copies[row])):
        spread += f" and on {others} DIMM{'s' * (others > 1)}"
    return f"{spread}, in HBM as well" if solution.resident[row] else spread


def devices_of(instance: Instance) -> list[str]:
    """Return the names of the GPU, the CPU and the DIMMs; of channels and PCIe if they limit."""
    dimms = range(instance.dimms)
    devices = ["GPU", "CPU", *(f"DIMM {dimm}" for dimm in dimms), *_channels(instance, dimms)]
    return [*devices, "PCIe"] if instance.in_two_parts else devices


def tasks(
    instance: Instance, solution: Solution, number: int, row: int, domain: Domain
) -> Iterator[tuple[str, int, Kind]]:
    """Yield the devices that an expert keeps busy in a scenario, for how long, and with what."""
    times, dimm = instance.path_times, solution.run_from(number, row)
    path = PATH_OF[DOMAINS.index(domain), int(dimm is not None), int(solution.resident[row])]
    device = f"DIMM {dimm}" if domain == "ndp" else domain.upper()
    yield device, int(times.cost[path, number, row]), "work"
    if times.pcie[path, number, row]:
        yield "PCIe", int(times.pcie[path, number, row]), "transfer"
    if times.full_read[path]:
        where = range(instance.dimms) if dimm is None else [dimm]
        for at in where:
            yield f"DIMM {at}", int(times.read[path]), "read"
        for channel in _channels(instance, where):
            yield channel, int(times.full_read[path]), "read"


def _channels(instance: Instance, dimms: Sequence[int]) -> list[str]:
    """Return the names of the channels of some DIMMs; none where channels are no limit."""
    of_dimm = instance.channels
    return [] if of_dimm is None else [f"channel {c}" for c in sorted({of_dimm[d] for d in dimms})]
