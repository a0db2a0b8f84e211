"""The study in plain words: what a reader should take away, and numbers for people."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan
from statistics import median

import pandas as pd

from moeopt.core.objective import Objective
from moeopt.problems.registry import get_problem
from moeopt.solvers.result import with_unit
from moeopt.study.report.study import Study, own_heuristic
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
        mine = rows[rows.method == method]
        found.append(takeaway_of(problem, rows, method, mine, paper))
    return found


def own_rules(solves: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the solves of each custom heuristic by its name, and by the state of its file.

    A name has the start of the file's hash in it where there are several states.
    """
    mine = solves[solves.source_sha256 != ""]
    found = {}
    for method, of in mine.groupby("method", sort=False):
        states = dict(iter(of.groupby("source_sha256", sort=False)))
        for source, some in states.items():
            state = f" source {str(source)[:8]}" if len(states) > 1 else ""
            found[f"{method}{state}"] = some
    return found


def takeaway_of(
    problem: str, solves: pd.DataFrame, method: str | None, mine: pd.DataFrame, paper: str = ""
) -> Takeaway:
    """Return what the numbers of one method come to; `mine` are its solves among `solves`.

    Only solves of one kind of information are compared, under the assumptions' defaults where there
    are any: no hindsight where the rule has decided without, else where it has decided most often.
    """
    instances = solves.instance_hash.nunique()
    proven = solves.instance_hash[solves.optimum.notna()].nunique()
    start = Takeaway(problem, get_problem(problem).title, instances, proven, method, paper)
    known = mine[mine.excess.notna()]
    if known.empty:
        return start
    settled = known.get("tag_settled", pd.Series("", index=known.index)).fillna("") != ""
    kinds = known.facts.map(lambda facts: kind_of(str(facts.get("knew", ""))))
    regimes = dict(iter(known.groupby([settled, kinds], sort=False)))
    assumed, knew = min(regimes, key=lambda at: (at[0], at[1] == "hindsight", -len(regimes[at])))
    solved = regimes[assumed, knew].groupby("instance_hash", sort=False)
    excesses, optimal = solved.excess.max(), solved.optimal.all()
    worst = excesses.idxmax()
    return replace(
        start,
        knew=knew,
        assumed=assumed,
        compared=len(excesses),
        optimal=int(optimal.sum()),
        middle=float(median(excesses)),
        worst=float(excesses[worst]),
        worst_instance=known.instance[known.instance_hash == worst].iloc[0],
    )


def headline(study: Study) -> str:
    """Return one sentence: each custom heuristic's median and worst excess, the published beside.

    Empty where there is no custom heuristic.
    """
    said = []
    for problem, solves in study.problems.items():
        for name, mine in own_rules(solves).items():
            own = takeaway_of(problem, solves, name, mine)
            published = get_problem(problem).published
            beside = takeaway_of(problem, solves, published, solves[solves.method == published])
            text = f"{name}: {_numbers(own)}"
            if beside.middle is not None and name != published:
                text += f"; {published}, the published rule: {_numbers(beside)}"
            said.append(text + ".")
    return " ".join(said[:MOST_HEADLINES])


MOST_HEADLINES = 3


def _numbers(t: Takeaway) -> str:
    if t.middle is None:
        return "nothing that can be compared"
    return f"median {_some(t.middle)}, worst {_some(t.worst)} above the optimum"


def opening(found: Sequence[Takeaway], solves: int, *, brief: bool = False) -> str:
    """Return the first paragraph; a brief one says nothing of the published rules."""
    if not found:
        return "This study holds no results yet, so there is nothing to take away."
    instances, proven = sum(t.instances for t in found), sum(t.proven for t in found)
    text = (
        f"{_count(solves, 'solve')} of {_count(instances, 'instance')} of "
        f"{_count(len(found), 'problem')}. The optimum is proven for {proven:,} of the instances."
    )
    if brief:
        return text
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


def seconds(value: float) -> str:
    """Return a time with two significant digits, or whole seconds; a dash if unknown."""
    if isnan(value):
        return "-"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}" if value >= 0.001 else "< 0.001"


def tally(study: Study) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return the versions and the machines of the solves, each with how many there are."""
    once = study.frame.drop_duplicates("key")
    versions, machines = (
        Counter(", ".join(f"{name} {value}" for name, value in one.items()) for one in column)
        for column in (once.versions, once.machine)
    )
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
