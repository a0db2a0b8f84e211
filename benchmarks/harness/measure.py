"""Taking the measurements: every contender on an instance before the next instance."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import TypeVar

from moeopt.core.compiled import compile_all
from moeopt.core.envelope import InstanceEnvelope

from .measurement import Contender, Run

WARM_UP_S = 1.0

Announce = Callable[[int, str, str], None]
"""Called with repeat, instance and contender before each turn, also one that is left out."""

AnyInstance = TypeVar("AnyInstance", bound=InstanceEnvelope)


def measure(
    contenders: Mapping[str, Contender],
    instances: Sequence[InstanceEnvelope],
    repeats: int,
    time_limit_s: float,
    announce: Announce = lambda repeat, instance, contender: None,
) -> Iterator[Run]:
    """Yield the runs as they are made, contenders interleaved so that noise hits all alike.

    A contender that hit the limit or failed on an instance is not repeated on that instance.
    """
    _warm_up(contenders, instances[0])
    limits = {instance.name: time_limit_s for instance in instances}
    yield from _rounds(contenders, instances, repeats, limits, announce)


def measure_against(
    baseline: str,
    factor: float,
    contenders: Mapping[str, Contender],
    instances: Sequence[InstanceEnvelope],
    repeats: int,
    time_limit_s: float,
    announce: Announce = lambda repeat, instance, contender: None,
) -> Iterator[Run]:
    """Yield the baseline's runs, then the others', who get `factor` times its median time.

    Who needs longer is shown to be slower by that factor, at the least cost in time. `time_limit_s`
    is the baseline's limit, and the most that the others get.
    """
    _warm_up(contenders, instances[0])
    limits = {instance.name: time_limit_s for instance in instances}
    first = {baseline: contenders[baseline]}
    taken: dict[str, list[float]] = {name: [] for name in limits}
    for run in _rounds(first, instances, repeats, limits, announce):
        if run.measurement:
            taken[run.instance].append(run.measurement.seconds)
        yield run
    for name, seconds in taken.items():
        if seconds:
            limits[name] = min(time_limit_s, factor * median(seconds))
    others = {name: contender for name, contender in contenders.items() if name != baseline}
    yield from _rounds(others, instances, repeats, limits, announce)


def _rounds(
    contenders: Mapping[str, Contender],
    instances: Sequence[InstanceEnvelope],
    repeats: int,
    limits_s: Mapping[str, float],
    announce: Announce,
) -> Iterator[Run]:
    finished = set()
    for repeat in range(repeats):
        for instance in instances:
            for name, contender in contenders.items():
                announce(repeat, instance.name, name)
                if (name, instance.name) in finished:
                    continue
                run = _turn(repeat, name, contender, instance, limits_s[instance.name])
                if run.last:
                    finished.add((name, instance.name))
                yield run


def fresh(instance: AnyInstance) -> AnyInstance:
    """Return a copy of an instance without the arrays that earlier runs cached on it."""
    return type(instance).model_validate(instance.model_dump())


def _warm_up(contenders: Mapping[str, Contender], instance: InstanceEnvelope) -> None:
    """Let imports and first calls happen where nobody's time is taken; no kernel stays Python."""
    compile_all()
    for name, contender in contenders.items():
        _turn(0, name, contender, instance, WARM_UP_S)


def _turn(
    repeat: int, name: str, contender: Contender, instance: InstanceEnvelope, time_limit_s: float
) -> Run:
    before = set(threading.enumerate())
    try:
        measurement = contender(fresh(instance), time_limit_s)
    except Exception as error:  # a contender's failure is a result, too
        message = " ".join(f"{type(error).__name__}: {error}".split())
        return Run(repeat, instance.name, name, None, message)
    finally:
        _wait_for_solvers_left_behind(before)
    return Run(repeat, instance.name, name, measurement)


def _wait_for_solvers_left_behind(before: set[threading.Thread]) -> None:
    """Wait for threads that outlived their contender: they would slow the next one."""
    for thread in set(threading.enumerate()) - before:
        thread.join()
