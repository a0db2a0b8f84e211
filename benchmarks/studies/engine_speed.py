"""How fast the simulator is: expert-events per second, by sums and by events.

    python benchmarks/studies/engine_speed.py [--steps 1000] [--event-steps 10] [--policies a,b]
        [--model deepseek-v3]

Decode steps of a model's shape with 64 tokens on TriMoE's machine; DeepSeek-V3 has 58 layers of 256
experts, top-8.
The token counts are drawn once, before the clock starts. An expert-event is one active expert of
one layer and step that is assigned, costed and timed; a task is what the event core runs for it
(the expert, and a read on each DIMM it lies on). The first steps are timed both ways and compared.
"""

import argparse
from time import process_time
from typing import Any

import numpy as np

from benchmarks.rooms.core import compile_all
from benchmarks.rooms.sim import ModelShape, get_model
from benchmarks.rooms.systems import Simulation
from moeopt import Plan, get_machine, simulate

TOKENS = 64
SKEW = 1.0
STRIPED_SHARE = 0.3

MOVES = 4
"""Migrations planned before each layer in each step."""

PARTS = ("cache", "deferral", "migrations")
"""Besides policies: `cpu-for-misses` with a cache in each layer, and so on."""

POLICIES = ("cpu-for-misses", "greedy", "trimoe", "ktransformers", "monde", "hybrimoe", "fiddler")
POLICIES += ("threshold",)

HEADER = (
    "| policy | steps | by | expert-events | tasks | CPU seconds | expert-events/s | tasks/s |\n"
    "|---|---:|---|---:|---:|---:|---:|---:|"
)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000, help="steps by sums")
    parser.add_argument("--event-steps", type=int, default=10, help="steps by events")
    parser.add_argument("--policies", default=",".join(POLICIES + PARTS), help="comma-separated")
    parser.add_argument("--model", default="deepseek-v3")
    arguments = parser.parse_args()
    compile_all()
    model = get_model(arguments.model)
    counts = _counts(model, arguments.steps)
    rows = [HEADER]
    print(HEADER)
    for policy in arguments.policies.split(","):
        few = counts[: arguments.event_steps]
        fast = _measure(model, policy, counts, rows, timeline=False)
        slow = _measure(model, policy, few, rows, timeline=True)
        if (fast.layer_ns[: len(few)] != slow.layer_ns).any():
            raise SystemExit(f"{policy}: sums and events give different latencies")


def _plan(model: ModelShape, policy: str, steps: int, dimms: int) -> Plan:
    layers, experts = model.layers - model.dense_layers, model.routed_experts
    cold = round(STRIPED_SHARE * experts)
    layout = [[None if e < cold else e % dimms for e in range(experts)]]
    plan: dict[str, Any] = {"policy": policy, "layout": layout, "resident": [[0, 1, 2, 3]]}
    if policy in PARTS:
        plan |= {"policy": "cpu-for-misses", "window": "unlimited"}
        moves = [
            {
                "step": step,
                "layer": layer,
                "expert": 8 + (step + turn) % (experts // 4),
                "kind": "prefetch",
            }
            for step in range(steps)
            for layer in range(layers)
            for turn in range(MOVES)
        ]
        plan |= {
            "cache": {"cache_ways": experts // 8}, "deferral": {"deferred": 4},
            "migrations": {"migrations": moves},
        }[policy]  # fmt: skip
    return Plan.model_validate(plan)


def _measure(
    model: ModelShape, policy: str, counts: np.ndarray, rows: list[str], timeline: bool
) -> Simulation:
    machine = get_machine("trimoe")
    plan, first = (_plan(model, policy, n, machine.dimm_count) for n in (len(counts), 1))
    simulate(first, machine, model, counts[:1], timeline=timeline)  # imports and first calls
    begin = process_time()
    found = simulate(plan, machine, model, counts, timeline=timeline)
    seconds = process_time() - begin
    events = int(np.count_nonzero(counts))
    tasks = len(found.timeline.end_ns) if found.timeline is not None else 0
    cells = (policy, len(counts), "events" if timeline else "sums", events, tasks or "-")
    rates = (
        f"{seconds:.2f} | {events / seconds:,.0f} | {f'{tasks / seconds:,.0f}' if tasks else '-'}"
    )
    rows.append(f"| {' | '.join(map(str, cells))} | {rates} |")
    print(rows[-1], flush=True)
    return found


def _counts(model: ModelShape, steps: int) -> np.ndarray:
    """Draw tokens per expert: each token takes its top-k of log-popularity plus Gumbel noise."""
    rng = np.random.default_rng(0)
    layers, experts = model.layers - model.dense_layers, model.routed_experts
    popularity = -SKEW * rng.permuted(np.tile(np.arange(experts), (layers, 1)), axis=1) / experts
    counts = np.empty((steps, layers, experts), dtype=np.int64)
    first = np.arange(layers)[:, None, None] * experts
    for step in range(steps):
        noise = rng.gumbel(size=(layers, TOKENS, experts)).astype(np.float32)
        scores = popularity[:, None] + noise
        chosen = np.argpartition(-scores, model.top_k - 1, axis=2)[:, :, : model.top_k]
        cells = np.bincount((first + chosen).ravel(), minlength=layers * experts)
        counts[step] = cells.reshape(layers, experts)
    return counts


if __name__ == "__main__":
    main()
