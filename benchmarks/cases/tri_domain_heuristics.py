"""What the tri_domain heuristics cost, and what TriMoE's costs in plain Python."""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

import numpy as np

from benchmarks.harness.measure import fresh
from benchmarks.harness.measurement import Contender, Measurement
from benchmarks.rooms.tri_domain import HEURISTICS, Expert, Instance, Solution, objective, trimoe
from benchmarks.textbook import tri_domain

Heuristic = Callable[[Instance], Solution]

DESCRIPTION = "the tri_domain heuristics on 256 active experts and 16 DIMMs"
BASELINE = "trimoe"

EXPERTS, DIMMS = 256, 16
SEEDS = range(5)
CALLS = 20
"""Calls in one measurement, which take milliseconds each."""

TOKENS, COLD_SHARE, RESIDENTS = 4096, 0.7, 8
QUANTUM_NS = 5_000
STRIPED_READ_NS, LOCALIZED_READ_NS, PCIE_NS = 155_000, 1_230_000, 740_000
GPU_TOKEN_NS, CPU_TOKEN_NS, NDP_TOKEN_NS = 100, 1_400, 185_000
LEAST_GPU_NS, LEAST_NDP_NS = 15_000, 310_000
"""Round figures of an expert of 47 MB on the paper's machine."""


def contenders() -> Mapping[str, Contender]:
    timed = {name: _timed(heuristic) for name, heuristic in HEURISTICS.items()}
    return timed | {"trimoe in plain Python": _timed(tri_domain.trimoe, same_as=trimoe)}


def instances() -> Sequence[Instance]:
    return [_synthetic(seed) for seed in SEEDS]


def _timed(heuristic: Heuristic, same_as: Heuristic | None = None) -> Contender:
    """Return the contender whose time is the mean of `CALLS` calls.

    Each call has its own copy, so that it pays for turning the experts into arrays. Where `same_as`
    gives another schedule, the contender fails.
    """

    def contender(instance: Instance, time_limit_s: float) -> Measurement:
        copies = [fresh(instance) for _ in range(CALLS)]
        begin = perf_counter()
        solutions = [heuristic(copy) for copy in copies]
        seconds = (perf_counter() - begin) / CALLS
        solution = solutions[0]
        assert same_as is None or solution == same_as(instance), "the two schedules differ"
        return Measurement(seconds, objective(instance, solution), None, proven=False)

    return contender


def _synthetic(seed: int) -> Instance:
    """Draw one layer: popularity falls exponentially, the cold 70 % are localized."""
    rng = np.random.default_rng(seed)
    popularity = np.exp(-5 * rng.permutation(EXPERTS) / EXPERTS)
    tokens = 1 + rng.multinomial(TOKENS, popularity / popularity.sum())
    cold = tokens <= np.quantile(tokens, COLD_SHARE)
    hottest = set(np.argsort(-tokens)[:RESIDENTS].tolist())
    experts = [
        _expert(i, int(tokens[i]), i in hottest, int(rng.integers(DIMMS)) if cold[i] else None)
        for i in range(EXPERTS)
    ]
    return Instance(
        name=f"experts{EXPERTS}-dimms{DIMMS}-seed{seed}", dimms=DIMMS, experts=tuple(experts)
    )


def _expert(number: int, tokens: int, resident: bool, dimm: int | None) -> Expert:
    read = STRIPED_READ_NS if dimm is None else LOCALIZED_READ_NS
    gpu = max(tokens * GPU_TOKEN_NS, LEAST_GPU_NS)
    ndp = max(tokens * NDP_TOKEN_NS, LEAST_NDP_NS)
    return Expert(
        expert=number,
        tokens=tokens,
        resident=resident,
        dimm=dimm,
        gpu_ns=_rounded_up(gpu if resident else max(gpu, PCIE_NS, read)),
        cpu_ns=_rounded_up(max(tokens * CPU_TOKEN_NS, read)),
        ndp_ns=None if dimm is None else _rounded_up(ndp),
        gpu_dram_ns=0 if resident else read,
        cpu_dram_ns=read,
    )


def _rounded_up(ns: int) -> int:
    return -(-ns // QUANTUM_NS) * QUANTUM_NS
