"""What do prefix order, layers' budgets and coarse widths cost? With proofs, on four model shapes.

    python benchmarks/studies/bitwidth_restrictions.py [--seeds N] [--bits 2,3] [--weight usage]

Prints two Markdown rows per model shape and average width. The measure is "free", the optimum with
one width per expert and one budget for the whole model, proven. Every column says by how many
percent a plan loses more than the free one:

- budget per layer: the optimum where each layer has its share of the budget;
- prefix order: `prefix-split` under layers' budgets; in brackets over the optimum under these;
- greedy: `greedy-marginal` under the model's budget;
- width per layer: the optimum with one width per layer, under the model's budget;
- width per model: the best single width; at a whole number of bits that is the average.

Losses judged on the prompt count by the prompt's usage of experts, which the plans were made for.
Judged on decoded tokens, the same plans are held out: losses count by the usage of the tokens after
the prompt. Figures are medians over the seeds. Losses are by the law that is fitted to measured
ones (`moeopt/sim/models/loss_table.py`); routing is synthetic.
"""

import argparse
from statistics import median
from typing import Any

import moeopt
from benchmarks.rooms.bitwidth import Solution, objective

SHAPES = {
    "mixtral-8x7b": {"workload": "hdmoe-mixtral", "gpu_experts": 4},
    "deepseek-v2-lite": {"workload": "esft-deepseek-v2-lite"},
    "glm-4.5-air": {"workload": "trimoe-skew", "layers": 12},
    "deepseek-v3": {"workload": "trimoe-skew", "layers": 8},
}
"""Model -> workload, and how many of its layers are generated."""

PLANS = {
    "budget per layer": ({"budget": "layer"}, "dp"),
    "prefix order": ({"budget": "layer"}, "prefix-split"),
    "greedy": ({"budget": "model"}, "greedy-marginal"),
    "width per layer": ({"budget": "model", "granularity": "layer"}, "dp"),
    "width per model": ({"budget": "model", "granularity": "model"}, "dp"),
}
"""Column -> options of the generator, and method."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bits", default="2,3", help="average widths, comma-separated")
    parser.add_argument("--weight", choices=["usage", "none"], default="usage")
    arguments = parser.parse_args()
    columns = ["model", "layers x experts", "bits", "judged on", *PLANS]
    print(f"| {' | '.join(columns)} |\n|---|---|---|---|{'---:|' * len(PLANS)}")
    for model, shape in SHAPES.items():
        for bits in (float(width) for width in arguments.bits.split(",")):
            common = {"model": model, "average_bits": bits, "weight": arguments.weight} | shape
            rows = [compare(common | {"seed": seed}) for seed in range(arguments.seeds)]
            for phase in ("prompt", "decoded tokens"):
                cells = [model, rows[0]["size"], f"{bits:g}", phase]
                cells += [_cell(rows, phase, plan) for plan in PLANS]
                print(f"| {' | '.join(cells)} |", flush=True)


def compare(common: dict[str, Any]) -> dict[str, Any]:
    """Return size, and per phase the excess of every plan over the free optimum of that phase."""
    free = {
        "prompt": _generate(common | {"budget": "model"}),
        "decoded tokens": _generate(common | {"budget": "model", "phase": "decode"}),
    }
    layers = free["prompt"].layers
    row: dict[str, Any] = {"size": f"{len(layers)} x {len(layers[0].experts)}"}
    decided = _solved(free["prompt"], "dp")
    plans = {
        name: _solved(_generate(common | options), method)
        for name, (options, method) in PLANS.items()
    }
    for phase, instance in free.items():
        base = objective(instance, decided)
        row[phase] = {name: objective(instance, plan) / base - 1 for name, plan in plans.items()}
    return row


def _generate(options: dict[str, Any]) -> Any:
    return moeopt.generate("bitwidth", machine="cxl-ndp", **options)


def _solved(instance: Any, method: str) -> Solution:
    """Return a method's solution; from dp only with its proof."""
    result = moeopt.solve(instance, method)
    if result.solution is None or (method == "dp" and result.status != "optimal"):
        raise SystemExit(f"{instance.name}: {method}: {result.status}")
    return result.solution  # type: ignore[no-any-return]


def _cell(rows: list[dict[str, Any]], phase: str, plan: str) -> str:
    text = f"{100 * median(row[phase][plan] for row in rows):.1f} %"
    if plan == "prefix order":
        over = [(1 + row[phase][plan]) / (1 + row[phase]["budget per layer"]) - 1 for row in rows]
        text += f" ({100 * median(over):.1f})"
    return text


if __name__ == "__main__":
    main()
