"""Fit the profiles of runtimes to public measurements, and say how far they are off elsewhere.

``python -m benchmarks.measured`` prints the page docs/measured.md (3 CPU minutes); ``--write``
writes it, ``details.md``, and ``moeopt/sim/presets/runtimes``, the profiles of `moeopt predict`.
Points whose pages have no address are in a folder that ``MOEOPT_MEASURED`` names; without it the
page is of the public points alone, and nothing is written.
"""

import argparse
import sys
from pathlib import Path

from benchmarks.measured.crossvalidation import cross_validated, fitted_profiles
from benchmarks.measured.points import FOLDER, all_points, withheld
from benchmarks.measured.prompts import prompts, read_prompts
from benchmarks.measured.report import details, to_markdown
from moeopt import InputError, save

ROOT = Path(__file__).parents[2]


def main() -> None:
    """Print the page, or write it and the profiles."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the page and the profiles")
    given = parser.parse_args()
    try:
        points = all_points()
    except InputError as error:
        parser.exit(2, f"python -m benchmarks.measured: {error}\n")
    if all(point.public for point in points):
        said = (
            f"{len(withheld())} points without an address are left out ({FOLDER} names no folder)"
        )
        if given.write:
            parser.exit(2, f"python -m benchmarks.measured: --write: {said}\n")
        print(f"python -m benchmarks.measured: {said}", file=sys.stderr)
    found, read = cross_validated(points), prompts(read_prompts())
    page = to_markdown(points, found, read)
    if given.write:
        (ROOT / "docs" / "measured.md").write_text(page)
        (ROOT / "benchmarks" / "measured" / "details.md").write_text(details(points, found))
        for profile in fitted_profiles(points, found, read.costs):
            save(profile, ROOT / "moeopt/sim/presets/runtimes" / f"{profile.name}.json")
    else:
        print(page)


if __name__ == "__main__":
    main()
