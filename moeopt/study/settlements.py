"""How much findings hang on what the papers leave open: excess for each value of each settlement.

One settlement at a time leaves its default. A settlement of heuristics changes the method
(``trimoe[tie_order=gpu]``), one of instances makes every instance again
(``resettled`` of the problem's generator) as far as it carries what that takes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.escaping import csv_text
from moeopt.core.settlements import Settlement, settled_name
from moeopt.problems.registry import AnyProblem, get_problem
from moeopt.solvers.methods import problem_methods
from moeopt.solvers.rules import AUTO
from moeopt.study.campaign import Campaign, Part, Source, load_all, make_settings
from moeopt.study.execute import Watch
from moeopt.study.plan import content_hash
from moeopt.study.rows import Row, labelled
from moeopt.study.store import Store
from moeopt.study.study import run_campaign
from moeopt.study.table import Summary, percent, summarise

AS_IT_IS = "as it is"
"""The family of the instances as they were given."""


@dataclass(frozen=True)
class Reading:
    """One method under one value of one settlement; everything else at its default.

    Attributes
    ----------
    settlement
        What is settled; None for the row in which everything is as it is.
    value
        The reading that the row is about.
    given
        Whether the instances, or the method by default, are like that anyway.
    skipped
        How many of the instances could not be made again under this value.
    method
        The heuristic, without settlements.
    summary
        Excess over the proven optimum of the instances under this value.
    """

    settlement: Settlement
    value: str
    given: bool
    skipped: int
    method: str
    summary: Summary


@dataclass(frozen=True)
class _Group:
    """Instances of one problem under one value, and the methods that are asked of them."""

    settlement: Settlement
    value: str
    given: bool
    skipped: int
    instances: Sequence[InstanceEnvelope]
    methods: Mapping[str, str]
    """Method as it is called -> as the table calls it."""


def sensitivity(
    paths: Iterable[Source],
    methods: Sequence[str] | None = None,
    *,
    time_limit_s: float | None = None,
    work_limit: float | None = None,
    store: str | Path | Store | None = None,
    resume: bool = False,
    jobs: int = 1,
    watch: Watch | None = None,
) -> list[Reading]:
    """Return the excess of methods under every value of every settlement, one at a time.

    Parameters
    ----------
    paths
        Instance files, folders to search for them, or instances.
    methods
        Heuristics; by default each problem's published rule, and for a settlement that it does not
        take those that take it.
    time_limit_s, work_limit, store, resume, jobs, watch
        As in `moeopt.gap`; the optimum comes from the problem's own exact method and CP-SAT.

    Returns
    -------
    list of Reading
        By problem, settlement, value and method. A value of which no instance can be made has no
        row.

    Raises
    ------
    InputError
        If a file or method cannot be used, or none of the problems has settlements.
    """
    instances: dict[str, dict[str, InstanceEnvelope]] = {}
    for source in paths:
        for _, instance, _ in load_all(source):
            instances.setdefault(instance.problem, {})[content_hash(instance)] = instance
    groups = [
        group
        for problem, of in instances.items()
        for group in _groups(get_problem(problem), list(of.values()), methods)
    ]
    if not groups:
        raise InputError(f"{', '.join(instances)}: no settlements are listed")
    rows = run_campaign(
        Campaign([_part(group, time_limit_s, work_limit) for group in groups]),
        store=store,
        resume=resume,
        jobs=jobs,
        watch=watch,
    )
    by_hash: dict[str, list[Row]] = {}
    for row in rows:
        by_hash.setdefault(row.key.instance, []).append(row)
    return [reading for group in groups for reading in _readings(group, by_hash)]


def _groups(
    problem: AnyProblem, instances: Sequence[InstanceEnvelope], methods: Sequence[str] | None
) -> Iterator[_Group]:
    known = problem_methods(problem)
    for name in methods or ():
        if name not in known or known[name].kind != "heuristic":
            heuristics = ", ".join(n for n, method in known.items() if method.kind == "heuristic")
            raise InputError(
                f"method: {name!r} is no heuristic of {problem.name}; known: {heuristics}"
            )
    rule = problem.published_rule
    for settlement in problem.settlements:
        if settlement.methods:
            taken = [name for name in methods or [rule] if name in settlement.methods]
            taken = taken or list(settlement.methods if methods is None else ())
            for value in settlement.values if taken else ():
                usual = value == settlement.default
                called = {
                    name if usual else settled_name(name, {settlement.name: value}): name
                    for name in taken
                }
                yield _Group(settlement, value, usual, 0, instances, called)
            continue
        for value in settlement.values:
            made = [resettled(instance, settlement.name, value) for instance in instances]
            there = [instance for instance in made if instance is not None]
            given = there == [i for i, m in zip(instances, made, strict=True) if m is not None]
            if there:
                names = {name: name for name in methods or [rule]}
                skipped = len(instances) - len(there)
                yield _Group(settlement, value, given, skipped, there, names)


def resettled(instance: InstanceEnvelope, settlement: str, value: str) -> InstanceEnvelope | None:
    """Return the same instance under another value of a settlement of instances.

    None if it does not carry what that takes; the instance itself if it is like that already.
    """
    options = (instance.provenance or {}).get("options")
    if isinstance(options, Mapping) and options.get(settlement) == value:
        return instance
    function = get_problem(instance.problem).generator().resettled
    made: InstanceEnvelope | None = function(instance, settlement, value) if function else None
    return made


def _part(group: _Group, time_limit_s: float | None, work_limit: float | None) -> Part:
    settings = make_settings(
        methods=(*group.methods, AUTO),
        time_limits_s=None if time_limit_s is None else [time_limit_s],
        work_limits=None if work_limit is None else [work_limit],
        seeds=[0],
        workers=1,
    )
    return Part(list(group.instances), settings)


def _readings(group: _Group, by_hash: Mapping[str, Sequence[Row]]) -> Iterator[Reading]:
    hashes = {content_hash(instance) for instance in group.instances}
    rows = [row for digest in hashes for row in by_hash.get(digest, ())]
    for called, method in group.methods.items():
        mine = [row for row in rows if row.key.method == called]
        for summary in summarise(mine, by_settlement=False):
            yield Reading(
                group.settlement, group.value, group.given, group.skipped, method, summary
            )


def span(readings: Sequence[Reading]) -> tuple[float, float] | None:
    """Return the least and the greatest median excess of some readings; None if none is known."""
    medians = [r.summary.excess_median for r in readings if r.summary.excess_median is not None]
    return (min(medians), max(medians)) if medians else None


def spans(readings: Sequence[Reading]) -> dict[tuple[str, str], str]:
    """Return for each problem and method, as tables call it, its medians' range in words."""
    groups: dict[tuple[str, str], list[Reading]] = {}
    for r in readings:
        label = labelled(r.summary.problem, r.method)
        groups.setdefault((r.summary.problem, label), []).append(r)
    found = {}
    for which, group in groups.items():
        if (spread := span(group)) is not None:
            least, most = map(percent, spread)
            found[which] = least if least == most else f"{least} to {most}"
    return found


def strongest(readings: Sequence[Reading]) -> list[tuple[str, str, Settlement, float, float]]:
    """Return (problem, method, settlement, least, greatest median) of what moves each most."""
    groups: dict[tuple[str, str, str], list[Reading]] = {}
    for r in readings:
        groups.setdefault((r.summary.problem, r.method, r.settlement.name), []).append(r)
    best: dict[tuple[str, str], tuple[str, str, Settlement, float, float]] = {}
    for (problem, method, _), group in groups.items():
        spread = span(group)
        if spread is None:
            continue
        low, high = spread
        before = best.get((problem, method))
        if before is None or high - low > before[4] - before[3]:
            best[problem, method] = (problem, method, group[0].settlement, low, high)
    return list(best.values())


HEADS = ("problem", "settlement", "value", "method", "instances", "proven", "median", "max")
"""The columns of the table, without times; `optimal` follows."""


def cells(reading: Reading) -> list[str]:
    """Return a reading's entries under `HEADS` and the share solved to the optimum, as texts."""
    s = reading.summary
    left_out = f" (not {reading.skipped})" if reading.skipped else ""
    shares = (s.excess_median, s.excess_max, s.optimal)
    default = " (default)" if reading.value == reading.settlement.default else ""
    return [
        s.problem,
        reading.settlement.name,
        f"{reading.value}{default}",
        labelled(s.problem, reading.method),
        f"{s.instances}{left_out}",
        str(s.proven),
        *map(percent, shares),
    ]


def to_markdown(readings: Sequence[Reading]) -> str:
    """Return a table with a row per value, and what moves each method most."""
    lines = [
        f"| {' | '.join(HEADS)} | optimal |",
        f"|{'---|' * 4}{'---:|' * 5}",
        *(f"| {' | '.join(cells(reading))} |" for reading in readings),
        "",
        *sentences(readings),
    ]
    return "\n".join(lines) + "\n"


def sentences(readings: Sequence[Reading]) -> list[str]:
    """Return one sentence per method: the range of its median, and on which settlement it hangs."""
    found = []
    for problem, method, settlement, low, high in strongest(readings):
        least, most = percent(low), percent(high)
        amount, moved = f"{least} to {most}", f"moved most by `{settlement.name}`"
        if least == most:
            amount, moved = least, "moved by none of these settlements"
        found.append(f"- {problem}, {labelled(problem, method)}: median excess {amount}, {moved}.")
    return found


def to_csv(readings: Sequence[Reading]) -> str:
    """Return a line per value as CSV: shares as numbers, unknown ones empty."""
    names = ("instances", "proven", "optimal", "excess_min", "excess_median", "excess_max")
    lines: list[list[object]] = [
        ["problem", "settlement", "value", "default", "method", "skipped", *names]
    ]
    for r in readings:
        default = int(r.value == r.settlement.default)
        values = [getattr(r.summary, name) for name in names]
        head = [r.summary.problem, r.settlement.name, r.value, default, r.method, r.skipped]
        lines.append([*head, *values])
    return csv_text(lines)
