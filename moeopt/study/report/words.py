"""The study in plain words: what a reader should take away, and numbers for people."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from moeopt.core.objective import Objective
from moeopt.problems.registry import get_problem
from moeopt.solvers.result import with_unit
from moeopt.study.report.study import Study, own_heuristic
from moeopt.study.rows import Row, grouped
from moeopt.study.table import MEANING, Knew, kind_of, percent

SMALL = 0.001
"""Excesses below this are not called 0.0 %, which would say that nothing is lost."""


@dataclass(frozen=True)
class Takeaway:
    """What the numbers of a method come to on one problem, of which `title` says what it decides.

    `proven` counts the instances with a proven optimum, `compared` those on which the method can be
    compared and `optimal` those on which it is; `middle` and `worst` are median and largest excess.
    `method` is None where no heuristic ran, `paper` empty but for the published one. `knew` says by
    which information it decided on the instances that are compared, and `assumed` whether they are
    made under other assumptions than the defaults.
    """

    problem: str
    title: str
    instances: int
    proven: int
    method: str | None = None
    paper: str = ""
    compared: int = 0
    optimal: int = 0
    middle: float | None = None
    worst: float | None = None
    worst_instance: str = ""
    knew: Knew = ""
    assumed: bool = False


def takeaways(study: Study) -> list[Takeaway]:
    """Return one for each problem; an instance counts once whatever its families."""
    found = []
    for problem, rows in study.problems.items():
        method, paper = own_heuristic(problem, rows) or (None, "")
        mine = [row for row in rows if row.key.method == method]
        found.append(takeaway_of(problem, rows, method, mine, paper))
    return found


def own_rules(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return the solves of each rule of one's own, of each state of its file if there are several.

    A name has the start of the file's hash in it then.
    """
    found: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        if row.key.source_sha256:
            states = found.setdefault(row.key.method, {})
            states.setdefault(row.key.source_sha256, []).append(row)
    return {
        method if len(states) == 1 else f"{method} source {source[:8]}": solves
        for method, states in found.items()
        for source, solves in states.items()
    }


def takeaway_of(
    problem: str, rows: Sequence[Row], method: str | None, mine: Sequence[Row], paper: str = ""
) -> Takeaway:
    """Return what the numbers of one method come to; `mine` are its solves among `rows`.

    Only solves of one kind of information are compared, under the assumptions' defaults where there
    are any: no hindsight where the rule has decided without, else where it has decided most often.
    """
    instances = {row.key.instance for row in rows}
    proven = {row.key.instance for row in rows if row.optimum is not None}
    title = get_problem(problem).title
    start = Takeaway(problem, title, len(instances), len(proven), method, paper)
    regimes = grouped(
        (row for row in mine if row.excess is not None),
        lambda row: (bool(row.facts.get("settled")), kind_of(str(row.facts.get("knew", "")))),
    )
    if not regimes:
        return start
    assumed, knew = min(regimes, key=lambda at: (at[0], at[1] == "hindsight", -len(regimes[at])))
    start = replace(start, knew=knew, assumed=assumed)
    solves = grouped(regimes[assumed, knew], lambda row: row.key.instance)
    excesses = {at: max(row.excess or 0.0 for row in group) for at, group in solves.items()}
    worst = max(excesses, key=lambda at: excesses[at])
    return replace(
        start,
        compared=len(excesses),
        optimal=sum(all(row.optimal for row in group) for group in solves.values()),
        middle=median(excesses.values()),
        worst=excesses[worst],
        worst_instance=solves[worst][0].result.instance,
    )


def opening(found: Sequence[Takeaway], solves: int) -> str:
    """Return the first paragraph."""
    if not found:
        return "This study holds no results yet, so there is nothing to take away."
    instances, proven = sum(t.instances for t in found), sum(t.proven for t in found)
    text = (
        f"{_count(solves, 'solve')} of {_count(instances, 'instance')} of "
        f"{_count(len(found), 'problem')}. The optimum is proven for {proven:,} of the instances."
    )
    known = [t for t in found if t.middle is not None]
    if not known:
        return f"{text} No heuristic can be compared with a proven optimum here."
    far = max(known, key=lambda t: t.middle or 0)
    near = min(known, key=lambda t: t.middle or 0)
    worst = max(known, key=lambda t: t.worst or 0)
    if len(known) > 1:
        text += (
            f" Published rules come closest to the optimum in {_named(near)}, at the median "
            f"{_above(near.middle)}, and stay farthest from it in {_named(far)}: "
            f"{percent(far.middle)} above."
        )
    return (
        f"{text} Among the published rules, one for each problem, the worst single case is "
        f"{worst.method} in {worst.problem}, {percent(worst.worst)} above the optimum."
    )


def sentence(t: Takeaway) -> str:
    """Return what one problem's numbers say, after its name."""
    proofs = f"{t.proven} of {_count(t.instances, 'optimum', 'optima')} proven"
    if t.method is None:
        return f"no heuristic was run; {proofs}."
    who = f"{t.method}, the rule of {t.paper}," if t.paper else t.method
    if t.middle is None:
        return f"{who} has no result that can be compared; {proofs}."
    return (
        f"{who.removesuffix(',' * bool(t.knew))}{_where(t)} costs {_some(t.middle)} more than the "
        "optimum at the median and "
        f"{_some(t.worst)} at worst ({t.worst_instance}); it is optimal on {t.optimal} of "
        f"{t.compared}; {proofs}."
    )


def _where(t: Takeaway) -> str:
    """Return in which regime a takeaway's numbers are."""
    knew = f" (information: {MEANING[t.knew]})" if t.knew else ""
    return f"{knew} under assumptions other than the defaults" if t.assumed else knew


def amount(problem: str, objective: Objective | None) -> str:
    """Return an objective with its unit, times in milliseconds."""
    return with_unit(problem, objective, _milliseconds)


def _milliseconds(value_ns: int) -> str:
    """Return a time with four significant digits, or whole milliseconds."""
    value = value_ns / 1e6
    return f"{value:,.0f} ms" if value >= 1000 else f"{value:.4g} ms"


def seconds(value: float | None) -> str:
    """Return a time with two significant digits, or whole seconds; a dash if unknown."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}" if value >= 0.001 else "< 0.001"


def tally(study: Study) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return the versions and the machines of the solves, each with how many there are."""
    rows = {row.key: row for row in study.rows}.values()
    versions = Counter(", ".join(f"{k} {v}" for k, v in r.result.versions.items()) for r in rows)
    machines = Counter(", ".join(f"{k} {v}" for k, v in row.machine.items()) for row in rows)
    return versions.most_common(), machines.most_common()


def _named(t: Takeaway) -> str:
    return f"{t.problem} ({t.title[0].lower()}{t.title[1:]})"


def _above(excess: float | None) -> str:
    """Return how far above the optimum something is, without calling little nothing."""
    return f"{_some(excess)} above it" if excess else "at it"


def _some(excess: float | None) -> str:
    return "less than 0.1 %" if excess and excess < SMALL else percent(excess)


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
