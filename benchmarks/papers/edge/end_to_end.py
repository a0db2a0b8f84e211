"""E7e: prompt and reply of one request under the framework, Fiddler and MoNDE, run as systems."""

from dataclasses import replace
from functools import cache

from benchmarks.papers import whole
from benchmarks.papers.edge.cases import cases, machine_name, prefetched
from benchmarks.papers.edge.hits import LIKE, TOKENS
from benchmarks.papers.figure import Ours
from benchmarks.papers.seeds import over_seeds
from benchmarks.rooms.sim import Workload, find, get_model, routing_trace, step_costs
from benchmarks.rooms.systems import Readers, World, execute, get_system
from moeopt import get_machine

LAWS = {"deepseek-moe-16b": "esft-deepseek-v2-lite", "mixtral-8x7b": "hdmoe-mixtral"}
"""Model -> the law of its routing; others as the one that stands for them."""

BASELINES = ("fiddler", "monde")

LAYERS, STEPS = 2, 4
"""What is executed."""

OPEN = (
    "which share of their bandwidth the simulated units reach; MoE-OnDemand is no system of"
    " `moeopt compare`"
)


def e7e() -> Ours:
    """Return the largest gains end to end over Fiddler and MoNDE."""
    found = over_seeds(lambda seed: tuple(max(of) for of in zip(*_all(seed), strict=True)))
    said = "; ".join(
        f"{model} with {units} units {over[0]:.2f} / {over[1]:.2f}"
        for (model, units), over in zip(cases(), _all(0), strict=True)
    )
    return Ours(
        (None, *found.values),
        "assumed",
        (
            f"one request of {TOKENS} tokens in and {TOKENS} out (IV-A); what the GPU holds is the"
            " ablation's prefetch, for every system",
            "routing: laws of DeepSeek-V2-Lite (ESFT) and Mixtral-8x7B (MT-bench), the others as"
            " the one with experts as fine or as coarse",
            "no launches under Fiddler, as its baseline is simulated",
        ),
        f"over Fiddler and MoNDE, of the first seed: {said}",
        intervals=(None, *found.intervals),
        seeds=found.seeds,
        missing=OPEN,
    )


@cache
def _all(seed: int) -> tuple[tuple[float, ...], ...]:
    return tuple(_gains(model, units, seed) for model, units in cases())


def _gains(model: str, units: int, seed: int) -> tuple[float, ...]:
    """Return the gain over each baseline."""
    shape = get_model(model)
    law = find("workloads", Workload, LAWS[LIKE.get(model, model)])
    tokens = TOKENS + 2 * STEPS
    trace = routing_trace(law, shape.routed_experts, shape.top_k, LAYERS, tokens, seed, batch=1)
    world = World(
        costs=step_costs(get_machine(machine_name(units)), shape),
        batch=1,
        prompt=TOKENS,
        output=TOKENS,
        layers=LAYERS,
        slots=prefetched(shape) * LAYERS,
        ubatch=TOKENS,
    )
    seconds = []
    for name in ("edge-gpu-ndp", *BASELINES):
        system = get_system(name)
        system.mechanisms = replace(system.mechanisms, launches_per_layer=0)  # type: ignore[misc]
        run = execute(system, world, Readers.of(trace, shape, 1, TOKENS, STEPS))
        if run.state is None:
            raise RuntimeError("the run has no state")
        own = run.state.world
        seconds.append(whole.prefill_s(own, run) + TOKENS * whole.decode_s(own, run))
    return tuple(other / seconds[0] for other in seconds[1:])
