"""How many cache ways each layer gets in the room that residents leave: the problem cache."""

from collections.abc import Sequence

from moeopt.problems.cache.instance import Solution
from moeopt.problems.generate import generate
from moeopt.sim.traces.trace import Trace

from .decision import Decision, decided
from .request import Request


def ways(
    request: Request,
    kept: Trace,
    steps: int,
    resident: Sequence[Sequence[int]],
    slots: int,
    share: float,
) -> Decision:
    """Decide the ways by what is asked for besides the residents, one token per step.

    Parameters
    ----------
    resident
        Experts of each layer that the caches are not asked for.
    slots
        Room that is left for caches.
    """
    instance = generate(
        "cache",
        machine=request.machine,
        model=request.model,
        trace=kept,
        tokens=steps,
        slots=slots,
        context=request.context,
        reserved_gib=request.reserved_gib,
        seed=request.seed,
        quantum_ns=request.quantum_ns,
    )
    held = [set(layer) for layer in resident]
    accesses = tuple(
        tuple(tuple(e for e in asked if e not in held[layer]) for layer, asked in enumerate(token))
        for token in instance.accesses  # type: ignore[attr-defined]
    )
    named = f"{instance.name}-besides{sum(map(len, held))}"
    instance = instance.model_copy(update={"accesses": accesses, "name": named})
    instance = type(instance).model_validate(instance.model_dump())
    found = decided(instance, "dp", request, share)
    return Decision("ways", instance, found, _says(found.solution))


def _says(solution: object) -> str:
    if not isinstance(solution, Solution):
        raise TypeError(f"{solution!r} is no solution of cache")
    given = [count or 0 for count in solution.ways]
    return f"{sum(given)} places for an LRU cache, {min(given)} to {max(given)} per layer"
