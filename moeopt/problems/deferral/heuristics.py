"""KTransformers' rule for the number of deferred experts, and the uniform counts around it.

All defer the same number in every layer but the last, and keep the usual order on the CPU. Where
there is a limit on the penalty, only counts within it are tried.
"""

from collections.abc import Callable

from .check import objective
from .instance import Instance
from .pipeline import schedule, total_penalty
from .solution import Solution


def uniform(instance: Instance, deferred: int) -> Solution:
    """Return the schedule in which every layer but the last defers `deferred` experts."""
    return schedule(instance, _counts(instance, deferred))


def none(instance: Instance) -> Solution | None:
    """Defer nothing: the execution that KTransformers starts from (its Figure 10, first row)."""
    return uniform(instance, 0) if _affordable(instance) else None


def saturate(instance: Instance) -> Solution | None:
    """Defer the least number that saturates: KTransformers 4.2.

    The paper: "the minimum number of experts required to achieve full CPU utilization while
    ensuring at least 2 immediate experts per layer". It does not say what to do where the CPU is
    never full, nor how to treat layers that differ. Here: the least uniform count that reaches the
    smallest period max(k te, A + 2 sync + (k - d) te, A + S) of the average layer, as
    one profiled layer stands for all in the paper.
    """
    counts = _affordable(instance)
    if not counts:
        return None
    return uniform(instance, min(counts, key=lambda d: (period_ns(instance, d), d)))


def uniform_d(instance: Instance) -> Solution | None:
    """Defer the best uniform number: every count is tried, none of the paper's rules followed."""
    tried = [uniform(instance, count) for count in _affordable(instance)]
    return min(tried, key=lambda solution: objective(instance, solution), default=None)


def period_ns(instance: Instance, deferred: int) -> int:
    """Return the period of the average layer under a uniform count, times the number of layers."""
    attention, shared, sync, expert = (
        sum(times)
        for times in (
            instance.attention_ns,
            instance.shared_ns,
            instance.sync_ns,
            instance.expert_cpu_ns,
        )
    )
    immediate = (instance.top_k - deferred) * expert
    return max(instance.top_k * expert, attention + 2 * sync + immediate, attention + shared)


def _counts(instance: Instance, deferred: int) -> list[int]:
    return [deferred] * (instance.layers - 1) + [0]


def _affordable(instance: Instance) -> list[int]:
    """Return the uniform counts whose penalty is within the limit."""
    limit = instance.max_total_penalty
    counts = range(instance.max_deferred + 1)
    cost = {d: total_penalty(instance, _counts(instance, d)) for d in counts}
    return [d for d in counts if limit is None or cost[d] <= limit]


HEURISTICS: dict[str, Callable[[Instance], Solution | None]] = {
    "none": none,
    "uniform-d": uniform_d,
    "saturate": saturate,
}

WARM_START = uniform_d
"""The heuristic whose solution the exact methods start from."""
