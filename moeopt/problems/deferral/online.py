"""How many experts each layer defers, decided anew as the times of a step change."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.core.compiled import compile_all
from moeopt.core.errors import InputError
from moeopt.core.search import Search
from moeopt.core.wording import unknown_name

from .bounds import lower_bound
from .check import objective
from .dynamic_program import solve
from .heuristics import saturate
from .instance import Instance, Solution

Ints = NDArray[np.int64]
Pair = tuple[int, int]


class Scheduler:
    """Deferred experts of a model's layers, for the times that a step has (KTransformers 4.2).

    Several threads may ask at once: calls share nothing that changes.

    Parameters
    ----------
    layers, top_k, penalty, min_immediate, max_total_penalty
        As of `Instance.from_arrays`.
    method
        ``dp``, which proves its answer optimal, or the paper's rule ``saturate``.

    Raises
    ------
    InputError
        If the method is unknown; the other arguments are looked at with the first step.

    Examples
    --------
    >>> from moeopt import deferral
    >>> scheduler = deferral.Scheduler(layers=4, top_k=8, penalty=range(7), min_immediate=2)
    >>> counts, makespan_ns, bound_ns = scheduler.schedule(60_000, 40_000, 5_000, 20_000)
    >>> counts.shape, makespan_ns == bound_ns
    ((4,), True)
    """

    def __init__(
        self,
        layers: int,
        top_k: int,
        penalty: ArrayLike,
        method: str = "dp",
        *,
        min_immediate: int = 0,
        max_total_penalty: int | None = None,
    ) -> None:
        if method not in METHODS:
            raise unknown_name("method", method, METHODS)
        self.method, self.layers, self.top_k = method, layers, top_k
        self.penalty = np.asarray(penalty)
        self.min_immediate, self.max_total_penalty = min_immediate, max_total_penalty
        compile_all()
        METHODS[method](_any_step())

    def schedule(
        self,
        attention_ns: ArrayLike,
        shared_ns: ArrayLike,
        sync_ns: ArrayLike,
        expert_cpu_ns: ArrayLike,
    ) -> tuple[Ints, int, int]:
        """Return how many experts each layer defers.

        Parameters
        ----------
        attention_ns, shared_ns, sync_ns, expert_cpu_ns
            Times in ns, shape (layers,), or one integer for all layers; see `Instance`.

        Returns
        -------
        deferred
            int64, shape (layers,).
        makespan_ns
            When the step ends, in ns.
        bound_ns
            No choice of counts within the limits ends earlier, proven.

        Raises
        ------
        InputError
            If an argument is of another shape or range, or no counts are within the limits.
        """
        instance = Instance.from_arrays(
            attention_ns=attention_ns,
            shared_ns=shared_ns,
            sync_ns=sync_ns,
            expert_cpu_ns=expert_cpu_ns,
            penalty=self.penalty,
            layers=self.layers,
            top_k=self.top_k,
            min_immediate=self.min_immediate,
            max_total_penalty=self.max_total_penalty,
            name="step",
        )
        found = METHODS[self.method](instance)
        if found is None:
            raise InputError(f"max_total_penalty: no counts are within {self.max_total_penalty}")
        solution, (makespan_ns, _), (bound_ns, _) = found
        return np.array(solution.deferred, np.int64), makespan_ns, bound_ns


def _any_step() -> Instance:
    """Return a step whose schedule makes every call that a step may need, so that none is late."""
    return Instance.from_arrays(
        attention_ns=3, shared_ns=2, sync_ns=1, expert_cpu_ns=4, penalty=range(4), layers=3, top_k=3
    )


Found = tuple[Solution, Pair, Pair] | None


def _dp(instance: Instance) -> Found:
    search = Search(limit_s=float("inf"))
    solve(instance, search)
    if search.solution is None:
        return None
    value: Pair = objective(instance, search.solution)
    return search.solution, value, value


def _saturate(instance: Instance) -> Found:
    solution = saturate(instance)
    if solution is None:
        return None
    return solution, objective(instance, solution), lower_bound(instance)


METHODS: dict[str, Callable[[Instance], Found]] = {"dp": _dp, "saturate": _saturate}
