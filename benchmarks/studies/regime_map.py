"""Where TriMoE's scheduler is optimal and where it is not: excess over skew, cold cut and batch.

    python benchmarks/studies/regime_map.py [--model deepseek-v2] [--seeds 6] [--figure FILE.svg]

Synthetic loads of a rank law with stated skew (the r-th most popular of E experts has popularity
exp(-skew * r / E)), the layout decided by the cold cut on an offline trace of the same law, every
optimum proven by `threshold`. Prints one Markdown table per batch: median excess in per cent, rows
by skew, columns by cold cut. Beside each skew stands what the coldest 70 % of the experts hold: 8 %
in TriMoE's workloads (3.1), 40 to 49 % in the real traces of DeepSeek-V2-Lite.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

import moeopt
from moeopt.sim.traces.statistics.loads import cold_share
from moeopt.sim.traces.workload import Workload

SKEWS = (2.0, 3.0, 4.0, 6.0, 8.5, 11.0)
CUTS = (
    *("tokens 0.08", "experts 0.15", "experts 0.27", "experts 0.4"),
    *("experts 0.55", "experts 0.7", "experts 0.85"),
)
BATCHES = (64, 256, 512)
DRIFT = 0.3
"""As in the preset `trimoe-skew`."""


@dataclass(frozen=True)
class Map:
    """Median excess of TriMoE's scheduler.

    Attributes
    ----------
    excess
        Shape (batches, skews, cuts).
    cold
        What the coldest 70 % of the experts hold, shape (skews,).
    unproven
        How many of the optima are not proven.
    """

    excess: NDArray[np.float64]
    cold: NDArray[np.float64]
    unproven: int


def regime_map(model: str = "deepseek-v2", seeds: int = 6) -> Map:
    """Return the excess over the whole grid."""
    excess = np.zeros((len(BATCHES), len(SKEWS), len(CUTS)))
    cold, unproven = np.zeros(len(SKEWS)), 0
    for row, skew in enumerate(SKEWS):
        law = Workload(name=f"skew-{skew:g}", skew=skew, drift=DRIFT, source="stated law")
        shares = []
        for (at, batch), (column, cut) in product(enumerate(BATCHES), enumerate(CUTS)):
            found = []
            for seed in range(seeds):
                instance = moeopt.generate(
                    "tri_domain",
                    machine="trimoe",
                    model=model,
                    workload=law,
                    batch=batch,
                    cold_cut=cut,
                    seed=seed,
                )
                rule, best = (moeopt.solve(instance, method=m) for m in ("trimoe", "threshold"))
                unproven += best.status != "optimal"
                found.append(rule.objective / best.objective - 1)
                loads = np.zeros(len(instance.provenance["layout_loads"]["last step"]), np.int64)
                for expert in instance.experts:
                    loads[expert.expert] = expert.tokens
                shares.append(float(cold_share(loads)))
            excess[at, row, column] = median(found)
        cold[row] = np.mean(shares)
    return Map(excess, cold, unproven)


def to_markdown(found: Map) -> str:
    """Return one table per batch."""
    lines = []
    for at, batch in enumerate(BATCHES):
        lines += [
            f"Batch {batch}: median excess of `trimoe` over the proven optimum, in per cent",
            "",
            f"| skew | coldest 70 % hold | {' | '.join(CUTS)} |",
            f"|---:|---:|{'---:|' * len(CUTS)}",
        ]
        for row, skew in enumerate(SKEWS):
            cells = " | ".join(f"{100 * value:.1f}" for value in found.excess[at, row])
            lines.append(f"| {skew:g} | {100 * found.cold[row]:.0f} % | {cells} |")
        lines.append("")
    return "\n".join(lines)


def draw(found: Map, path: Path) -> None:
    """Write the tables as heat maps side by side; needs the extra `report`."""
    from matplotlib.figure import Figure

    from moeopt.study.pictures import save_figure

    figure = Figure(figsize=(11, 3.8), layout="constrained")
    axes: Sequence = figure.subplots(1, len(BATCHES), sharey=True)
    percent = 100 * found.excess
    for at, (axis, batch) in enumerate(zip(axes, BATCHES, strict=True)):
        image = axis.pcolormesh(percent[at], vmin=0, vmax=percent.max(), cmap="cividis_r")
        axis.set_title(f"batch {batch}", fontsize="medium")
        middles = np.arange(max(len(CUTS), len(SKEWS))) + 0.5
        axis.set_xticks(
            middles[: len(CUTS)], [c.replace(" ", "\n") for c in CUTS], fontsize="x-small"
        )
        axis.set_yticks(
            middles[: len(SKEWS)],
            [f"{s:g} ({100 * c:.0f} %)" for s, c in zip(SKEWS, found.cold, strict=True)],
            fontsize="x-small",
        )
        for row, column in product(range(len(SKEWS)), range(len(CUTS))):
            value = percent[at, row, column]
            ink = "white" if value > percent.max() / 2 else "black"
            where = (column + 0.5, row + 0.5)
            axis.text(*where, f"{value:.0f}", ha="center", va="center", color=ink)
    axes[0].invert_yaxis()  # shared by all
    axes[0].set_ylabel("skew (coldest 70 % hold)")
    figure.supxlabel("which experts the layout calls cold", fontsize="small")
    figure.colorbar(image, ax=axes, label="median excess of TriMoE's schedule, %")
    save_figure(figure, path)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="deepseek-v2")
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--figure", type=Path, help="also draw it: .svg, .png or .pdf")
    arguments = parser.parse_args()
    found = regime_map(arguments.model, arguments.seeds)
    print(to_markdown(found), end="")
    print(f"{found.unproven} of the optima are not proven.")
    if arguments.figure is not None:
        draw(found, arguments.figure)


if __name__ == "__main__":
    main()
