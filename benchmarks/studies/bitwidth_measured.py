"""What the prefix order costs on measured losses, and on the law that is fitted to them.

    python benchmarks/studies/bitwidth_measured.py LOSSES --traces DIR

LOSSES is a table of measured losses of Mixtral-8x7B's experts at 1 to 3 bits, DIR holds
``hdmoe_mixtral_8x7b/*.npz``. Each trace orders the experts by its first half and weighs their
losses by it; four experts a layer are on the GPU, as in the paper, or none.
Excess over the proven optimum of each layer's budget: median over traces and average widths [95 %
interval, drawn over traces], and maximum. The second table has what restrictions cost against one
budget for the model and widths that are free, all of them optimal.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import moeopt
from benchmarks.rooms.bitwidth import Instance, objective
from benchmarks.rooms.core import entries
from benchmarks.rooms.sim import Trace, read_trace
from benchmarks.rooms.study import interval

RULES = ("prefix-split", "greedy-marginal", "uniform")
AVERAGES = (1.5, 2.0, 2.5)
FREE = {"budget": "model"}
PLANS = {
    "a budget per layer": {"budget": "layer"},
    "a width per layer": FREE | {"granularity": "layer"},
    "one width": FREE | {"granularity": "model"},
}
"""Restriction -> options of the generator."""

Options = dict[str, str | Path | float | int]


def main() -> None:
    """Print a row per kind of losses and number of experts on the GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("losses", type=Path)
    parser.add_argument("--traces", type=Path, required=True)
    arguments = parser.parse_args()
    files = sorted((arguments.traces / "hdmoe_mixtral_8x7b").glob("*.npz"))
    print(f"| losses | experts on the GPU | {' | '.join(f'`{rule}`' for rule in RULES)} |")
    print(f"|---|---:|{'---|' * len(RULES)}")
    for name, options in (("measured", {"loss_table": arguments.losses}), ("fitted law", {})):
        for gpu in (4, 0):
            found = [one for file in files for one in excesses(file, gpu, options)]
            cells = [cell([(t, of[rule]) for t, of in found]) for rule in RULES]
            print(f"| {name} | {gpu} | {' | '.join(cells)} |", flush=True)
    print(f"\n| losses | {' | '.join(PLANS)} |\n|---|{'---|' * len(PLANS)}")
    for name, options in (("measured", {"loss_table": arguments.losses}), ("fitted law", {})):
        found = [one for file in files for one in prices(file, options)]
        cells = [cell([(t, of[plan]) for t, of in found]) for plan in PLANS]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def excesses(
    file: Path, gpu: int, options: dict[str, Path]
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the trace's name and each rule's excess, by average width."""
    trace = read_trace(file)
    for average in AVERAGES:
        instance = made(trace, {"gpu_experts": gpu, "average_bits": average} | options)
        best = cost(instance, "dp")
        yield trace.name, {rule: cost(instance, rule) / best - 1 for rule in RULES}


def prices(file: Path, options: dict[str, Path]) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the trace's name and each restriction's price at an average of 2 bits."""
    trace = read_trace(file)
    common = {"average_bits": 2.0} | options
    free = made(trace, common | FREE)
    best = cost(free, "dp")
    found = {}
    for name, plan in PLANS.items():
        solution = moeopt.solve(made(trace, common | plan), "dp").solution
        found[name] = entries(objective(free, solution))[0] / best - 1
    yield trace.name, found


def made(trace: Trace, options: Options) -> Instance:
    """Return the instance of a trace."""
    common = {"machine": "cxl-ndp", "model": "mixtral-8x7b", "bits": "1,2,3"}
    return moeopt.generate("bitwidth", trace=trace, **common, **options)


def cost(instance: Instance, method: str) -> int:
    """Return what a method's widths lose."""
    return entries(moeopt.solve(instance, method).objective or 0)[0]


def cell(found: list[tuple[str, float]]) -> str:
    """Return median, interval if the traces suffice for one, and maximum."""
    values = [value for _, value in found]
    ends = interval(values, [trace for trace, _ in found])
    within = "" if ends is None else f" [{' to '.join(f'{100 * end:.1f}' for end in ends)}]"
    return f"{100 * median(values):.1f}{within} / {100 * max(values):.1f} %"


if __name__ == "__main__":
    main()
