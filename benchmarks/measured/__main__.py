"""Fit the profiles of runtimes to public measurements, and say how far they are off elsewhere.

``python -m benchmarks.measured`` prints the page docs/measured.md (5 CPU seconds); ``--write``
writes it, ``details.md``, and ``moeopt/sim/presets/runtimes``, the profiles of `moeopt predict`.
"""

import argparse
from pathlib import Path

from benchmarks.measured.crossvalidation import cross_validated, fitted_profiles
from benchmarks.measured.forms import choose
from benchmarks.measured.points import all_points
from benchmarks.measured.report import details, to_markdown
from moeopt import InputError, save

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Print the page, or write it and the profiles."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the page and the profiles")
    parser.add_argument("--forms", action="store_true", help="which form of the terms to take")
    given = parser.parse_args()
    try:
        points = all_points()
    except InputError as error:
        parser.exit(2, f"python -m benchmarks.measured: {error}\n")
    if given.forms:
        print("\n".join(choose(points)))
        return
    found = cross_validated(points)
    page = to_markdown(points, found)
    if given.write:
        (ROOT / "docs" / "measured.md").write_text(page)
        (ROOT / "benchmarks" / "measured" / "details.md").write_text(details(points, found))
        for profile in fitted_profiles(points, found):
            save(profile, ROOT / "moeopt/sim/presets/runtimes" / f"{profile.name}.json")
    else:
        print(page)


if __name__ == "__main__":
    main()
