"""C1, C2d to C4d and C5 to C8: what our model of a decoded token gives for the published figures.

C2 to C4, end to end, stand in `end_to_end`.
"""

from collections.abc import Sequence

from benchmarks.papers.cxl import accuracy
from benchmarks.papers.cxl.layer import FULL, HOT, MACHINE, WIDTHS, System, layer_ns
from benchmarks.papers.cxl.statistics import LENGTHS, TOKENS, WINDOWS, shares, similarity
from benchmarks.papers.cxl.widths import lost
from benchmarks.papers.figure import Ours
from benchmarks.rooms.sim import (
    ModelShape,
    get_model,
    step_costs,
)
from moeopt import get_machine

SMALL, LARGE = HOT

ROUTING = f"routing of Mixtral-8x7B on MT-bench (HD-MoE), {TOKENS} tokens of prompt and of answer"
BORROWED = f"{ROUTING}; borrowed for Mixtral-8x22B"
MONDE = "MoNDE computes every expert in FP16 on the NDP device and moves none"
HOBBIT = (
    "HOBBIT's GPU holds as many experts as the paper's system, chosen as well, and loads every"
    " other one in 4 bits when it is needed"
)
DECODING = (
    "decoding alone; attention is its bytes over the GPU's bandwidth, beside which nothing runs"
)
FASTER = (
    "the device computes narrower weights faster in proportion to their width, chosen because C5"
    " needs it (2.3 says faster, without a number)"
)

MIGRATION = (
    "MoNDE's migrations of experts on demand, which 5.2 names as the larger part of the gain; here"
    " it moves none"
)

SCALE_BITS = 0.25
"""A 16-bit scale per 64 weights."""


def c1() -> Ours:
    """Cosine of expert use in prefill and decoding."""
    each = ", ".join(f"{window}: {similarity(window):.2f}" for window in WINDOWS)
    return Ours(
        (similarity(TOKENS),),
        "selected",
        (
            f"MT-bench in windows of {TOKENS} tokens of prompt and answer, those of C2d to C4d,"
            " stands for TruthfulQA",
        ),
        f"the window decides the figure, and was chosen from several; by tokens of both: {each};"
        " TruthfulQA's questions are shorter, but no length is stated",
    )


def c2d() -> Ours:
    """Mixtral-8x7B, 3 bits, over MoNDE, in decoding."""
    return _over_monde(SMALL, WIDTHS[:1], ROUTING)


def c3d() -> Ours:
    """Mixtral-8x7B, 2 bits, over MoNDE, in decoding."""
    return _over_monde(SMALL, WIDTHS[1:], ROUTING)


def c4d() -> Ours:
    """Mixtral-8x22B, 3 and 2 bits, over MoNDE, in decoding."""
    return _over_monde(LARGE, WIDTHS, BORROWED)


def c5() -> Ours:
    """Latency cut of the NDP device at 3 and 2 bits."""
    scaled = [ndp_cut(width + SCALE_BITS) for width in WIDTHS]
    machine, model = get_machine(MACHINE), get_model(SMALL)
    ndp = machine.require("ndp")
    fixed = machine.with_devices(ndp.with_part("ndp", rate_bits=None))
    stated = float(step_costs(fixed, _at(2.0)).computation_s("ndp", 1))
    full = float(step_costs(machine, model).computation_s("ndp", 1))
    gflops = 1e3 * float(ndp.only("ndp").rate_tflops(1))
    note = (
        f"with a scale of 16 bits per 64 weights {scaled[0]:.2f} / {scaled[1]:.2f}. At the stated"
        f" {gflops:g} GFLOPS, whatever the width, one token computes for {stated * 1e3:.3f} ms"
        f" and reads for {full * 1e3:.3f} in FP16: both cuts would end at {full / stated:.1f}"
    )
    return Ours(tuple(ndp_cut(width) for width in WIDTHS), "selected", (FASTER,), note)


def c6() -> Ours:
    """Accuracy drops at 3 and 2 bits, from the paper's own table."""
    drops = tuple(accuracy.drop(bits) for bits in (3, 2))
    return Ours(drops, "input", (), "averages of the table's eight scores; nothing is modelled")


def c7() -> Ours:
    """Gains by the bitwidth selector, from the paper's own table."""
    gains = tuple(accuracy.selector_gain(bits) for bits in (3, 2))
    said = "; ".join(
        f"at {bits:g} bits exact widths lose {1 - lost('dp', bits):.0%} less than the prefix split,"
        f" equal widths {lost('uniform', bits) - 1:.0%} more"
        for bits in WIDTHS
    )
    note = f"averages of the table's scores. In losses by the law fitted to Mixtral: {said}"
    return Ours(gains, "input", (), note)


def c8() -> Ours:
    """Return the gains over HOBBIT at 2 bits, Mixtral-8x7B and 8x22B."""
    width = WIDTHS[-1]
    values, best = [], []
    for model in (SMALL, LARGE):
        hobbit = _mean_ns(model, width, "HOBBIT")
        values.append(hobbit / _mean_ns(model, width, "context-aware"))
        best.append(hobbit / _mean_ns(model, width, "context-aware", exact=True))
    note = (
        "with every missing expert loaded in 4 bits, which is the fastest that HOBBIT can be; the"
        " share that it loads in full precision, and the prompt, would add"
    )
    assumptions = (BORROWED, HOBBIT, DECODING, FASTER)
    return Ours(tuple(values), "selected", assumptions, note, optimum=tuple(best))


def _over_monde(model: str, widths: Sequence[float], routing: str) -> Ours:
    alone = " / ".join(f"{speedup(model, w, fixed_us=None):.2f}" for w in widths)
    hobbit = tuple(_mean_ns(model, w, "MoNDE") / _mean_ns(model, w, "HOBBIT") for w in widths)
    behind = " / ".join(f"{speedup(model, w) / h:.0f}" for w, h in zip(widths, hobbit, strict=True))
    lengths = " / ".join(_by_length(model, w) for w in widths)
    note = (
        "the published value is the greatest of several lengths of prompt and answer, which are not"
        f" stated; ours with {LENGTHS[0]} to {LENGTHS[-1]} tokens {lengths}; experts alone, without"
        f" attention: {alone}; over a HOBBIT-like system {behind}"
    )
    return Ours(
        tuple(speedup(model, width) for width in widths),
        "selected",
        (routing, MONDE, DECODING, FASTER),
        note,
        hobbit,
        tuple(speedup(model, width, exact=True) for width in widths),
        missing=MIGRATION,
    )


def _by_length(model: str, width: float) -> str:
    """Return the least and the greatest speedup over several lengths."""
    found = [speedup(model, width, window=window) for window in LENGTHS]
    return f"{min(found):.2f} to {max(found):.2f}"


def speedup(
    model: str,
    width: float,
    *,
    exact: bool = False,
    fixed_us: float | None = 0.0,
    window: int | None = None,
) -> float:
    """Return by how much the system is faster than MoNDE, with its own or the exact placement."""
    ours = _mean_ns(model, width, "context-aware", exact, fixed_us, window)
    return _mean_ns(model, width, "MoNDE", exact, fixed_us, window) / ours


def _mean_ns(
    model: str,
    width: float,
    system: System,
    exact: bool = False,
    fixed_us: float | None = 0.0,
    window: int | None = None,
) -> float:
    """Return the mean time of a layer."""
    found = shares(model, width if exact else None, window)
    return sum(
        share * layer_ns(model, width, on_gpu, system, fixed_us)
        for on_gpu, share in enumerate(found)
    )


def ndp_cut(width: float) -> float:
    """Return how many times faster than FP16 the device computes an expert, one token."""
    machine = get_machine(MACHINE)
    full, narrow = (int(step_costs(machine, _at(w)).path_ns("ndp", 1, 1)) for w in (FULL, width))
    return full / narrow


def _at(width: float) -> ModelShape:
    return get_model(SMALL).quantized(width)
