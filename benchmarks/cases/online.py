"""tri_domain as a runtime asks it, once per layer and step: the calls against solvers' models."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

import moeopt
from benchmarks.harness.contenders import Answer, moeopt_solve, prebuilt
from benchmarks.harness.measure import fresh
from benchmarks.harness.measurement import Contender
from benchmarks.rooms.core import InstanceEnvelope
from benchmarks.rooms.problems import Ints, table_of
from benchmarks.rooms.sim import get_model
from benchmarks.rooms.tri_domain import (
    DOMAINS,
    FIRST_WORK,
    NO_CUTOFF,
    Bracket,
    Instance,
    Scheduler,
    Solution,
)
from benchmarks.textbook.tri_domain import cpsat_built, highs_built

DESCRIPTION = (
    "tri_domain online: windows of models of 64, 128, 256 and 512 experts on TriMoE's machine; "
    "tables, instances and the solvers' models are made beforehand"
)
BASELINE = "moeopt.solve"

MODELS = ("deepseek-v2-lite", "qwen3-235b-a22b", "deepseek-v3", "qwen3-next-80b-a3b")
BATCHES = (32, 256, 1024)
SEEDS = range(15)
MACHINE = "trimoe"


def contenders() -> Mapping[str, Contender]:
    return {
        "moeopt.solve": moeopt_solve(method="threshold"),
        "moeopt.solve, in a row": prebuilt(_in_a_row),
        "Scheduler.schedule": prebuilt(_scheduler),
        "the search alone": prebuilt(_search),
        "CP-SAT": prebuilt(cpsat_built),
        "HiGHS": prebuilt(highs_built),
    }


def instances() -> Sequence[InstanceEnvelope]:
    return [
        moeopt.generate(
            "tri_domain",
            machine=MACHINE,
            model=model,
            workload="trimoe-skew",
            batch=batch,
            seed=seed,
            name=f"{model}-batch{batch}-seed{seed}",
        )
        for seed, model, batch in product(SEEDS, MODELS, BATCHES)
    ]


def _in_a_row(instance: Instance) -> Callable[[float], Answer]:
    """Return the public call right after one on a copy: the processor has its code at hand."""
    moeopt.solve(fresh(instance), "threshold")

    def solve(_: float) -> Answer:
        found = moeopt.solve(instance, "threshold")
        assert isinstance(found.objective, int)
        assert isinstance(found.bound, int)
        return Answer(found.solution, found.objective, found.bound, found.status == "optimal")

    return solve


def _scheduler(instance: Instance) -> Callable[[float], Answer]:
    """Return one call of a scheduler that was made for the instance's layout."""
    assert instance.provenance is not None
    model = get_model(instance.provenance["model"])
    tokens, layout = np.zeros(model.routed_experts, np.int64), np.full(model.routed_experts, -1)
    columns = instance.columns
    tokens[columns.expert], layout[columns.expert] = columns.tokens, columns.dimm
    scheduler = Scheduler(MACHINE, model, layout)

    def schedule(_: float) -> Answer:
        domain, makespan, bound = scheduler.schedule(tokens)
        return _answer(instance, domain[columns.expert], makespan, bound)

    return schedule


def _search(instance: Instance) -> Callable[[float], Answer]:
    """Return the compiled search on the instance's arrays."""
    c = instance.columns
    columns = (c.gpu_ns, c.cpu_ns, c.ndp_ns, c.gpu_dram_ns, c.cpu_dram_ns, c.dimm)

    def search(_: float) -> Answer:
        bracket = Bracket(table_of(*columns), len(columns[0]), instance.dimms)
        bracket.narrow(NO_CUTOFF, FIRST_WORK)
        bound, makespan, domain = bracket.lower, bracket.upper, bracket.domain
        return _answer(instance, domain, makespan, bound)

    return search


def _answer(instance: Instance, domain: Ints, makespan: int, bound: int) -> Answer:
    """Return an answer whose solution is made when the clock has stopped."""

    def solution() -> Solution:
        assignment = tuple(DOMAINS[d] for d in domain.tolist())
        return Solution(instance=instance.name, assignment=assignment)

    return Answer(solution, makespan, bound, proven=makespan == bound)
