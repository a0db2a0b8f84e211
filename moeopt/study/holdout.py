"""One hold-out: methods decide on observed (train) loads, and are judged on later (test) ones."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import pandas as pd

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import JsonObject
from moeopt.core.problem import EXACT, Schedule
from moeopt.problems.files import InstanceLike, as_instance
from moeopt.problems.holdout import joined, schedule_name
from moeopt.problems.registry import get_problem
from moeopt.problems.twins import check_later, forecast_saw_later
from moeopt.solvers import arguments
from moeopt.solvers.arguments import Limits
from moeopt.solvers.methods import get_method
from moeopt.solvers.rules import AUTO, Rule, load_rule
from moeopt.study.attempt import attempt
from moeopt.study.campaign import Choice
from moeopt.study.frame import (
    bracket_of,
    excess,
    frame_of,
    grouped,
    split_costs,
    typed,
)
from moeopt.study.judged import (
    NONE,
    UNPRINTED,
    JudgedRow,
    Row,
    Trial,
    decisions_of,
    judge,
    reference,
    with_shares,
)
from moeopt.study.later_loads import HeldOutRow, summary
from moeopt.study.plan import NO_SOURCE, Job, content_hash
from moeopt.study.references import Bracket, hindsight_static, optimum_of
from moeopt.study.tags import tags_of

REFERENCE_WORK = 3
"""How many times a decision's work limit a reference may take."""

FORECAST_NOTE = (
    "systems decide by a forecast from the whole trace, the later loads with it;"
    " generate --later-out (generate_twins) holds them out"
)

Method = Choice | Rule
"""A method's name, or a custom heuristic."""


@dataclass(frozen=True)
class HeldOut:
    """Methods' decisions on later loads, and what those are held against.

    Attributes
    ----------
    problem, observed, later
        The problem, and the names of the instances.
    distance
        How many steps, tokens or windows lie between the observed and the first later loads.
    windows
        How many later windows there are.
    sample_rule
        The method that shares are counted from.
    own
        The sum of the later windows' own optima: each window with a decision of its own.
    hindsight
        The best single decision for all later windows, which no decision made once can beat.
    rows
        Method by method, each under every scheduler.
    notes
        What a reader has to know of the figures.
    judged
        A row for each decision, scheduler and load that it was executed on; see `to_frame`.
    """

    problem: str
    observed: str
    later: tuple[str, ...]
    distance: int
    windows: int
    sample_rule: str
    own: Bracket
    hindsight: Bracket
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    judged: Sequence[JudgedRow] = field(default=(), repr=False, compare=False)

    @property
    def hindsight_excess(self) -> tuple[float, float | None]:
        """The least and the most that the hindsight-static optimum is above the own optima."""
        least = excess(self.hindsight.bound, self.own.cost or self.own.bound) or 0.0
        most = self.hindsight.cost
        return max(0.0, least), None if most is None else excess(most, self.own.bound)

    @property
    def summary(self) -> list[HeldOutRow]:
        """What tables print: a row for each method and scheduler, as of many hold-outs."""
        train, scheduled = "train", bool(get_problem(self.problem).schedulers)
        trial = Trial(train, ("test",) * self.windows, self.distance)
        rows = [replace(row, train=train, distance=self.distance) for row in self.rows]
        best = reference(trial, self.own, self.hindsight, scheduled)
        return summary(self.problem, [best, *rows], {train: train})

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each decision, scheduler and load, with the columns of `moeopt.gap`.

        `objective`, `optimum` and `excess` are on the loads that `judged_on` names: the train
        loads, or one of the test loads. `scheduled_by` says who scheduled.
        """
        frame = pd.DataFrame(self.judged, dtype=object).drop(columns="label")
        return split_costs(typed(frame))

    def to_dicts(self) -> list[JsonObject]:
        """Return what a line of JSON says each: the references, then a row each."""
        unprinted = ("rows", "judged")
        head = {name: value for name, value in vars(self).items() if name not in unprinted}
        for name in ("own", "hindsight"):
            bracket = getattr(self, name)
            head[name] = asdict(bracket) | {"proven": bracket.proven, "gap": bracket.gap}
        head["hindsight_excess"] = self.hindsight_excess
        rows = [{k: v for k, v in vars(row).items() if k not in UNPRINTED} for row in self.rows]
        return [{"kind": "references", **head}, *({"kind": "row", **row} for row in rows)]


def holdout(
    observed: InstanceLike,
    later: InstanceLike | Sequence[InstanceLike],
    methods: Sequence[Choice] | None = None,
    *,
    beside: Sequence[Choice] = (),
    schedule: Schedule | Sequence[Schedule] = EXACT,
    sample_rule: str | None = None,
    time_limit_s: float = 10.0,
    reference_limit_s: float = 30.0,
    work_limit: float | None = None,
    seed: int = 0,
    check: bool = True,
) -> HeldOut:
    """Decide on observed loads, execute on later ones, and compare with the best decision.

    Parameters
    ----------
    observed
        What methods decide on.
    later
        Loads that came later, of the same model on the same machine: one instance or several.
    methods
        Names, functions from an instance to a solution, or their places, as
        ``FILE.py:function``. Default: the sample rule, the problem's exact method, whose decision
        is the optimum of the observed loads.
    beside
        More of them, whatever the methods are.
    schedule
        Scheduler of a layout or of migrations (see `moeopt.run_on`), or several of them.
    sample_rule
        The heuristic that shares are counted from; default: that of the problem. It always has
        rows.
    time_limit_s, seed
        For each decision, as in `moeopt.solve`.
    reference_limit_s
        For each later window's own optimum, and for the best decision in hindsight.
    work_limit
        Units of work for each decision in place of both limits of time, as in `moeopt.solve`, and
        thrice as many for each of the references.
    check
        Whether `later` must be recognised as later loads of the same by its provenance. Without it
        instances made in code can be compared; nobody then says that their loads are apart.

    Returns
    -------
    HeldOut
        The rows, and two references with their proven brackets: the later windows' own optima, and
        the hindsight-static optimum, both under exact schedules.

    Raises
    ------
    InputError
        If the later instances are no later loads of the same, or an argument cannot be used.

    Examples
    --------
    >>> import moeopt
    >>> folder = "instances/layout/esft-first-later"
    >>> observed = moeopt.load(f"{folder}/law-layer4-window0.json")
    >>> later = moeopt.load(f"{folder}/law-layer4-window1.json")
    >>> found = moeopt.holdout(observed, later, ["lpt", "bound-and-pack"])
    >>> [(row.method, f"{row.excess:.1%}") for row in found.rows], found.hindsight.proven
    ([('lpt', '14.3%'), ('bound-and-pack', '18.3%')], True)
    """
    observed = as_instance(observed, "observed")
    instances = _instances(later)
    problem = observed.problem
    distance = check_later(observed, instances) if arguments.flag("check", check) else 0
    rule = sample_rule or get_problem(problem).sample_rule
    if rule is None or any(one.problem != problem for one in instances):
        raise InputError(
            f"must be of {problem}, whose decisions must outlast their loads", field="later"
        )
    limit, reference_limit = (
        arguments.limits(seconds, None) for seconds in (time_limit_s, reference_limit_s)
    )
    if work_limit is not None:
        limit = arguments.limits(None, work_limit)
        reference_limit = arguments.limits(None, REFERENCE_WORK * work_limit)
    schedules = _schedules(problem, schedule)
    chosen = _methods(problem, rule, methods, beside)
    windows = [window for one in instances for window in get_problem(problem).windows_of(one)]
    whole = joined(windows)
    train, *tests = (content_hash(one) for one in (observed, *windows))
    solves = _solves(observed, train, chosen, limit, seed)
    own = {
        digest: optimum_of(window, reference_limit)
        for digest, window in zip(tests, windows, strict=True)
    }
    instances_of = {train: observed, **dict(zip(tests, windows, strict=True))}
    trial = Trial(train, tuple(tests), distance)
    judged = judge(solves, [trial], instances_of, own, schedules)
    rows = _with_failures(decisions_of(judged), solves, schedules)
    total = own[tests[0]]
    for digest in tests[1:]:
        total += own[digest]
    known = [row.later for row in rows if row.later is not None]
    hindsight = hindsight_static(whole, windows, total, known, reference_limit)
    return HeldOut(
        problem=problem,
        observed=observed.name,
        later=tuple(one.name for one in instances),
        distance=distance,
        windows=len(windows),
        sample_rule=solves.label.iloc[0],
        own=total,
        hindsight=hindsight,
        rows=tuple(with_shares(rows, solves.label.iloc[0], hindsight)),
        notes=(FORECAST_NOTE,) if forecast_saw_later(observed) else (),
        judged=[row | {"judged_on": instances_of[row["judged_on"]].name} for row in judged],
    )


def _instances(later: InstanceLike | Sequence[InstanceLike]) -> list[InstanceEnvelope]:
    if isinstance(later, InstanceEnvelope | str | Path):
        return [as_instance(later)]
    expect("later", later, list, tuple, what="an instance or a list of them")
    if not later:
        raise InputError("must be one instance at least", field="later")
    return [as_instance(one, f"later[{number}]") for number, one in enumerate(later)]


def _schedules(problem: str, given: Schedule | Sequence[Schedule]) -> list[Schedule]:
    found = [given] if isinstance(given, str) or callable(given) else list(given)
    for one in found:
        schedule_name(one)
    if not found:
        raise InputError("must be one at least", field="schedule")
    return found if get_problem(problem).schedulers else found[:1]


def _methods(
    problem: str, rule: str, given: Sequence[Choice] | None, beside: Sequence[Choice]
) -> list[Method]:
    """Return the methods, the sample rule first, every one once."""
    home = get_problem(problem)
    if isinstance(given, str):
        raise InputError(f"must be a list of names, not one: write [{given!r}]", field="methods")
    usual = [home.exact[0].name]
    chosen: dict[str, Method] = {}
    for one in [rule, *(usual if given is None else given), *beside]:
        method = load_rule(one) if isinstance(one, str) and ":" in one else one
        chosen.setdefault(get_method(home, method).name, method)
    return list(chosen.values())


def _solves(
    observed: InstanceEnvelope, digest: str, chosen: Sequence[Method], limit: Limits, seed: int
) -> pd.DataFrame:
    """Return the solves of the train loads, as a campaign has them, with their methods' names."""
    records = []
    for method in chosen:
        found = get_method(get_problem(observed.problem), method)
        name = AUTO if method == AUTO else found.name
        source = "" if found.rule is None else found.rule.source_sha256 or NO_SOURCE
        limits = (limit.time_limit_s, limit.work, 1)
        record = attempt(Job(observed, digest, name, seed, *limits, {}, found.rule, source))
        if record.failed and record.failure not in ("rule", "crash"):
            raise record.error()
        records.append(record)
    frame = frame_of(
        [("-", tags_of(observed), record) for record in records], {digest: bracket_of(records)}
    )
    return frame.assign(label=frame.method)


def _with_failures(
    rows: Sequence[Row], solves: pd.DataFrame, schedules: Sequence[Schedule]
) -> list[Row]:
    """Return the decisions, and in their places a row that says why there is none."""
    of = grouped(rows, lambda row: row.method)
    for one in solves[solves.solution.isna()].to_dict("records"):
        label, said = one["label"], f"{one['status']}: {one['raw_status']}"
        by = map(schedule_name, schedules) if get_problem(one["problem"]).schedulers else [NONE]
        of[label] = [
            Row(label, name, seconds=one["seconds"], status=one["status"], reason=said)
            for name in by
        ]
    return [row for label in solves.label for row in of[label]]
