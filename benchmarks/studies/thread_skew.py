"""Problem `threads`: by how much a queue of parts beats a static schedule, over skew of routing.

    python benchmarks/studies/thread_skew.py [--tokens 8192] [--seeds 3] [--traces DIR]

DeepSeek-V2-Lite's prompts on one socket of `ktransformers-a100`, in layers of synthetic routing
from even to TriMoE's skew, at both rates with which a core may load an expert's input. A layer
takes its two batches, gate and up and then down. With real traces, four layers of each of ESFT's.

One Markdown row per routing and rate: the time of `static` over that of `dynamic`, least to most;
and how far `dynamic`, `lpt` and `fill` are above the lower bound, in percent, at most. The paper of
KTransformers (3.2) has 1.83 at most for prompts.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import moeopt
from benchmarks.rooms.sim import Workload

SKEWS = (0.0, 1.0, 2.0, 4.0, 8.5)
RATES_GB_S = (20.0, 60.0)
TRACES = ("law", "intent", "summary")
LAYERS = (0, 4, 12, 17)
METHODS = ("static", "dynamic", "lpt", "fill")
WORK = 1.0
"""Units that `fill` has for each batch."""

HEADER = (
    "| routing | GB/s | layers | static / dynamic | dynamic | lpt | fill |\n|---|---:|---:|---:|"
    "---:|---:|---:|"
)


def layers(tokens: int, seeds: int, traces: Path | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name of a routing and what the generator is told, for each layer."""
    for skew in SKEWS:
        law = Workload(name=f"skew {skew:g}", skew=skew, drift=0.0, source="this study")
        for seed in range(seeds):
            yield law.name, {"workload": law, "batch": tokens, "seed": seed}
    for name in TRACES if traces is not None else ():
        for layer in LAYERS:
            file = f"{traces}/esft_deepseek_v2_lite/{name}.npz"
            yield f"ESFT {name}", {"trace": file, "batch": tokens, "layer": layer, "step": 0}


def times_of(rate_gb_s: float, given: dict[str, Any]) -> dict[str, int]:
    """Return the ns of a layer by method, and their lower bound: the sums of its two batches."""
    total = dict.fromkeys((*METHODS, "bound"), 0)
    for matrices in ("gate-up", "down"):
        instance = moeopt.generate(
            "threads", machine="ktransformers-a100", model="deepseek-v2-lite",
            matrices=matrices, input_gb_s=rate_gb_s, **given,
        )  # fmt: skip
        for method in METHODS:
            exact = {"work_limit": WORK, "verify": False} if method == "fill" else {}
            result: Any = moeopt.solve(instance, method, **exact)
            total[method] += result.objective
            total["bound"] += result.bound if exact else 0
    return total


def row(name: str, rate_gb_s: float, found: list[dict[str, int]]) -> str:
    """Return the row of a routing and a rate."""
    gains = [one["static"] / one["dynamic"] for one in found]
    above = (
        f"{max(100 * (one[method] / one['bound'] - 1) for one in found):.1f} %"
        for method in METHODS[1:]
    )
    head = f"| {name} | {rate_gb_s:g} | {len(found)} | {min(gains):.2f} to {max(gains):.2f} |"
    return f"{head} {' | '.join(above)} |"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--traces", type=Path)
    options = parser.parse_args()
    found: dict[tuple[str, float], list[dict[str, int]]] = {}
    for name, given in layers(options.tokens, options.seeds, options.traces):
        for rate in RATES_GB_S:
            found.setdefault((name, rate), []).append(times_of(rate, given))
    print(HEADER)
    for (name, rate), of in found.items():
        print(row(name, rate, of))


if __name__ == "__main__":
    main()
