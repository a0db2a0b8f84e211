"""Where the balance equation is exact and where it is not: excess over speed ratio and spread.

    python benchmarks/studies/balance_regimes.py [--seeds N] [--units N] [--figure FILE.svg]

One layer of a prompt of 512 tokens on DeepSeek-MoE's experts: 64, top-6, and two shared ones. Rows
are the spread of the loads: the r-th most popular of E experts has popularity exp(-skew * r / E),
and beside it stands what share of the choices the most popular tenth gets. Columns are how fast the
units compute, in multiples of the stated rate (`ndp_speedup`; the published prefill speedups imply
64 to 256), and what an average expert takes on the link over what it takes on the units, T_w / T_n.
Prints one Markdown table per reading of the equations' times (settlement `balance_times`): median
and largest excess of `balance-equation` over the proven optimum, in per cent. With --figure the
medians are drawn as heat maps (extra `report`).
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import moeopt
from benchmarks.rooms.balance import Instance
from benchmarks.rooms.sim import Workload

SKEWS = (0.0, 1.0, 2.0, 4.0, 8.5)
SPEEDUPS = (1.0, 4.0, 16.0, 64.0, 256.0)
READINGS = ("mean", "own")
MODEL, ROUTED = "deepseek-moe-16b", 64
SLICES = 4
"""Per unit."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Regimes:
    """Excess of the balance equation over the optimum.

    Attributes
    ----------
    median, largest
        Over the seeds, shape (readings, skews, speedups), as shares.
    hottest
        What share of the routed experts' choices the most popular tenth gets, shape (skews,).
    ratio
        T_w / T_n of the average expert, shape (skews, speedups).
    unproven
        How many optima are not proven.
    """

    median: Floats
    largest: Floats
    hottest: Floats
    ratio: Floats
    unproven: int


def regimes(
    seeds: int = 5,
    units: int = 6,
    skews: Sequence[float] = SKEWS,
    speedups: Sequence[float] = SPEEDUPS,
) -> Regimes:
    """Return the excess over the whole grid, with `seeds` prompts per cell."""
    excess = np.zeros((len(READINGS), len(skews), len(speedups), seeds))
    hottest, ratio = np.zeros((len(skews), seeds)), np.zeros((len(skews), len(speedups), seeds))
    unproven = 0
    grid = product(enumerate(skews), enumerate(speedups), range(seeds))
    for (row, skew), (column, speedup), seed in grid:
        instance = _prompt(units, skew, speedup, seed)
        best = moeopt.solve(instance, "dp")
        unproven += best.status != "optimal"
        for at, reading in enumerate(READINGS):
            found = moeopt.solve(instance, f"balance-equation[balance_times={reading}]")
            excess[at, row, column, seed] = found.objective / best.objective - 1
        hottest[row, seed] = _hottest(instance)
        ratio[row, column, seed] = _ratio(instance)
    return Regimes(
        np.median(excess, axis=3),
        excess.max(axis=3),
        hottest.mean(axis=1),
        ratio.mean(axis=2),
        unproven,
    )


def _prompt(units: int, skew: float, speedup: float, seed: int) -> Instance:
    law = Workload(name=f"skew-{skew:g}", skew=skew, drift=0.0, source="stated law")
    instance = moeopt.generate(
        "balance",
        machine=f"edge-gpu-ndp-{units}",
        model=MODEL,
        workload=law,
        seed=seed,
        stage="prefill",
        slices_per_unit=SLICES,
        ndp_speedup=speedup,
    )
    assert isinstance(instance, Instance)
    return instance


def _hottest(instance: Instance) -> float:
    loads = sorted((e.tokens for e in instance.experts if e.expert < ROUTED), reverse=True)
    return sum(loads[: ROUTED // 10]) / sum(loads)


def _ratio(instance: Instance) -> float:
    """Return T_w / T_n with the mean T_n."""
    ndp = np.mean([e.slice_ndp_ns for e in instance.experts]) * instance.slices_per_unit
    return float(instance.slice_transfer_ns * instance.slices / ndp)


def to_markdown(found: Regimes, skews: Sequence[float], speedups: Sequence[float]) -> str:
    """Return one table per reading."""
    lines = []
    for at, reading in enumerate(READINGS):
        heads = [
            f"{speedup:g} x (T_w / T_n {ratio:.2g})"
            for speedup, ratio in zip(speedups, found.ratio.mean(axis=0), strict=True)
        ]
        lines += [
            f"`balance_times={reading}`: median / largest excess in per cent",
            "",
            f"| skew (hottest tenth gets) | {' | '.join(heads)} |",
            f"|---|{'---:|' * len(heads)}",
        ]
        for row, skew in enumerate(skews):
            pairs = zip(found.median[at, row], found.largest[at, row], strict=True)
            cells = " | ".join(f"{100 * middle:.1f} / {100 * most:.1f}" for middle, most in pairs)
            lines.append(f"| {skew:g} ({100 * found.hottest[row]:.0f} %) | {cells} |")
        lines.append("")
    return "\n".join(lines)


def draw(found: Regimes, skews: Sequence[float], speedups: Sequence[float], path: Path) -> None:
    """Write the medians as heat maps side by side; needs the extra `report`."""
    from matplotlib.figure import Figure

    from benchmarks.rooms.study import save_figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, len(READINGS), sharey=True)
    percent = 100 * found.median
    words = {"mean": "one mean time for all", "own": "each expert's own"}
    for at, (axis, reading) in enumerate(zip(axes, READINGS, strict=True)):
        image = axis.imshow(percent[at], vmin=0, vmax=percent.max(), cmap="cividis_r")
        axis.set_title(words[reading], fontsize="medium")
        axis.set_xticks(
            range(len(speedups)),
            [f"{s:g}\n({r:.2g})" for s, r in zip(speedups, found.ratio.mean(axis=0), strict=True)],
            fontsize="small",
        )
        axis.set_yticks(
            range(len(skews)),
            [f"{s:g} ({100 * h:.0f} %)" for s, h in zip(skews, found.hottest, strict=True)],
            fontsize="small",
        )
        for row, column in product(range(len(skews)), range(len(speedups))):
            value = percent[at, row, column]
            ink = "white" if value > percent.max() / 2 else "black"
            axis.text(column, row, f"{value:.0f}", ha="center", va="center", color=ink)
    axes[0].set_ylabel("skew (hottest tenth gets)")
    figure.supxlabel("rate of the units over the stated one (T_w / T_n)", fontsize="small")
    figure.colorbar(image, ax=axes, label="median excess of the balance equation, %")
    save_figure(figure, path)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="prompts per cell")
    parser.add_argument("--units", type=int, default=6, choices=(2, 4, 6))
    parser.add_argument("--figure", type=Path, help="also draw it: .svg, .png or .pdf")
    arguments = parser.parse_args()
    found = regimes(arguments.seeds, arguments.units)
    print(to_markdown(found, SKEWS, SPEEDUPS), end="")
    print(f"{found.unproven} of the optima are not proven.")
    if arguments.figure is not None:
        draw(found, SKEWS, SPEEDUPS, arguments.figure)


if __name__ == "__main__":
    main()
