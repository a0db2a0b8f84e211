"""A solution as schedules to look at, and the facts about it that reports ask for."""

from collections.abc import Iterable, Iterator
from typing import Literal

from moeopt.problems.info import THIS_STEP
from moeopt.problems.view import Bar, Difference, Lane, expert_words

from .check import loads
from .instance import Instance, Scenario
from .solution import Solution
from .systems import ALL_STRIPED, SYSTEMS, has_forecast

Piece = tuple[int, str, Literal["work", "read"]]


def lanes(instance: Instance, solution: Solution) -> list[Lane]:
    """Return one lane per scenario and device: GPU, CPU, DIMMs.

    The order on a device is free (Eq. 5 and 6 are sums): the hosts' reads before a DIMM's own NDP
    work, the longest first. With one scenario the lanes are named after the devices alone.
    """
    found = []
    for number, scenario in enumerate(instance.scenarios):
        pieces: list[list[Piece]] = [[] for _ in range(2 + instance.dimms)]
        for row, domain in enumerate(solution.assignment[number]):
            if domain is not None:
                _put(instance, scenario, solution, row, domain, pieces)
        names = ["GPU", "CPU", *(f"DIMM {dimm}" for dimm in range(instance.dimms))]
        if len(instance.scenarios) > 1:
            names = [f"scenario {number}: {name}" for name in names]
        found += [_lane(name, of) for name, of in zip(names, pieces, strict=True)]
    return found


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return what binds in how many scenarios, what the layout is, and how long hosts are busy.

    Ties as in the refinement: GPU, CPU, DIMM. `host_ns` is the hosts' total over the scenarios,
    weighted: the objective says nothing about it where the DIMMs bind.
    """
    found: dict[str, str | int] = {"gpu_binds": 0, "cpu_binds": 0, "dimm_binds": 0}
    host = 0
    for scenario, load in zip(instance.scenarios, loads(instance, solution), strict=True):
        devices = {"gpu": load.gpu_ns, "cpu": load.cpu_ns, "dimm": max(load.dimm_ns)}
        binds = next(name for name, busy in devices.items() if busy == load.makespan_ns)
        found[f"{binds}_binds"] = int(found[f"{binds}_binds"]) + 1
        host += scenario.weight * (load.gpu_ns + load.cpu_ns)
    found["resident"] = sum(solution.resident)
    found["localized"] = sum(dimm is not None for dimm in solution.dimm)
    found["host_ns"] = host
    return found


def knew(instance: Instance, method: str) -> str | None:
    """Return what a system knew when it decided its layout; its schedules it makes for the loads.

    Without residents a layout that is the same for every expert needs no loads.
    """
    if method not in SYSTEMS:
        return None
    if method in ALL_STRIPED and not instance.hbm_slots:
        return THIS_STEP
    if not has_forecast(instance):
        return None
    return f"a forecast; then {THIS_STEP}"


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


def _lies(solution: Solution, row: int) -> str:
    spread = "striped" if solution.dimm[row] is None else "localized"
    return f"{spread}, in HBM as well" if solution.resident[row] else spread


def _put(
    instance: Instance,
    scenario: Scenario,
    solution: Solution,
    row: int,
    domain: Literal["gpu", "cpu", "ndp"],
    pieces: list[list[Piece]],
) -> None:
    """Add an expert's bars to the devices that it keeps busy."""
    dimm, label = solution.dimm[row], str(row)
    if domain == "ndp":
        pieces[2 + (dimm or 0)].append((scenario.ndp_ns[row], label, "work"))
        return
    hit = domain == "gpu" and solution.resident[row]
    if hit:
        cost = scenario.gpu_hit_ns
    elif domain == "gpu":
        cost = scenario.gpu_miss_striped_ns if dimm is None else scenario.gpu_miss_localized_ns
    else:
        cost = scenario.cpu_striped_ns if dimm is None else scenario.cpu_localized_ns
    pieces[0 if domain == "gpu" else 1].append((cost[row], label, "work"))
    if not hit:
        read = instance.dram_striped_ns if dimm is None else instance.dram_localized_ns
        for where in range(instance.dimms) if dimm is None else [dimm]:
            pieces[2 + where].append((read, label, "read"))


def _lane(device: str, pieces: Iterable[Piece]) -> Lane:
    bars, clock = [], 0
    for length, label, kind in sorted(pieces, key=lambda piece: (piece[2], -piece[0], piece[1])):
        if length:
            bars.append(Bar(clock, clock + length, label, kind))
            clock += length
    return Lane(device, tuple(bars))
