"""From runs to one row per contender."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, inf
from statistics import median

from .measurement import Measurement, Run

Groups = Mapping[str, Sequence[Measurement | None]]
"""Instance -> one contender's measurements, None for a failed run."""


@dataclass(frozen=True)
class Figure:
    """A number; `at_least` says that runs cut off by the limit make it only a lower bound."""

    value: float
    at_least: bool = False


@dataclass(frozen=True)
class Row:
    """What one contender did on all instances; each instance counts once, whatever the repeats.

    Attributes
    ----------
    instances, proven, at_limit, failed
        Numbers of instances.
    median, p95, p99, maximum
        Seconds, over the instances without failure; None if there are none.
    cpu_median, cpu_p99
        Of the seconds that the process computed; None also where that was not measured.
    ratio
        Median, over the instances, of its time divided by the baseline's, where the baseline
        finished; None if there are none.
    """

    contender: str
    instances: int
    proven: int
    at_limit: int
    failed: int
    median: Figure | None
    p95: Figure | None
    p99: Figure | None
    maximum: Figure | None
    cpu_median: Figure | None
    cpu_p99: Figure | None
    ratio: Figure | None


def summarise(runs: Sequence[Run], contenders: Iterable[str], baseline: str) -> list[Row]:
    """Return one row per contender."""
    baseline_times = _times(_by_instance(runs, baseline))
    return [_row(name, _by_instance(runs, name), baseline_times) for name in contenders]


def _row(name: str, groups: Groups, baseline_times: Mapping[str, Figure]) -> Row:
    times = _times(groups)
    ratios = [
        Figure(time.value / baseline_times[instance].value, time.at_least)
        for instance, time in times.items()
        if instance in baseline_times and not baseline_times[instance].at_least
    ]
    seconds, computed = list(times.values()), list(_times(groups, "cpu_s").values())
    return Row(
        contender=name,
        instances=len(groups),
        proven=sum(all(made and made.proven for made in group) for group in groups.values()),
        at_limit=sum(time.at_least for time in seconds),
        failed=len(groups) - len(times),
        median=_figure(median, seconds),
        p95=_figure(partial(_percentile, 95), seconds),
        p99=_figure(partial(_percentile, 99), seconds),
        maximum=_figure(max, seconds),
        cpu_median=_figure(median, computed),
        cpu_p99=_figure(partial(_percentile, 99), computed),
        ratio=_figure(median, ratios),
    )


def _by_instance(runs: Sequence[Run], contender: str) -> Groups:
    groups: dict[str, list[Measurement | None]] = {}
    for run in runs:
        if run.contender == contender:
            groups.setdefault(run.instance, []).append(run.measurement)
    return groups


def _times(groups: Groups, of: str = "seconds") -> dict[str, Figure]:
    """Return the median time per instance, without those where a run failed or was not timed."""
    times = {}
    for instance, group in groups.items():
        done = [made for made in group if made and getattr(made, of) is not None]
        if len(done) == len(group):
            hit_limit = any(made.hit_limit for made in done)
            times[instance] = Figure(median(getattr(made, of) for made in done), hit_limit)
    return times


def _figure(statistic: Callable[[list[float]], float], figures: Sequence[Figure]) -> Figure | None:
    """Return a statistic, which is a lower bound if longer times at the limit would raise it."""
    if not figures:
        return None
    value = statistic([figure.value for figure in figures])
    raised = statistic([inf if figure.at_least else figure.value for figure in figures])
    return Figure(value, at_least=raised > value)


def _percentile(percent: int, values: list[float]) -> float:
    """Return the nearest-rank percentile: a time that was measured, not one between two."""
    return sorted(values)[ceil(percent * len(values) / 100) - 1]
