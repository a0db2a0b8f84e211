"""The two kinds of contender in cases on exact methods: moeopt's own, and textbook models."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from time import perf_counter, process_time
from typing import Any

import moeopt
from benchmarks.rooms.core import InstanceEnvelope, SolutionEnvelope
from benchmarks.rooms.problems import get_problem

from .checked import checked_objective
from .measurement import WORKERS, Contender, Measurement


@dataclass(frozen=True)
class Answer:
    """What a textbook model gives back; `proven` is the solver's claim of optimality.

    A function in place of the solution is called once the clock has stopped.
    """

    solution: SolutionEnvelope | Callable[[], SolutionEnvelope] | None
    objective: float | None
    bound: float | None
    proven: bool


def moeopt_solve(**options: Any) -> Contender:
    """Return the contender that calls ``moeopt.solve`` with the given options."""

    def contender(instance: InstanceEnvelope, time_limit_s: float) -> Measurement:
        begin, computed = perf_counter(), process_time()
        result = moeopt.solve(instance, time_limit_s=time_limit_s, workers=WORKERS, **options)
        seconds, cpu_s = perf_counter() - begin, process_time() - computed
        if result.termination == "interrupted":  # moeopt.solve keeps Ctrl-C to itself
            raise KeyboardInterrupt
        pack = get_problem(instance.problem).packing(instance).pack
        claim, bound = (
            None if value is None else pack(value) for value in (result.objective, result.bound)
        )
        objective = checked_objective(instance, result.solution, claim)
        proven = result.status in ("optimal", "infeasible")
        hit_limit = not proven and result.termination == "time_limit"
        return Measurement(seconds, objective, bound, proven, hit_limit, cpu_s)

    return contender


def textbook(solve: Callable[[Any, float], Answer]) -> Contender:
    """Return the contender that solves a textbook model, given the instance and the limit."""
    return prebuilt(lambda instance: lambda time_limit_s: solve(instance, time_limit_s))


def prebuilt(build: Callable[[Any], Callable[[float], Answer]]) -> Contender:
    """Return the contender whose building of the model, or of tables, takes nobody's time."""

    def contender(instance: InstanceEnvelope, time_limit_s: float) -> Measurement:
        solve = build(instance)
        begin, computed = perf_counter(), process_time()
        answer = solve(time_limit_s)
        seconds, cpu_s = perf_counter() - begin, process_time() - computed
        solution = answer.solution() if callable(answer.solution) else answer.solution
        objective = checked_objective(instance, solution, answer.objective)
        bound = answer.bound if answer.bound is not None and isfinite(answer.bound) else None
        return Measurement(
            seconds, objective, bound, answer.proven, hit_limit=not answer.proven, cpu_s=cpu_s
        )

    return contender
