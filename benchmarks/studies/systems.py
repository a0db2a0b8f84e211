"""The published systems side by side: by batch on TriMoE's machine, then on four machines.

    python benchmarks/studies/systems.py batch --traces DIR [--picture docs/systems.svg]
    python benchmarks/studies/systems.py machines --traces DIR

`batch`: DeepSeek-V2-Lite on `trimoe`, one token of each request at a step, 512 tokens in and out,
32 steps of 26 layers, on ESFT's three traces; room for one in eight experts on the GPU. A cell is
a decode step over the same step with the best residents, layout and schedule that each layer and
step could have (`SystemComparison.ceiling_ms`): the least, median and most of the traces. Systems
that cut experts may be below 1.

`machines`: decode steps in ms at 64 requests of two models on the papers' four machines.
"""

import argparse
from pathlib import Path
from statistics import median

import moeopt

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


def everywhere(traces: Path) -> None:
    """Print a row for each system, a column for each machine and model."""
    found: dict[str, list[str]] = {}
    for model, file in MODELS.items():
        for machine in MACHINES:
            one = moeopt.compare(machine, model, traces / file, batch=64, steps=16, exact="none")
            for row in one.rows:
                shown = "-" if row.mean_ms is None else f"{row.mean_ms:.1f}"
                found.setdefault(row.system, []).append(shown)
    heads = [f"{model}, `{machine}`" for model in MODELS for machine in MACHINES]
    print(f"| system | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}")
    for name, shown in found.items():
        print(f"| `{name}` | {' | '.join(shown)} |")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("batch", "machines"))
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    if options.what == "batch":
        by_batch(options.traces, options.picture)
    else:
        everywhere(options.traces)


if __name__ == "__main__":
    main()
