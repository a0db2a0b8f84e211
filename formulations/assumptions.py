"""Write each problem's assumptions into its specification, between two marks.

    python formulations/assumptions.py [--write]

Without ``--write`` it prints what differs and exits with 1 if anything does.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from moeopt.core.assumptions import Assumption
from moeopt.problems.registry import PROBLEMS, get_problem

ROOT = Path(__file__).parent
BEGIN, END = "<!-- assumptions: begin -->\n", "<!-- assumptions: end -->"

_ID = re.compile(r"\b[A-Z]{2}-C\d+")


def with_assumptions(problem: str) -> tuple[str, str]:
    """Return a specification as it is, and as its problem's assumptions make it.

    Raises
    ------
    ValueError
        If the problem has assumptions and the specification lacks one of the marks.
    """
    text = (ROOT / problem / "spec.md").read_text()
    assumptions = get_problem(problem).assumptions()
    if not assumptions:
        return text, text
    if BEGIN not in text or END not in text:
        raise ValueError(f"{problem}/spec.md: lacks the marks {BEGIN.strip()} and {END}")
    earlier = list(PROBLEMS)[: list(PROBLEMS).index(problem)]
    section = markdown(assumptions, {name: get_problem(name).assumptions() for name in earlier})
    before, _, rest = text.partition(BEGIN)
    return text, before + BEGIN + section + END + rest.partition(END)[2]


def markdown(
    assumptions: Sequence[Assumption], elsewhere: Mapping[str, Sequence[Assumption]]
) -> str:
    """Return the section of a specification: a list of questions, readings and reasons.

    Parameters
    ----------
    assumptions
        Of the specification's problem.
    elsewhere
        Problem -> its assumptions. What one of them states word for word, the IDs of constraints
        apart, is named with a link to its specification, at the end of the list.
    """
    lines = []
    alike: dict[str, list[str]] = {}
    quoted: dict[str, str] = {}
    for problem, of in elsewhere.items():
        for other in of:
            quoted.setdefault(other.words, f"`{other.name}` of {_linked(problem)}")
    quoted.pop("", None)
    for s in assumptions:
        taken = "size" if s.is_setting else "instances"
        if s.methods:
            taken = ", ".join(f"`{m}`" for m in s.methods)
        stated = [(p, o) for p, of in elsewhere.items() for o in of if _plain(o) == _plain(s)]
        if stated:
            problem, other = stated[0]
            pairs = zip(_ids(s), _ids(other), strict=True)
            ids = "".join(f", with {here} for {there}" for here, there in dict.fromkeys(pairs))
            alike.setdefault(f"({taken}): as in {_linked(problem)}{ids}.", []).append(s.name)
            continue
        said = f'"{s.words}"' if s.words else "The paper says nothing"
        if s.words in quoted:
            said = f"The paper: as for {quoted[s.words]}"
        elif s.words:
            quoted[s.words] = f"`{s.name}`"
        lines.append(f"- **`{s.name}`** ({taken}). {s.question} {said} ({s.source}).")
        lines += [f"  - {reading}" for reading in _readings(s, elsewhere)]
        lines.append(f"  - Why: {s.why}")
    for where, names in alike.items():
        lines.append(f"- {', '.join(f'**`{name}`**' for name in names)} {where}")
    return "\n".join(lines) + "\n"


def _readings(s: Assumption, elsewhere: Mapping[str, Sequence[Assumption]]) -> Iterator[str]:
    """Yield its values with their meanings; once for those of one unit, or stated elsewhere."""
    marked = {v: f"`{v}`{' (default)' if v == s.default else ''}" for v in s.values}
    units = {meaning.removeprefix(f"{value} ") for value, meaning in s.values.items()}
    if len(units) == 1:
        yield f"{', '.join(marked.values())} {units.pop()}"
        return
    rest = dict(s.values)
    for problem, of in elsewhere.items():
        alike = {v for o in of if o.name == s.name for v in rest if o.values.get(v) == rest[v]}
        if alike:
            yield f"{', '.join(marked[v] for v in rest if v in alike)}: as in {_linked(problem)}"
            rest = {v: meaning for v, meaning in rest.items() if v not in alike}
    yield from (f"{marked[value]}: {meaning}" for value, meaning in rest.items())


def _linked(problem: str) -> str:
    """Return the link from one specification to another one's assumptions."""
    return f"[{problem}](../{problem}/spec.md#assumptions)"


def _ids(assumption: Assumption) -> list[str]:
    """Return the IDs of constraints that its texts name, in order."""
    return _ID.findall(str(replace(assumption, methods=())))


def _plain(assumption: Assumption) -> str:
    """Return it as text without methods and IDs."""
    return _ID.sub("", str(replace(assumption, methods=())))


def main() -> None:
    """Run the command line."""
    stale = []
    for problem in PROBLEMS:
        now, right = with_assumptions(problem)
        if now != right:
            stale.append(problem)
            if "--write" in sys.argv[1:]:
                (ROOT / problem / "spec.md").write_text(right)
    print(*(f"{problem}/spec.md: the assumptions' section differs" for problem in stale), sep="\n")
    sys.exit(1 if stale and "--write" not in sys.argv[1:] else 0)


if __name__ == "__main__":
    main()
