"""How much of the gain that the balance equation predicts is there, and how much its rounding gets.

    python benchmarks/studies/balance_equation.py [--seeds 3] [--out DIR]

Edge GPU-NDP's four models on 2, 4 and 6 units, with slices of 1/N, 1/4N, 1/16N and 1/64N of an
expert. Decode, nothing resident: links of 16, 32, 64 and 128 GB/s, and units that reach 60, 80 and
100 % of their memory's bandwidth. Prefill of 512 tokens: units at 1, 16 and 64 times their stated
rate, `--seeds` prompts each. Slices are exact shares of an expert, so that padded columns do not
blur what finer slices bring. Every optimum is proven by `dp`.

One Markdown row per stage and slicing. The gains are in percent of the makespan of the better side
alone, all on the units or all on the GPU: as predicted by the equation's real solution, at the
optimum, and with the equation rounded to the best neighbouring number of slices; medians. Then by
how much the rounded equation exceeds the optimum, and how the prediction lies to the optimum. It is
no bound: E_g' charges computation that fine slices hide. Coarse slices do not attain it either.
With --out the last two are drawn to DIR/balance_equation.svg and .png (matplotlib, extra `report`).
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

import moeopt
from benchmarks.rooms.balance import (
    Instance,
    all_gpu,
    all_ndp,
    balance_equation,
    fluid_makespan,
    objective,
)
from moeopt import get_machine

MODELS = {
    "deepseek-moe-16b": "esft-deepseek-v2-lite",
    "qwen3-30b-a3b": "esft-deepseek-v2-lite",
    "phi-3.5-moe": "hdmoe-mixtral",
    "mixtral-8x7b": "hdmoe-mixtral",
}
"""Model -> synthetic workload, fitted to a trace of the same or of a similar model."""

UNITS = (2, 4, 6)
SLICES = (1, 4, 16, 64)
LINKS_GB_S = (16.0, 32.0, 64.0, 128.0)
REACHED = (0.6, 0.8, 1.0)
SPEEDUPS = (1.0, 16.0, 64.0)

HEADER = (
    "| stage | slices per unit | n | gain: predicted | optimum | rounded "
    "| rounded over optimum: median | p95 | max "
    "| prediction to optimum: least | median | most | below | above |\n"
    f"|---|{'---:|' * 13}"
)


@dataclass(frozen=True)
class Case:
    """Makespans of one instance, in ns."""

    one_side: int
    predicted: float
    optimum: int
    rounded: int


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="prompts per setting")
    parser.add_argument("--out", type=Path, help="folder for the figure")
    arguments = parser.parse_args()
    print(HEADER)
    cases: dict[tuple[str, int], list[Case]] = {}
    for stage, slices in product(("decode", "prefill"), SLICES):
        made = _decode(slices) if stage == "decode" else _prefill(slices, arguments.seeds)
        cases[stage, slices] = [_case(instance) for instance in made]
        print(_row(stage, slices, cases[stage, slices]), flush=True)
    if arguments.out:
        _draw(cases, arguments.out)


def _decode(slices: int) -> Iterator[Instance]:
    for model, units, gb_s, reached in product(MODELS, UNITS, LINKS_GB_S, REACHED):
        machine = get_machine(f"edge-gpu-ndp-{units}").with_ndp_rate(reached)
        read = reached * (machine.require("ndp").only("ndp").internal_gb_s or 0.0)
        changes = {"pcie.gb_s": gb_s, "ndp.internal_gb_s": read}
        machine = moeopt.set_machine(machine, changes)
        yield _generate(machine, model, stage="decode", slices_per_unit=slices)


def _prefill(slices: int, seeds: int) -> Iterator[Instance]:
    for model, units, speedup, seed in product(MODELS, UNITS, SPEEDUPS, range(seeds)):
        yield _generate(
            get_machine(f"edge-gpu-ndp-{units}"),
            model,
            stage="prefill",
            slices_per_unit=slices,
            ndp_speedup=speedup,
            seed=seed,
        )


def _generate(machine: object, model: str, **options: object) -> Instance:
    instance = moeopt.generate(
        "balance",
        machine=machine,
        model=model,
        workload=MODELS[model],
        quantum_ns=1,
        whole_columns=False,
        **options,
    )
    assert isinstance(instance, Instance)
    return instance


def _case(instance: Instance) -> Case:
    result = moeopt.solve(instance, "dp", time_limit_s=60)
    if result.status != "optimal":
        raise RuntimeError(f"{instance.name}: {result.status}, {result.objective}, {result.bound}")
    alone = (objective(instance, side(instance)) for side in (all_ndp, all_gpu))
    rounded = objective(instance, balance_equation(instance))
    return Case(min(alone), float(fluid_makespan(instance)), result.objective, rounded)


def _row(stage: str, slices: int, cases: Sequence[Case]) -> str:
    gains = [
        np.median([1 - getattr(case, name) / case.one_side for case in cases])
        for name in ("predicted", "optimum", "rounded")
    ]
    excess, off = _excess(cases), _off(cases)
    cells = [stage, str(slices), str(len(cases)), *(f"{100 * gain:.1f} %" for gain in gains)]
    cells += [f"{value:.2f} %" for value in np.quantile(excess, [0.5, 0.95, 1])]
    cells += [f"{value:+.2f} %" for value in np.quantile(off, [0, 0.5, 1])]
    cells += [str(int((off < 0).sum())), str(int((off > 0).sum()))]
    return f"| {' | '.join(cells)} |"


def _excess(cases: Sequence[Case]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return by how many percent the rounded equation exceeds the optimum."""
    return np.array([100 * (case.rounded / case.optimum - 1) for case in cases])


def _off(cases: Sequence[Case]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return by how many percent the prediction lies above the optimum, negative if below."""
    return np.array([100 * (case.predicted / case.optimum - 1) for case in cases])


def _draw(cases: dict[tuple[str, int], list[Case]], folder: Path) -> None:
    """Draw one panel per stage: boxes of both figures over the slicing."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, 2)
    kinds = (("rounded equation", _excess, "#4477aa"), ("prediction", _off, "#ccbb44"))
    for axis, stage in zip(axes, ("decode", "prefill"), strict=True):
        for shift, (_, of, colour) in zip((-0.18, 0.18), kinds, strict=True):
            boxes = axis.boxplot(
                [of(cases[stage, slices]) for slices in SLICES],
                positions=[place + shift for place in range(len(SLICES))],
                widths=0.3,
                whis=(0, 100),
                patch_artist=True,
                medianprops={"color": "black"},
            )
            for box in boxes["boxes"]:
                box.set_facecolor(colour)
        axis.axhline(0, color="#cc3311", linewidth=1)
        axis.set_xticks(range(len(SLICES)), [str(slices) for slices in SLICES])
        axis.set_title(stage, loc="left", fontsize="medium")
        axis.set_xlabel("slices per unit")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("% above the optimum")
    figure.legend(
        handles=[Patch(color=colour, label=label) for label, _, colour in kinds],
        loc="outside lower right",
        ncols=2,
        frameon=False,
    )
    folder.mkdir(parents=True, exist_ok=True)
    for suffix in ("svg", "png"):
        figure.savefig(folder / f"balance_equation.{suffix}", dpi=150)


if __name__ == "__main__":
    main()
