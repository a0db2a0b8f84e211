"""Migrations decided on predicted loads and executed on those that came, on the library's pairs.

    python benchmarks/studies/robust_relayout.py [--time-limit S] [--seeds N]

The instances of the family ``actual`` have the loads that came, those of ``paper-scale`` with the
same name the loads that TriMoE's predictor expected (Eq. 8); both are made again from their
provenance, with the eight steps before that method ``robust`` forecasts from. Every layer has its
best schedule. Prints a Markdown table of the excess over the proven optimum in hindsight.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import moeopt
from benchmarks.rooms.relayout import Instance, execute

LIBRARY = Path(__file__).parents[2] / "instances" / "relayout"
METHODS = ("none", "benefit-greedy", "benefit-makespan", "evacuation", "robust")


def library_pairs() -> Iterator[tuple[Instance, Instance, int]]:
    """Yield the library's pairs: loads predicted, with the steps before, actual, and the optimum.

    GLM-4.5-Air's are left out: they repeat Qwen3-235B's.
    """
    best = json.loads((LIBRARY / "best_known.json").read_text())
    for name, entry in best.items():
        if not name.startswith("actual/") or "glm" in name or entry["status"] != "optimal":
            continue
        actual: Any = moeopt.load(LIBRARY / name)
        told = actual.provenance
        options = {key: value for key, value in told["options"].items() if value is not None}
        predicted = moeopt.generate(
            "relayout",
            machine=told["machine"],
            model=told["model"],
            workload="trimoe-skew",
            seed=told["seed"],
            **options | {"loads": "predicted", "observed": True},
        )
        assert isinstance(predicted, Instance)
        yield predicted, actual, entry["objective"]


def table(time_limit_s: float, seeds: int) -> Iterator[str]:
    """Yield the table of migrations decided on predicted loads and executed on the actual ones."""
    found: dict[str, list[float]] = {}
    for predicted, actual, optimum_ns in library_pairs():
        for method in METHODS:
            for seed in range(seeds if method == "robust" else 1):
                result = moeopt.solve(predicted, method, time_limit_s=time_limit_s, seed=seed)
                decision: Any = result.solution
                if decision is not None:
                    span = execute(actual, decision.migrations).makespan_ns
                    found.setdefault(method, []).append(span / optimum_ns - 1)
    yield "| decided by | decisions | median | upper quartile | maximum |"
    yield "|---|---:|---:|---:|---:|"
    for method, excess in found.items():
        shares = np.quantile(excess, [0.5, 0.75, 1.0])
        cells = " | ".join(f"{100 * share:.1f} %" for share in shares)
        yield f"| `{method}` | {len(excess)} | {cells} |"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds per decision")
    parser.add_argument("--seeds", type=int, default=3, help="of method robust")
    arguments = parser.parse_args()
    for line in table(arguments.time_limit, arguments.seeds):
        print(line)


if __name__ == "__main__":
    main()
