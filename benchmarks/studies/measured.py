"""Fit the profiles of runtimes to public measurements, and say how far they are off elsewhere.

``python benchmarks/studies/measured.py`` prints the costs and the cross-validation (seconds), which
``python -m benchmarks.measured`` shows with every point;
``--write`` also writes the profiles that ``moeopt predict`` uses, ``moeopt/sim/presets/runtimes``.
A test compares the two.
"""

import argparse
from pathlib import Path

from benchmarks.measured.comparison import Errors
from benchmarks.measured.crossvalidation import cross_validated, fitted_profiles
from benchmarks.measured.points import read_points
from moeopt.core.json_files import save
from moeopt.sim.machines.runtimes.terms import PRIOR, TERMS

FOLDER = Path(__file__).parents[2] / "moeopt" / "sim" / "presets" / "runtimes"


def main() -> None:
    """Print the study; write the profiles where asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the profiles")
    write = parser.parse_args().write
    points = read_points()
    found = cross_validated(points)
    profiles = fitted_profiles(points, found)
    if write:
        FOLDER.mkdir(exist_ok=True)
        for profile in profiles:
            save(profile, FOLDER / f"{profile.name}.json")
    print("| term | expected | " + " | ".join(p.name for p in profiles) + " |")
    print("|---|---|" + "---|" * len(profiles))
    for term in TERMS:
        row = " | ".join(f"{p.costs[term]:.4g}" for p in profiles)
        print(f"| {term} | {PRIOR[term].expected:g} | {row} |")
    print("\n| held out | points | median | p90 | 80 % interval: factor | points inside |")
    print("|---|---|---|---|---|---|")
    for name, held, group in found.rows():
        e = Errors.of(held, group)
        off = f"{100 * e.median:.1f} % | {100 * e.p90:.1f} %"
        print(f"| {name} | {e.points} | {off} | {e.factor:.3f} | {100 * (e.inside or 0):.0f} % |")


if __name__ == "__main__":
    main()
