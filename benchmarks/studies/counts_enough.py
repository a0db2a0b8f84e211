"""Whether counts are enough at one token per step: residents decided on counts, on real traces.

    python benchmarks/studies/counts_enough.py --traces DIR

DIR holds ``esft_deepseek_v2_lite/*.npz`` and ``hdmoe_mixtral_8x7b/*.npz``. What a trace reads twice
is removed; the first 70 % are what is known, the rest is held out. Residents are decided exactly on
200 steps drawn from the counts of the known part, and for comparison on 200 of its recorded steps,
spread evenly. Both are executed on all held-out tokens, the routed experts of all layers, on the
CPU-GPU collaborative paper's machine: DeepSeek-V2-Lite with room for 40 % of its experts,
Mixtral-8x7B with what fits into 24 GB.

Prints a Markdown row per trace: milliseconds per token that the counts say (on steps drawn anew),
those on held-out tokens and how far that is off; then what residents decided on recorded steps
take, and KTransformers' "frequency" on the same counts.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import moeopt
from benchmarks.rooms.placement import Instance
from benchmarks.rooms.sim import Trace, get_model, hold_out, read_trace
from moeopt import run_on

STEPS = 200
ROOM: dict[str, dict[str, Any]] = {
    "esft_deepseek_v2_lite": {"model": "deepseek-v2-lite", "share": 0.4},
    "hdmoe_mixtral_8x7b": {"model": "mixtral-8x7b"},
}
HEADER = """\
| trace | counts say, ms | held out, ms | off by | residents by recorded steps | frequency |
|---|---|---|---|---|---|"""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder with the traces")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per optimum")
    arguments = parser.parse_args()
    print(HEADER, flush=True)
    for folder, room in ROOM.items():
        for file in sorted((arguments.traces / folder).glob("*.npz")):
            print(row(read_trace(file), room, arguments.time_limit), flush=True)


def row(trace: Trace, room: dict[str, Any], time_limit_s: float) -> str:
    """Return a trace's row."""
    known, rest = hold_out(replace(trace, seq_len=None), 0.3)
    counts = known.step_counts(known.tokens, experts=get_model(room["model"]).routed_experts)
    spread = np.linspace(0, known.tokens - 1, STEPS).astype(int)
    recorded = Trace(known.name, known.topk_ids[spread])
    drawn, anew = (made(room, counts=counts, seed=seed) for seed in (0, 1))
    later = made(room, trace=rest, steps=rest.tokens)
    by_counts = moeopt.solve(drawn, "price-and-swap", time_limit_s=time_limit_s).solution
    others = (
        moeopt.solve(made(room, trace=recorded), "price-and-swap", time_limit_s=time_limit_s),
        moeopt.solve(drawn, "frequency"),
    )
    said, real = per_step(anew, by_counts), per_step(later, by_counts)
    against = " | ".join(f"{per_step(later, one.solution) / real - 1:+.1%}" for one in others)
    return f"| {trace.name} | {said:.2f} | {real:.2f} | {said / real - 1:+.1%} | {against} |"


def made(room: dict[str, Any], **source: Any) -> Instance:
    """Return an instance of a trace or of counts."""
    options = {"machine": "rtx4090-7960x", "steps": STEPS, **room, **source}
    instance = moeopt.generate("placement", **options)
    assert isinstance(instance, Instance)
    return instance


def per_step(instance: Instance, solution: Any) -> float:
    """Return what residents take on other steps, in ms per step."""
    total = run_on(instance, solution)
    assert isinstance(total, int)
    return total / len(instance.steps) / 1e6


if __name__ == "__main__":
    main()
