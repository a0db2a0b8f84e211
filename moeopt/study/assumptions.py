"""How much findings hang on what the papers leave open: excess for each value of each assumption.

One assumption at a time leaves its default (`sensitivity`), or all of them together (`jointly`). A
assumption of heuristics changes the method (``trimoe[tie_order=gpu]``), one of instances makes
every instance again (`Problem.assume`) as far as it carries what that
takes. Other batches are other loads: they are drawn anew from the instance's workload, or from its
trace where the folder with the traces is given.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, prod
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd

from moeopt.core.assumptions import Assumption, assumed_name
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject
from moeopt.core.untrusted import digest, inside
from moeopt.core.wording import csv_text, markdown_table
from moeopt.problems.generate import generate
from moeopt.problems.registry import AnyProblem, get_problem
from moeopt.sim.presets import names
from moeopt.sim.source import Record
from moeopt.sim.traces.files import read_trace
from moeopt.sim.traces.readers.checked import MAX_FILE_BYTES
from moeopt.solvers.methods import problem_methods
from moeopt.solvers.rules import AUTO
from moeopt.study.attempt import Watch
from moeopt.study.campaign import Campaign, Part, Source, load_all, make_settings
from moeopt.study.frame import K, grouped, labelled
from moeopt.study.plan import content_hash
from moeopt.study.store import Store
from moeopt.study.study import run_campaign
from moeopt.study.table import known, percent, shown_interval, summarise
from moeopt.study.tags import NO_LOADS

Point = tuple[tuple[Assumption, str], ...]
"""Assumptions with a value each; all others are at their default."""


@dataclass(frozen=True)
class Reading:
    """One method under the values of a point: of one assumption, or of all.

    `skipped` of the instances could not be made again under these values; `method` is the
    heuristic, without assumptions, and `summary` a row of `moeopt.study.table.summarise`.
    """

    point: Point
    skipped: int
    method: str
    summary: Any

    @property
    def assumption(self) -> Assumption:
        """The first assumption of the point."""
        return self.point[0][0]

    @property
    def value(self) -> str:
        """Its value."""
        return self.point[0][1]

    @property
    def values(self) -> dict[str, str]:
        """The values that are not at their default, by the assumption's name."""
        return {one.name: value for one, value in self.point if value != one.default}

    @property
    def said(self) -> str:
        """The same in words; empty for the defaults."""
        return ", ".join(f"{name}={value}" for name, value in self.values.items())


@dataclass(frozen=True)
class _Group:
    """Instances of one problem under the values of a point, and the methods asked of them.

    `methods` has each method as it is called -> as the table calls it.
    """

    point: Point
    skipped: int
    instances: Sequence[InstanceEnvelope]
    methods: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Running:
    """How instances are solved under assumptions.

    Attributes
    ----------
    time_limit_s, work_limit, store, resume, jobs, watch
        As in `moeopt.gap`; the optimum comes from the problem's own exact method and CP-SAT.
    traces
        Folder with the traces that the instances are from, for other batches of them.
    """

    time_limit_s: float | None = None
    work_limit: float | None = None
    store: str | Path | Store | None = None
    resume: bool = False
    jobs: int = 1
    watch: Watch | None = None
    traces: Path | None = None

    def solved(
        self, parts: Iterable[tuple[Sequence[InstanceEnvelope], Iterable[str]]]
    ) -> pd.DataFrame:
        """Return the solves of instances by their methods, and of the optimum."""
        campaign = []
        for instances, methods in parts:
            settings = make_settings(
                methods=(*methods, AUTO),
                time_limits_s=None if self.time_limit_s is None else [self.time_limit_s],
                work_limits=None if self.work_limit is None else [self.work_limit],
                seeds=[0],
                workers=1,
            )
            campaign.append(Part(list(instances), settings))
        return run_campaign(
            Campaign(campaign),
            store=self.store,
            resume=self.resume,
            jobs=self.jobs,
            watch=self.watch,
        )


def sensitivity(
    paths: Iterable[Source],
    methods: Sequence[str] | None = None,
    running: Running | None = None,
) -> list[Reading]:
    """Return the excess of methods under every value of every assumption, one at a time.

    Parameters
    ----------
    paths
        Instance files, folders to search for them, or instances.
    methods
        Heuristics; by default each problem's published rule, and for an assumption that it does not
        take those that take it.
    running
        How they are solved.

    Returns
    -------
    list of Reading
        By problem, assumption, value and method. A value of which no instance can be made has no
        row.

    Raises
    ------
    InputError
        If a file or method cannot be used, or none of the problems has assumptions.
    """
    running = running or Running()
    instances = _loaded(paths)
    groups = [
        group
        for problem, of in instances.items()
        for group in _groups(get_problem(problem), of, methods, running.traces)
    ]
    if not groups:
        raise InputError(f"{', '.join(instances)}: no assumptions are listed")
    return list(_read(groups, running))


def _read(groups: Sequence[_Group], running: Running) -> Iterator[Reading]:
    """Solve the groups' instances and yield each method's numbers, by what it knew."""
    solves = running.solved((group.instances, group.methods) for group in groups if group.instances)
    for group in groups:
        hashes = {content_hash(instance) for instance in group.instances}
        here = solves[solves.instance_hash.isin(hashes)]
        for called, method in group.methods.items():
            mine = here[here.method == called]
            by = ("problem", "family", "method", "kind")
            for summary in summarise(mine, by).itertuples() if len(mine) else ():
                yield Reading(group.point, group.skipped, method, summary)


def _loaded(paths: Iterable[Source]) -> dict[str, list[InstanceEnvelope]]:
    """Return the instances of each problem, each once."""
    found: dict[str, dict[str, InstanceEnvelope]] = {}
    for source in paths:
        for _, instance, _ in load_all(source):
            found.setdefault(instance.problem, {})[content_hash(instance)] = instance
    return {problem: list(of.values()) for problem, of in found.items()}


def _check_heuristics(problem: AnyProblem, methods: Sequence[str] | None) -> None:
    known = problem_methods(problem)
    for name in methods or ():
        if name not in known or known[name].kind != "heuristic":
            heuristics = ", ".join(n for n, method in known.items() if method.kind == "heuristic")
            raise InputError(
                f"{name!r} is no heuristic of {problem.name}; known: {heuristics}", field="method"
            )


def _groups(
    problem: AnyProblem,
    instances: Sequence[InstanceEnvelope],
    methods: Sequence[str] | None,
    traces: Path | None,
) -> Iterator[_Group]:
    _check_heuristics(problem, methods)
    rule = problem.published
    for assumption in problem.assumptions():
        if assumption.methods:
            taken = [name for name in methods or [rule] if name in assumption.methods]
            taken = taken or list(assumption.methods if methods is None else ())
            for value in assumption.values if taken else ():
                own = {} if value == assumption.default else {assumption.name: value}
                called = {assumed_name(name, own): name for name in taken}
                yield _Group(((assumption, value),), 0, instances, called)
            continue
        for value in assumption.values:
            there = _remade(instances, assumption.name, value, traces)
            if there:
                names = {name: name for name in methods or [rule]}
                skipped = len(instances) - len(there)
                yield _Group(((assumption, value),), skipped, there, names)


def _remade(
    instances: Sequence[InstanceEnvelope], assumption: str, value: str, traces: Path | None
) -> list[InstanceEnvelope]:
    """Return those of the instances that can be made again, under an assumption's value."""
    made = (assume(instance, assumption, value, traces) for instance in instances)
    return [instance for instance in made if instance is not None]


BATCH = "batch"
"""The assumption that makes other loads."""

ANEW = (BATCH, "losses", "one_bit_loss")
"""Assumptions that need what an instance was made from: a machine, a workload, or its trace."""

WHERE = ("step", "first_window", "drawn_windows")
"""Options that say which step's loads these are: another batch has others."""


def assume(
    instance: InstanceEnvelope, assumption: str, value: str, traces: Path | None = None
) -> InstanceEnvelope | None:
    """Return the same instance under another value of an assumption of instances.

    None if it does not carry what that takes; the instance itself if it is like that already.
    """
    options = (instance.provenance or {}).get("options")
    if isinstance(options, Mapping):
        has = options.get(assumption, "")
        if (f"{has:g}" if isinstance(has, float) else str(has)) == value:
            return instance
    made: InstanceEnvelope | None = None
    if assumption != BATCH:
        made = get_problem(instance.problem).assume(instance, assumption, value)
    if made is None and assumption in ANEW:
        return _made_anew(instance, assumption, value, traces)
    return made


def _made_anew(
    instance: InstanceEnvelope, assumption: str, value: str, traces: Path | None
) -> InstanceEnvelope | None:
    """Return an instance of the same trace or workload with another value; None without it."""
    record, provenance = Record.of(instance), instance.provenance or {}
    source = None if record is None else record.source(instance)
    fields = get_problem(instance.problem).Options().model_fields
    if record is None or source is None or assumption not in fields:
        return None
    trace = provenance.get("trace")
    name = str(trace.get("name", "")) if isinstance(trace, Mapping) else NO_LOADS
    arguments: JsonObject = {"name": f"{instance.name}, {assumption} {value}"}
    if isinstance(trace, Mapping) and "workload" in trace:
        arguments["workload"] = name.removeprefix("workload ")
        if arguments["workload"] not in names("workloads"):  # a name in a file is no path
            return None
    elif isinstance(trace, Mapping) and not name.startswith(NO_LOADS):
        file = None if traces is None else inside(traces, name)
        if file is None or not file.is_file() or "deduped" in trace:
            return None
        if digest(file, MAX_FILE_BYTES) != trace.get("sha256"):
            raise InputError(f"is not the trace that {instance.name} is from", where=file)
        arguments["trace"] = read_trace(file)
    known = fields.keys() - (WHERE if assumption == BATCH else ())
    options = {name: of for name, of in record.options.items() if name in known}
    arguments |= options | {assumption: value, "quantum_ns": source.quantum_ns}
    if options.get("loss_table") is not None:  # as above
        return None
    try:
        return generate(
            instance.problem,
            machine=source.machine,
            model=source.model,
            seed=record.seed,
            **arguments,
        )
    except InputError:  # the trace is too short for two steps of that size
        return None


def jointly(
    paths: Iterable[Source],
    methods: Sequence[str] | None = None,
    *,
    points: int,
    running: Running | None = None,
) -> tuple[list[Reading], int]:
    """Return the excess of methods on a grid of all assumptions at once.

    Parameters
    ----------
    points
        How many of the grid's points are solved, each for every instance: the defaults and random
        ones, always the same; all of them if there are no more.
    paths, methods, running
        As in `sensitivity`.

    Returns
    -------
    list of Reading
        Point by point, the defaults first.
    int
        How many points the grid has.

    Raises
    ------
    InputError
        As in `sensitivity`; or if the instances are of several problems.
    """
    running = running or Running()
    [(name, instances), *others] = _loaded(paths).items()
    problem = get_problem(name)
    _check_heuristics(problem, methods)
    if others or not problem.assumptions():
        raise InputError("needs instances of one problem that has assumptions", field="--points")
    chosen = list(methods or [problem.published])
    grid = [s for s in problem.assumptions() if not s.methods or {*s.methods} & {*chosen}]
    size = prod(len(s.values) for s in grid)
    groups = []
    for point in _points(grid, min(points, size)):
        made = list(instances)
        for s, value in point:
            if not s.methods:
                made = _remade(made, s.name, value, running.traces)
        called = {}
        for method in chosen:
            own = {s.name: v for s, v in point if method in s.methods and v != s.default}
            called[assumed_name(method, own)] = method
        groups.append(_Group(point, len(instances) - len(made), made, called))
    return list(_read(groups, running)), size


def _points(grid: Sequence[Assumption], count: int) -> list[Point]:
    """Return so many points of a grid, the defaults first, the others drawn without a repeat."""
    rng = random.Random(0)  # noqa: S311
    found = {tuple(s.default for s in grid): None}
    while len(found) < count:
        found[tuple(rng.choice(list(s.values)) for s in grid)] = None
    return [tuple(zip(grid, values, strict=True)) for values in found]


def joint_sentences(found: Sequence[Reading], size: int) -> list[str]:
    """Return for each method its range over the grid, with the worst and the best point named."""
    lines = []
    points = len({tuple(one.values.items()) for one in found})
    for method, of in grouped(found, lambda one: one.method).items():
        medians_of = [(m, one) for one in of if not isnan(m := one.summary.excess_median)]
        if not medians_of:
            continue
        medians = [percent(m) for m in sorted(m for m, _ in medians_of)]
        lines.append(
            f"- {labelled(of[0].summary.problem, method)}: median excess {medians[0]} to "
            f"{medians[-1]} over {points} of {size:,} points; half of them up to "
            f"{medians[len(medians) // 2]}."
        )
        ends = {
            "best": min(medians_of, key=itemgetter(0))[1],
            "worst": max(medians_of, key=itemgetter(0))[1],
        }
        for end, one in ends.items():
            said = one.said or "the defaults"
            lines.append(f"  - {end}: {said} ({one.summary.proven} instances)")
    return lines


def joint_to_csv(found: Sequence[Reading]) -> str:
    """Return a line per point and method as CSV."""
    lines: list[list[object]] = [
        ["method", "skipped", "proven", "excess_median", "excess_max", "assumptions"]
    ]
    for one in found:
        s = one.summary
        numbers = [one.skipped, s.proven, known(s.excess_median), known(s.excess_max)]
        lines.append([one.method, *numbers, one.said])
    return csv_text(lines)


def _ranges(
    readings: Sequence[Reading], key: Callable[[Reading], K]
) -> dict[K, tuple[float, float]]:
    """Return the least and the greatest median excess that is known of each key's readings."""
    found = {}
    for which, of in grouped(readings, key).items():
        medians = [r.summary.excess_median for r in of if not isnan(r.summary.excess_median)]
        if medians:
            found[which] = min(medians), max(medians)
    return found


def _range_words(ends: tuple[float, float]) -> str:
    least, most = map(percent, ends)
    return least if least == most else f"{least} to {most}"


def spans(readings: Sequence[Reading]) -> dict[tuple[str, str], str]:
    """Return for each problem and method, as tables call it, its medians' range in words."""
    ranges = _ranges(readings, lambda r: (r.summary.problem, labelled(r.summary.problem, r.method)))
    return {which: _range_words(ends) for which, ends in ranges.items()}


def strongest(readings: Sequence[Reading]) -> dict[tuple[str, str], tuple[str, float, float]]:
    """Return (problem, method) -> what moves it most, with the least and the greatest median."""
    best: dict[tuple[str, str], tuple[str, float, float]] = {}
    ranges = _ranges(readings, lambda r: (r.summary.problem, r.method, r.assumption.name))
    for (problem, method, assumption), (low, high) in ranges.items():
        _, least, most = best.get((problem, method), ("", 0.0, -1.0))
        if high - low > most - least:
            best[problem, method] = assumption, low, high
    return best


HEADS = (
    *("problem", "assumption", "value", "method", "instances", "proven", "samples"),
    *("median", "95 %", "max"),
)
"""The columns of the table, without times; `optimal` follows."""


def cells(reading: Reading) -> list[str]:
    """Return a reading's entries under `HEADS` and the share solved to the optimum, as texts."""
    s = reading.summary
    left_out = f" (not {reading.skipped})" if reading.skipped else ""
    default = " (default)" if reading.value == reading.assumption.default else ""
    return [
        s.problem,
        reading.assumption.name,
        f"{reading.value}{default}",
        labelled(s.problem, reading.method),
        f"{s.instances}{left_out}",
        str(s.proven),
        str(s.cells),
        percent(s.excess_median),
        shown_interval(s),
        percent(s.excess_max),
        percent(s.optimal),
    ]


def to_markdown(readings: Sequence[Reading]) -> str:
    """Return a table with a row per value, and what moves each method most."""
    lines = markdown_table((*HEADS, "optimal"), map(cells, readings), 4)
    return "\n".join([*lines, "", *sentences(readings)]) + "\n"


def sentences(readings: Sequence[Reading]) -> list[str]:
    """Return one sentence per method: the range of its median, and on which assumption it hangs."""
    found = []
    whole = _ranges(readings, lambda r: (r.summary.problem, r.method))
    for (problem, method), (assumption, *_) in strongest(readings).items():
        amount = _range_words(whole[problem, method])
        moved = f"moved most by `{assumption}`"
        if " to " not in amount:
            moved = "moved by none of these assumptions"
        found.append(f"- {problem}, {labelled(problem, method)}: median excess {amount}, {moved}.")
    return found


def to_csv(readings: Sequence[Reading]) -> str:
    """Return a line per value as CSV: shares as numbers, unknown ones empty."""
    names = ("instances", "proven", "optimal", "excess_min", "excess_median", "excess_max")
    lines: list[list[object]] = [
        ["problem", "assumption", "value", "default", "method", "skipped", *names]
    ]
    for r in readings:
        default = int(r.value == r.assumption.default)
        values = [known(getattr(r.summary, name)) for name in names]
        head = [r.summary.problem, r.assumption.name, r.value, default, r.method, r.skipped]
        lines.append([*head, *values])
    return csv_text(lines)
