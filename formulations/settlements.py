"""Write each problem's settlements into its specification, between two marks.

    python formulations/settlements.py [--write]

Without ``--write`` it prints what differs and exits with 1 if anything does.
"""

import sys
from pathlib import Path

from moeopt.core.settlements import markdown
from moeopt.problems.registry import PROBLEMS, get_problem

ROOT = Path(__file__).parent
BEGIN, END = "<!-- settlements: begin -->\n", "<!-- settlements: end -->"


def with_settlements(problem: str) -> tuple[str, str]:
    """Return a specification as it is, and as its problem's settlements make it.

    Raises
    ------
    ValueError
        If the problem has settlements and the specification lacks one of the marks.
    """
    text = (ROOT / problem / "spec.md").read_text()
    settlements = get_problem(problem).settlements
    if not settlements:
        return text, text
    if BEGIN not in text or END not in text:
        raise ValueError(f"{problem}/spec.md: lacks the marks {BEGIN.strip()} and {END}")
    earlier = list(PROBLEMS)[: list(PROBLEMS).index(problem)]
    section = markdown(settlements, {name: get_problem(name).settlements for name in earlier})
    before, _, rest = text.partition(BEGIN)
    return text, before + BEGIN + section + END + rest.partition(END)[2]


def main() -> None:
    """Run the command line."""
    stale = []
    for problem in PROBLEMS:
        now, right = with_settlements(problem)
        if now != right:
            stale.append(problem)
            if "--write" in sys.argv[1:]:
                (ROOT / problem / "spec.md").write_text(right)
    print(*(f"{problem}/spec.md: the settlements' section differs" for problem in stale), sep="\n")
    sys.exit(1 if stale and "--write" not in sys.argv[1:] else 0)


if __name__ == "__main__":
    main()
