"""KTransformers' flag for deferred experts: one count for every token and layer.

A plan in which all layers but the last defer the same number has that form; the last layer has
nothing to defer into. For any other plan the best uniform count is found, which trying them all
proves.
"""

import re
from typing import Any

from moeopt.core.errors import InputError
from moeopt.exporters.exported import Exported, Job, Loss, NoPlanError
from moeopt.exporters.restricted import compared
from moeopt.exporters.target import Target
from moeopt.solvers.run import solve

FLAG = "--kt-max-deferred-experts-per-token"
UNIFORM = "the same number of deferred experts in every layer"


def export(job: Job) -> Exported:
    """Return the flag of a deferral plan."""
    count, loss = uniform_count(job)
    line = deferral_flag(count)
    return Exported(f"{line}\n".encode(), lambda _: line, {"deferred": count}, loss)


def uniform_count(job: Job) -> tuple[int, Loss | None]:
    """Return the plan's count, or the best uniform one and what it costs."""
    plan: Any = job.solution
    counts = set(plan.deferred[:-1]) or {0}
    if len(counts) == 1:
        return counts.pop(), None
    result = solve(job.instance, "uniform-d", **job.limits.asked)
    found: Any = result.solution
    if found is None:
        raise NoPlanError(f"{job.instance.name}: {UNIFORM}: none found", infeasible=False)
    return found.deferred[0], compared(job, job.instance, found, UNIFORM, proven=True)


def deferral_flag(count: int) -> str:
    """Return the flag for a count."""
    return f"{FLAG} {count}"


def read_deferral_flag(flags: str) -> int:
    """Return the count that flags ask for; without the flag nothing is deferred."""
    if FLAG not in flags:
        return 0
    match = re.search(rf"{FLAG}[ =](\d+)(?!\S)", flags)
    if match is None:
        raise InputError(f"{FLAG}: must have a count")
    return int(match[1])


TARGETS = (
    Target(
        "ktransformers-flags",
        "KTransformers (sglang-kt): the flag for deferred experts",
        ("deferral",),
        ".txt",
        export,
        holds="one count of deferred experts for every layer but the last",
        loses="counts that differ between layers",
        names_experts=False,
    ),
)
