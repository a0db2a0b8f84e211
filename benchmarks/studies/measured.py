"""Fit the profiles of runtimes to public measurements, and say how far they are off elsewhere.

``python benchmarks/studies/measured.py`` prints the cross-validation (seconds);
``--write`` also writes the profiles that ``moeopt predict`` uses, ``moeopt/sim/presets/runtimes``.
A test compares the two.
"""

import argparse
from pathlib import Path

import numpy as np

from moeopt.problems.json_files import save
from moeopt.reproduce.measured.crossvalidation import (
    Held,
    by_curve,
    by_machine,
    cross_validated,
    fitted_profiles,
)
from moeopt.reproduce.measured.points import read_points
from moeopt.sim.runtimes.terms import PRIOR, TERMS

FOLDER = Path(__file__).parents[2] / "moeopt" / "sim" / "presets" / "runtimes"


def main() -> None:
    """Print the study; write the profiles where asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the profiles")
    write = parser.parse_args().write
    points = read_points()
    profiles = fitted_profiles(points)
    if write:
        FOLDER.mkdir(exist_ok=True)
        for profile in profiles:
            save(profile, FOLDER / f"{profile.name}.json")
    print("| term | expected | " + " | ".join(p.name for p in profiles) + " |")
    print("|---|---|" + "---|" * len(profiles))
    for term in TERMS:
        row = " | ".join(f"{p.costs[term]:.4g}" for p in profiles)
        print(f"| {term} | {PRIOR[term].expected:g} | {row} |")
    found = cross_validated(points)
    print("\n| held out | points | median | p90 | 80 % interval: factor | points inside |")
    print("|---|---|---|---|---|---|")
    for name, held, group in found.rows():
        print(f"| {name} | {len(held)} | {_errors(held)} | {_inside(held, group)} |")


def _errors(held: list[Held]) -> str:
    errors = 100 * np.abs([one.error for one in held])
    return f"{np.median(errors):.1f} % | {np.quantile(errors, 0.9):.1f} %"


def _inside(held: list[Held], group: object) -> str:
    from moeopt.reproduce.measured.crossvalidation import coverage, factor_holding

    assert group in (by_machine, by_curve)
    key = by_curve if group is by_curve else by_machine
    return f"{factor_holding(held, key):.3f} | {100 * coverage(held, key):.0f} %"


if __name__ == "__main__":
    main()
