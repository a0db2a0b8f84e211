"""The published systems side by side: by batch on TriMoE's machine, then on four machines.

    python benchmarks/studies/systems.py batch --traces DIR [--picture docs/systems.svg]
    python benchmarks/studies/systems.py machines --traces DIR [--batch 64] [--steps 16]

`batch`: DeepSeek-V2-Lite on `trimoe`, one token of each request at a step, 512 tokens in and out,
32 steps of 26 layers, on ESFT's three traces; room for one in eight experts on the GPU. A cell is
a decode step over the same step with the best residents, layout and schedule that each layer and
step could have (`SystemComparison.ceiling_ms`): the least, median and most of the traces. Systems
that cut experts may be below 1.

`machines`: decode steps in ms of two models on the papers' four machines, by an oracle in brackets;
CPU seconds of each comparison. It ends with an error where an oracle is above what was executed in
a cell, a device or link is busier than the clock, or a sum over cells or layers is not the whole.
"""

import argparse
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np

import moeopt
from benchmarks.rooms.systems import Compared

BATCHES = (16, 64, 256, 512)
TRACES = ("law", "intent", "summary")
MACHINES = ("trimoe", "ktransformers-a100", "edge-gpu-ndp-6", "cxl-ndp")
MODELS = {
    "deepseek-v2-lite": "esft_deepseek_v2_lite/summary.npz",
    "mixtral-8x7b": "hdmoe_mixtral_8x7b/writing.npz",
}
SHOWN = ("trimoe", "edge-gpu-ndp", "monde", "enhanced-ktransformers", "collaborative")
SHOWN += ("ktransformers", "fiddler", "llama.cpp", "klotski", "hobbit")


def by_batch(traces: Path, picture: Path | None) -> None:
    """Print a row for each system, a column for each batch."""
    found: dict[str, dict[int, list[float]]] = {}
    for batch in BATCHES:
        for name in TRACES:
            file = traces / "esft_deepseek_v2_lite" / f"{name}.npz"
            one = moeopt.compare(
                "trimoe", "deepseek-v2-lite", file, batch=batch, steps=32, systems=SHOWN
            )
            for row in one.rows:
                if row.mean_ms is None or one.ceiling_ms is None:
                    continue
                share = row.mean_ms / one.ceiling_ms
                found.setdefault(row.system, {}).setdefault(batch, []).append(share)
                oracle = row.at_optimum_ms("oracle")
                if oracle is not None and row.system == "trimoe":
                    known = found.setdefault("trimoe, by an oracle", {})
                    known.setdefault(batch, []).append(oracle / one.ceiling_ms)
    print(f"| system | {' | '.join(f'{batch} requests' for batch in BATCHES)} |")
    print("|---|" + "---:|" * len(BATCHES))
    for name, of in found.items():
        print(f"| `{name}` | {' | '.join(cell(of[batch]) for batch in BATCHES)} |")
    if picture is not None:
        draw(found, picture)


def cell(shares: list[float]) -> str:
    """Return the median, and least and most, as an excess in percent."""
    least, middle, most = (100 * (of(shares) - 1) for of in (min, median, max))
    return f"{middle:,.0f} [{least:,.0f}, {most:,.0f}] %".replace("[-0,", "[0,")


def draw(found: dict[str, dict[int, list[float]]], picture: Path) -> None:
    """Draw a line for each system: excess over batch."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    for number, name in enumerate(name for name in found if name in SHOWN):
        of = found[name]
        values = [100 * (median(of[batch]) - 1) for batch in BATCHES]
        style = {"marker": "os^vDPX*<>"[number % 10], "color": f"C{number % 10}"}
        axes.plot(BATCHES, values, label=name, linestyle="-" if number < 6 else "--", **style)
    axes.set_xscale("log", base=2)
    axes.set_xticks(BATCHES, [str(batch) for batch in BATCHES])
    axes.set_yscale("symlog", linthresh=10)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.set_xlabel("requests decoded together")
    axes.set_ylabel("decode step over the best, %")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(picture)


def everywhere(traces: Path, batch: int, steps: int) -> None:
    """Print a row for each system, a column for each machine and model."""
    found: dict[str, list[str]] = {}
    cells, seconds = 0, []
    for model, file in MODELS.items():
        for machine in MACHINES:
            begin = process_time()
            one = moeopt.compare(machine, model, traces / file, batch=batch, steps=steps)
            seconds.append(f"{process_time() - begin:.0f}")
            for row in one.rows:
                cells += checked(row, f"{row.system}, {model} on {machine}")
                shown = "-" if row.mean_ms is None else f"{row.mean_ms:.1f}"
                oracle = row.at_optimum_ms("oracle")
                found.setdefault(row.system, []).append(
                    shown if oracle is None else f"{shown} ({oracle:.1f})"
                )
    heads = [f"{model}, `{machine}`" for model in MODELS for machine in MACHINES]
    print(f"| system | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}")
    for name, shown in found.items():
        print(f"| `{name}` | {' | '.join(shown)} |")
    print(f"| CPU s | {' | '.join(seconds)} |")
    print(f"\n{cells} oracles, none above what was executed")


def checked(row: Compared, where: str) -> int:
    """Check a row; return how many of its oracles were compared with what was executed."""
    if row.run is None:
        return 0
    busiest = max(row.run.busy, key=lambda name: row.run.busy[name])
    if row.run.busy[busiest] > 1:
        raise SystemExit(f"{where}: {busiest} is busier than the clock")
    if (row.run.step_ns <= row.run.layer_ns.sum(axis=1)).any():
        raise SystemExit(f"{where}: layers take longer than their step")
    best = row.optimum
    if best is None or best.oracle_ns is None:
        return 0
    for layer in sorted(set(best.layer)):
        at = np.array(best.layer) == layer
        kept = sum(cell.experts_ns for cell in row.run.cells if cell.layer == layer)
        if np.array(best.executed_ns)[at].sum() != kept:
            raise SystemExit(f"{where}: what cells of layer {layer} took is not their sum")
    if (np.array(best.oracle_ns) > np.array(best.executed_ns)).any():
        raise SystemExit(f"{where}: an oracle is above what was executed")
    return len(best.oracle_ns)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("batch", "machines"))
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--batch", type=int, default=64, help="requests of machines")
    parser.add_argument("--steps", type=int, default=16, help="decode steps of machines")
    options = parser.parse_args()
    if options.what == "batch":
        by_batch(options.traces, options.picture)
    else:
        everywhere(options.traces, options.batch, options.steps)


if __name__ == "__main__":
    main()
