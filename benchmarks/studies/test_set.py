"""The front table on the test set alone: one trace of each model that nothing may be chosen with.

    moeopt gap instances --methods published --work-limit 60 --store FILE
    python benchmarks/studies/test_set.py FILE

Defaults of assumptions, constants of methods and laws are chosen on the other traces; findings.md
says since when, and when this was run last. Instances of laws are in neither part.
"""

import argparse
from pathlib import Path

from benchmarks.rooms.study import Store, front_markdown, standings

TEST = ("esft_deepseek_v2_lite/summary.npz", "hdmoe_mixtral_8x7b/extraction.npz")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("store", type=Path)
    with Store(parser.parse_args().store, create=False) as store:
        solves = store.frame()
    print(front_markdown(standings(solves[solves.tag_cluster.isin(TEST)])), end="")


if __name__ == "__main__":
    main()
