"""C2 to C4: prompt and reply of one request under both systems, prompts and migration with them."""

from collections.abc import Sequence
from functools import cache, partial

from benchmarks.papers import whole
from benchmarks.papers.cxl.figures import FASTER, LARGE, MIGRATION, SMALL
from benchmarks.papers.cxl.layer import FULL, HOT, MACHINE, WIDTHS
from benchmarks.papers.figure import Ours
from benchmarks.papers.published import published
from benchmarks.papers.seeds import over_seeds
from benchmarks.rooms.sim import Workload, find, get_model, routing_trace, step_costs
from benchmarks.rooms.systems import Readers, World, execute, get_system
from moeopt import get_machine

LENGTHS = (32, 128, 512)
"""Tokens of a prompt, and of its reply."""

LAYERS, STEPS = 4, 8
"""What is executed."""

ASSUMED = (
    "as many tokens of reply as of prompt, 32, 128 or 512, which 5.1 does not state: the farthest",
    "the synthetic law of Mixtral-8x7B on MT-bench, for both models",
    "a prompt's experts are uploaded, the fullest first, as long as the later of GPU and box gets"
    " earlier, under both systems; behind it the changed residents are uploaded once",
    "MoNDE uploads hot experts on demand, as many as balanced uploads and the box best at the"
    " layer's last step",
    FASTER,
)
LENGTH = (
    f"{MIGRATION}; and prompts: 5.2 gives end to end nearly what it gives in decoding, so that its"
    " prompts must be short or narrow as well"
)


def c2() -> Ours:
    """Mixtral-8x7B, 3 bits, over MoNDE, end to end."""
    return _over_monde("C2", SMALL, WIDTHS[:1])


def c3() -> Ours:
    """Mixtral-8x7B, 2 bits, over MoNDE, end to end."""
    return _over_monde("C3", SMALL, WIDTHS[1:])


def c4() -> Ours:
    """Mixtral-8x22B, 3 and 2 bits, over MoNDE, end to end."""
    return _over_monde("C4", LARGE, WIDTHS)


def _over_monde(name: str, model: str, widths: Sequence[float]) -> Ours:
    """Return the gains end to end, of the lengths farthest from what is published."""
    found = {n: over_seeds(partial(_gains, model, n)) for n in LENGTHS}
    decoding = over_seeds(partial(_gains, model, LENGTHS[-1], replies_alone=True))
    places = [WIDTHS.index(width) for width in widths]
    values, intervals = [], []
    for place, there in zip(places, published()[name].values, strict=True):
        off = {n: abs(there.error(drawn.values[place])) for n, drawn in found.items()}
        drawn = found[max(off, key=off.__getitem__)]
        values.append(drawn.values[place])
        intervals.append(drawn.intervals[place])
    by_length = "; ".join(
        f"{n} tokens {' / '.join(drawn.text(place) for place in places)}"
        for n, drawn in found.items()
    )
    alone = " / ".join(decoding.text(place) for place in places)
    return Ours(
        tuple(values),
        "selected",
        ASSUMED,
        f"{by_length}; decoding alone {alone}",
        intervals=tuple(intervals),
        seeds=decoding.seeds,
        missing=LENGTH,
    )


@cache
def _gains(model: str, tokens: int, seed: int, *, replies_alone: bool = False) -> tuple[float, ...]:
    """Return the gain over MoNDE at each width."""
    shape = get_model(model).quantized(FULL, FULL)
    trace = routing_trace(
        find("workloads", Workload, "hdmoe-mixtral"),
        shape.routed_experts,
        shape.top_k,
        LAYERS,
        tokens + 2 * STEPS,
        seed,
        batch=1,
    )
    world = World(
        costs=step_costs(get_machine(MACHINE), shape),
        batch=1,
        prompt=tokens,
        output=tokens,
        layers=LAYERS,
        slots=HOT[model] * LAYERS,
        ubatch=tokens,
    )
    seconds = []
    for system in ("monde", *(f"cxl-ndp[average_bits={width:g}]" for width in WIDTHS)):
        run = execute(get_system(system), world, Readers.of(trace, shape, 1, tokens, STEPS))
        if run.state is None:
            raise RuntimeError("the run has no state")
        own = run.state.world
        prompts = 0.0 if replies_alone else whole.prefill_s(own, run)
        seconds.append(prompts + tokens * whole.decode_s(own, run))
    return tuple(seconds[0] / other for other in seconds[1:])
