"""Decisions made on observed loads, executed on later ones, against what was possible there.

What was possible has two references, each with its proven bracket.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import HeuristicError, InputError, expect
from moeopt.core.json_files import JsonObject
from moeopt.core.objective import first_key
from moeopt.core.problem import EXACT, HINDSIGHT, Schedule
from moeopt.problems.files import InstanceLike, as_instance
from moeopt.problems.holdout import executed_on, joined, schedule_name
from moeopt.problems.registry import get_problem
from moeopt.problems.twins import check_later, forecast_saw_later
from moeopt.solvers import arguments
from moeopt.solvers.arguments import Limits
from moeopt.solvers.methods import get_method
from moeopt.solvers.rules import AUTO, Rule, load_rule
from moeopt.solvers.run import solve

from .campaign import Choice


@dataclass(frozen=True)
class Bracket:
    """What is known of the least that loads can cost.

    Attributes
    ----------
    cost
        What a decision that was found costs; None if none was found.
    bound
        Nothing costs less, proven.
    """

    cost: int | None
    bound: int

    @property
    def proven(self) -> bool:
        """Whether the decision is proven to be the best."""
        return self.cost == self.bound

    @property
    def gap(self) -> float | None:
        """(cost - bound) / cost; None if there is no decision, or it costs nothing."""
        return (self.cost - self.bound) / self.cost if self.cost else None

    def __add__(self, other: "Bracket") -> "Bracket":
        found = self.cost is not None and other.cost is not None
        return Bracket(
            (self.cost or 0) + (other.cost or 0) if found else None, self.bound + other.bound
        )


def optimum_of(instance: InstanceEnvelope, limits: Limits) -> Bracket:
    """Return the bracket of an instance's optimum, by its problem's exact method."""
    return _solved(instance, limits)[0]


def hindsight_static(
    whole: InstanceEnvelope,
    windows: Sequence[InstanceEnvelope],
    own: Bracket,
    known: Iterable[int],
    limits: Limits,
) -> Bracket:
    """Return the bracket of what one decision for all later windows costs at least.

    No rule that decides once can cost less, whatever it knew. It is the optimum of the instance
    made of all windows. The bracket is also narrowed by what is known without it: the windows' own
    optima, each with a decision of its own, cost no more, and what any decision was seen to cost is
    no less.

    Parameters
    ----------
    whole, windows
        Later loads that one decision is for, joined to one instance and one by one.
    own
        The sum of their own optima.
    known
        What some decisions cost in all of them.
    limits
        For the exact method; and for each heuristic that decides by the loads it is measured on,
        which are tried if that leaves the bracket open.
    """
    if len(windows) == 1:
        costs = [*known] if own.cost is None else [*known, own.cost]
        return Bracket(min(costs, default=None), own.bound)
    found, solution = _solved(whole, limits)
    bound = max(found.bound, own.bound)
    costs = [*known, *_costs(windows, solution)]
    for rule in get_problem(whole.problem).heuristics:
        if rule.in_words == HINDSIGHT and min(costs, default=None) != bound:
            costs += _costs(windows, solve(whole, rule.name, **limits.asked).solution)
    return Bracket(min(costs, default=None), bound)


def share_between(cost: int, sample: int, best: Bracket) -> tuple[float, float] | None:
    """Return which share of the possible gain over a sample rule was reached, at least and at most.

    Negative if it is worse than the rule; between the two ends of the bracket of what is possible.

    Parameters
    ----------
    cost, sample
        What a decision costs on later loads, and the sample rule's.
    best
        The best single decision in hindsight.

    Returns
    -------
    tuple
        Both ends; None if nothing is known to be gained over the sample rule.
    """
    if best.cost is None or best.cost >= sample:
        return None
    low, high = sorted((sample - cost) / (sample - end) for end in (best.bound, best.cost))
    return low, high


def _costs(windows: Sequence[InstanceEnvelope], decision: SolutionEnvelope | None) -> list[int]:
    """Return what a decision on joined windows costs in all of them, if there is one.

    It is scheduled exactly.
    """
    if decision is None:
        return []
    problem = get_problem(decision.problem)
    runs = [executed_on(one, problem.separated(one, decision), EXACT) for one in windows]
    return [sum(first_key(run.objective) for run in runs)]


def _solved(instance: InstanceEnvelope, limits: Limits) -> tuple[Bracket, SolutionEnvelope | None]:
    result = solve(instance, AUTO, **limits.asked)
    bound = result.bound
    if bound is None:
        bound = get_problem(instance.problem).bound(instance)
    if result.status == "infeasible" or bound is None:
        raise InputError(f"{instance.name}: has no solution, and so no optimum in hindsight")
    cost = None if result.objective is None else first_key(result.objective)
    return Bracket(cost, first_key(bound)), result.solution


Method = Choice | Rule
"""A method's name, or a custom heuristic."""

NONE = "-"
"""The scheduler of problems whose decisions nobody schedules."""

REFERENCE_WORK = 3
"""How many times a decision's work limit a reference may take."""

FORECAST_NOTE = (
    "systems decide by a forecast from the whole trace, the later loads with it;"
    " generate --later-out (generate_twins) holds them out"
)


@dataclass(frozen=True)
class Row:
    """What one method's decision costs under one scheduler.

    Attributes
    ----------
    method
        Decided on the observed loads alone.
    schedule
        Who scheduled it, on the observed and on the later loads; "-" if there is nothing to be
        scheduled.
    known
        What it costs on the observed loads, by the objective's first entry.
    later
        What it costs on all later windows together.
    excess
        How far that is above the sum of the windows' own optima; above its bound where that sum is
        not proven, so never more than this.
    worst
        The same of the worst window.
    share_low, share_high
        What the decision brings over the sample rule's, as a share of what the best decision in
        hindsight would have brought: between these two, as its bracket has it; equal if it is
        closed. Negative if it is worse than the sample rule; None where nothing is to be had.
    seconds
        For deciding.
    status
        Of the solve: "optimal" is a proven optimum of the observed loads.
    unproven
        How many of the later exact schedules are not proven the best.
    reason
        Why there are no figures, if there are none.
    """

    method: str
    schedule: str
    known: int | None = None
    later: int | None = None
    excess: float | None = None
    worst: float | None = None
    share_low: float | None = None
    share_high: float | None = None
    seconds: float = 0.0
    status: str = "failed"
    unproven: int = 0
    reason: str = ""


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

    @property
    def hindsight_excess(self) -> tuple[float, float | None]:
        """The least and the most that the hindsight-static optimum is above the own optima."""
        least = _excess(self.hindsight.bound, self.own.cost or self.own.bound) or 0.0
        most = self.hindsight.cost
        return max(0.0, least), None if most is None else _excess(most, self.own.bound)

    def to_dicts(self) -> list[JsonObject]:
        """Return what a line of JSON says each: the references, then a row each."""
        head = {name: value for name, value in vars(self).items() if name != "rows"}
        for name in ("own", "hindsight"):
            bracket = getattr(self, name)
            head[name] = asdict(bracket) | {"proven": bracket.proven, "gap": bracket.gap}
        head["hindsight_excess"] = self.hindsight_excess
        return [{"kind": "references", **head}, *({"kind": "row", **asdict(r)} for r in self.rows)]


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
    """Decide on observed loads, execute on later ones, and say how far that is from the best.

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
        Who schedules a layout or migrations, see `moeopt.run_on`; or several.
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
    decisions = [_decide(observed, one, limit, seed) for one in chosen]
    own = [optimum_of(window, reference_limit) for window in windows]
    sample = decisions[0][0].method
    runs = [
        _run(observed, windows, own, *decision, by) for decision in decisions for by in schedules
    ]
    total = own[0]
    for one in own[1:]:
        total += one
    known = [run.later for run in runs if run.later is not None]
    hindsight = hindsight_static(whole, windows, total, known, reference_limit)
    base = {run.schedule: run.later for run in runs if run.method == sample}
    return HeldOut(
        problem=problem,
        observed=observed.name,
        later=tuple(one.name for one in instances),
        distance=distance,
        windows=len(windows),
        sample_rule=sample,
        own=total,
        hindsight=hindsight,
        rows=tuple(_with_share(run, base[run.schedule], hindsight) for run in runs),
        notes=(FORECAST_NOTE,) if forecast_saw_later(observed) else (),
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


def _decide(
    observed: InstanceEnvelope, method: Method, limit: Limits, seed: int
) -> tuple[Row, SolutionEnvelope | None]:
    """Return a method's row before its decision is executed, and the decision."""
    found = get_method(get_problem(observed.problem), method)
    begin = perf_counter()
    try:
        result = solve(observed, method, **limit.asked, seed=seed)
    except HeuristicError as error:
        said = f"failed: {error.reason}"
        return Row(found.name, NONE, seconds=perf_counter() - begin, reason=said), None
    seconds = perf_counter() - begin
    reason = "" if result.solution is not None else f"{result.status}: {result.raw_status}"
    row = Row(result.method, NONE, seconds=seconds, status=result.status, reason=reason)
    return row, result.solution


def _run(
    observed: InstanceEnvelope,
    windows: Sequence[InstanceEnvelope],
    own: Sequence[Bracket],
    row: Row,
    decision: SolutionEnvelope | None,
    schedule: Schedule,
) -> Row:
    if get_problem(observed.problem).schedulers:
        row = replace(row, schedule=schedule_name(schedule))
    if decision is None:
        return row
    try:
        here = executed_on(observed, decision, schedule)
        there = [executed_on(window, decision, schedule) for window in windows]
    except InputError as error:
        return replace(row, status="failed", reason=f"does not fit the later loads: {error}")
    costs = [first_key(run.objective) for run in there]
    single = [_excess(cost, one.bound) for cost, one in zip(costs, own, strict=True)]
    return replace(
        row,
        known=first_key(here.objective),
        later=sum(costs),
        excess=_excess(sum(costs), sum(one.bound for one in own)),
        worst=max((excess for excess in single if excess is not None), default=None),
        unproven=sum(run.unproven for run in there),
    )


def _excess(cost: int, least: int) -> float | None:
    return (cost - least) / least if least else None


def _with_share(row: Row, base: int | None, hindsight: Bracket) -> Row:
    """Return a row with its shares of what the best decision in hindsight would have brought."""
    if row.later is None or base is None:
        return row
    shares = share_between(row.later, base, hindsight)
    if shares is None:
        return row
    return replace(row, share_low=shares[0], share_high=shares[1])
