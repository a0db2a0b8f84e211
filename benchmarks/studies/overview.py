"""Draw docs/overview.svg: the published rules' excess by problem and by what they knew.

moeopt gap instances --methods published --work-limit 60 --store FILE
python benchmarks/studies/overview.py FILE [--out docs/overview.svg]
"""

import argparse
from pathlib import Path

from benchmarks.rooms.problems import save_figure
from benchmarks.rooms.study import (
    Store,
    Study,
    overview_chart,
    plain_text,
    sections,
    takeaways,
)


def main() -> None:
    """Draw the figure of a store."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/overview.svg"))
    arguments = parser.parse_args()
    with Store(arguments.store, create=False) as store:
        study = Study.of(store.frame(), store, "")
        found = sections(study, takeaways(study))
    panels = [(section.takeaway.title, section.lines) for section in found if section.lines]
    with plain_text():
        save_figure(overview_chart(panels), arguments.out)


if __name__ == "__main__":
    main()
