"""Does a count per layer beat the best uniform count? With proofs, on KTransformers' six models.

    python benchmarks/studies/deferral_per_layer.py [--seeds N] [--variations 0,0.1,0.3]

Prints one Markdown row per configuration and coefficient of variation of the layers' times, at a
resolution of 1 ns. Everything is compared with exact Pareto fronts. No count per layer is faster
than all uniform ones: deferring as many as possible everywhere reaches the least makespan T*. The
columns say what counts per layer gain otherwise:

- the count that `saturate` picks, and the published one; how much slower it is than T*;
- the largest cut of the makespan at the penalty of `saturate`;
- the largest cut of the penalty at the makespan of `saturate`;
- the least uniform count that reaches T*, and the largest cut of its penalty at T*;
- the least penalty within 1 % of T*, over that of `saturate`;
- T* per layer, and next to it the time per layer of an endless pipeline with the same counts.

Figures are medians over the seeds, with the largest in brackets; "-" is nothing to divide by.
"""

import argparse
from collections.abc import Mapping, Sequence
from statistics import median

import moeopt
from benchmarks.papers.ktransformers.cycle import cycle_ns
from moeopt.problems.deferral.bounds import finished
from moeopt.problems.deferral.check import objective
from moeopt.problems.deferral.generate import PUBLISHED, Configuration
from moeopt.problems.deferral.heuristics import saturate, uniform
from moeopt.problems.deferral.instance import Instance

TOLERANCE = 0.01

SHARES = {
    "slower": "`saturate` over T*",
    "faster": "makespan cut at its penalty",
    "cheaper": "penalty cut at its makespan",
    "at_least": "penalty cut at T*",
    "tolerant": "penalty within 1 % / its",
}
"""Figures given in percent, and their columns."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="per variation; 1 without variation")
    parser.add_argument("--variations", default="0,0.1,0.3", help="comma-separated")
    arguments = parser.parse_args()
    columns = ["model", "cv", "picks", *SHARES.values(), "uniform at T*", "T*", "endless"]
    print(f"| {' | '.join(columns)} |\n|---|{'---:|' * (len(columns) - 1)}")
    for configuration in PUBLISHED:
        for variation in (float(cv) for cv in arguments.variations.split(",")):
            seeds = range(arguments.seeds if variation else 1)
            rows = [_compare(_instance(configuration, variation, seed)) for seed in seeds]
            cells = [f"{configuration.model} {configuration.precision}", f"{variation:g}"]
            cells.append(f"{_counts(rows, 'picks')} ({configuration.published})")
            cells += [_percent([row[share] for row in rows]) for share in SHARES]
            cells.append(_counts(rows, "uniform"))
            cells += [f"{median(row[k] for row in rows) / 1e6:.3f} ms" for k in ("t", "endless")]
            print(f"| {' | '.join(cells)} |", flush=True)


def _instance(configuration: Configuration, variation: float, seed: int) -> Instance:
    made = moeopt.generate(
        "deferral",
        machine=configuration.machine,
        model=configuration.model,
        precision=configuration.precision,
        variation=variation,
        seed=seed,
        quantum_ns=1,
    )
    assert isinstance(made, Instance)
    return made


def _compare(instance: Instance) -> dict[str, float]:
    """Return the figures of one instance; NaN where there is nothing to divide by."""
    result = moeopt.solve(instance, "dp")
    if result.status != "optimal":
        raise SystemExit(f"{instance.name}: not proven")
    least_ns, penalty = result.objective
    counts = range(instance.max_deferred + 1)
    uniform_at = [objective(instance, uniform(instance, d)) for d in counts]
    first = next(d for d in counts if uniform_at[d][0] == least_ns)
    picked = saturate(instance).deferred[0]
    rule_ns, rule_penalty = uniform_at[picked]
    front = finished(instance, uniform_at[0][0], None, lambda: False)
    fastest = min(f.makespan_ns for f in front if f.penalty <= rule_penalty)
    cheapest = min(f.penalty for f in front if f.makespan_ns <= rule_ns)
    tolerant = min(f.penalty for f in front if f.makespan_ns <= (1 + TOLERANCE) * least_ns)
    return {
        "picks": picked,
        "uniform": first,
        "slower": rule_ns / least_ns - 1,
        "faster": 1 - fastest / rule_ns,
        "cheaper": _cut(cheapest, rule_penalty),
        "at_least": _cut(penalty, uniform_at[first][1]),
        "tolerant": 1 - _cut(tolerant, rule_penalty),
        "t": least_ns / instance.layers,
        "endless": float(cycle_ns(instance, result.solution.deferred)) / instance.layers,
    }


def _cut(value: int, reference: int) -> float:
    return 1 - value / reference if reference else float("nan")


def _counts(rows: Sequence[Mapping[str, float]], key: str) -> str:
    return "/".join(f"{count:g}" for count in sorted({row[key] for row in rows}))


def _percent(shares: Sequence[float]) -> str:
    known = [share for share in shares if share == share]
    if not known:
        return "-"
    middle = f"{100 * median(known):.1f} %"
    return middle if len(shares) == 1 else f"{middle} ({100 * max(known):.1f})"


if __name__ == "__main__":
    main()
