"""The paper's system: an LRU cache of experts on the GPU, misses on the CPU, copies beside.

Times are those of the `cache` problem's generator on the paper's machine. What a trace costs under
any ways follows from how often LRU holds none, one or both of a token's experts, layer by layer.
"""

from functools import cache

import numpy as np

from benchmarks.papers.collaborative.statistics import SLOTS
from benchmarks.rooms.cache import Curves, Instance, Ints, best_uniform, sides_of, solve, uniform
from benchmarks.rooms.core import Search
from benchmarks.rooms.sim import Trace, get_model
from moeopt import Plan, generate

MACHINE = "rtx4090-7960x"

THREADS = (1, 2, 4, 8, 16, 24)
"""Table III."""


@cache
def costs(model: str = "mixtral-8x7b", threads: int = 24, slots: int = SLOTS) -> Instance:
    """Return an instance with the machine's costs, and one token that stands for a trace."""
    shape = get_model(model)
    token = np.broadcast_to(np.arange(shape.top_k), (1, shape.layers, shape.top_k))
    made = generate(
        "cache",
        machine=MACHINE,
        model=shape,
        trace=Trace("one token", token),
        slots=slots,
        threads=threads,
        quantum_ns=1,
        name=f"{model}-{threads}-threads-{slots}-slots",
    )
    if not isinstance(made, Instance):
        raise TypeError(type(made).__name__)
    return made


def on_trace(instance: Instance, found: Ints, single_miss: float = 0.5) -> Instance:
    """Return an instance that costs what a trace does of which only the counts are known.

    The problem's methods look at nothing but the curves, which are computed here instead of from
    the accesses.

    Parameters
    ----------
    instance
        Its costs and slots; its accesses are not used.
    found
        Shape (layers, experts + 1, k + 1): on how many tokens LRU holds so many, by ways.
    single_miss
        What the CPU needs for one of a token's two experts, as a share of both; half in the
        problem, where experts add up.
    """
    counted = instance.model_copy(deep=True)
    counted.__dict__["curves"] = curves_of_counts(found, instance, single_miss)
    return counted


def curves_of_counts(found: Ints, instance: Instance, single_miss: float = 0.5) -> Curves:
    """Return the curves that belong to counts of experts held."""
    top_k = found.shape[2] - 1
    held = np.arange(top_k + 1)
    lookup = np.array([instance.costs.lookup_ns(n, top_k - n) for n in held.tolist()])
    lookup[top_k - 1] += round((2 * single_miss - 1) * instance.cpu_ns)
    fetches = found @ (top_k - held)
    fetches[:, 0] = 0
    return Curves(found @ held, fetches, found @ lookup)


def plan(ways: Ints) -> Plan:
    """Return the system as a plan that the engine runs."""
    return Plan(name="collaborative cache", cache_ways=tuple(ways.tolist()))


def best_uniform_ways(instance: Instance) -> Ints:
    """Return the best of the paper's caches: M ways on the first layers that have room, any M."""
    return np.array(best_uniform(instance).ways)


def uniform_ways(instance: Instance, indexes: int, ways: int) -> Ints:
    """Return the paper's cache (indexes; ways), even where it needs more slots than there are."""
    return uniform(instance.model_copy(update={"slots": indexes * ways}), ways)


def best_ways(instance: Instance) -> Ints:
    """Return the best ways of every layer, proven."""
    search = Search()
    solve(instance, search)
    if not search.closed:
        raise RuntimeError(f"{instance.name}: dp ended without proof: {search.note}")
    return np.array(search.solution.ways)


def trace_ns(instance: Instance, ways: Ints) -> int:
    """Return the time of the trace: computing or copying, whichever is longer."""
    return sides_of(instance).trace_ns(ways)
