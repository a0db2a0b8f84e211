"""G1 to G16: what our model of the collaborative cache gives for each published figure."""

from statistics import fmean

from benchmarks.papers.collaborative import cached
from benchmarks.papers.collaborative.baselines import pre_gated_token_ns
from benchmarks.papers.collaborative.policies import probability
from benchmarks.papers.collaborative.power import (
    MEASURED,
    PHI_JOULE,
    PREFETCHING,
    joule_per_token,
)
from benchmarks.papers.collaborative.statistics import EXPERTS, routing
from benchmarks.papers.collaborative.systems import (
    BASELINES,
    TOP_K,
    System,
    mixtral,
    token_ns,
    tokens_per_s,
)
from benchmarks.papers.figure import Ours
from benchmarks.papers.published import published
from benchmarks.rooms.cache import slots_of
from benchmarks.rooms.sim import get_model, random_hits
from moeopt import get_machine

MODEL = "mixtral-8x7b"

TABLE = (
    "Table III is the time of a layer's two experts, halved for one: read as one expert's time the"
    " published tokens per second are out of reach"
)
OTHER = (
    "20 ms per token of Mixtral outside its experts, from the published speed and speedup of G4 and"
    " G5 themselves, and transfer times"
)
ROUTING = "routing of Mixtral-8x7B on MT-bench (HD-MoE), 27,245 tokens, not the paper's prompts"
GROUP = "a token's two experts are looked up together, then both become most recent"
UNBOUNDED = "copies wait in a queue without limit"
NO_PHI = "No trace of Phi-3.5-MoE exists, so that its hits are unknown"

PHI = "phi-3.5-moe"

RESERVED_GIB = 5.0
"""GPU memory that is not for experts (III-B)."""


def g1() -> Ours:
    """Expert slots of an RTX 4090 for Mixtral."""
    slots = slots_of(get_machine(cached.MACHINE), get_model(MODEL), RESERVED_GIB)
    note = "the paper says around 56, which is kept in the other figures"
    return Ours((float(slots),), "predicted", ("24 GiB less the paper's 5 for all else",), note)


def g2() -> Ours:
    """Measured times of Mixtral's experts on the CPU: inputs."""
    pair_gb = 2 * get_model(MODEL).expert_bytes / 1e9
    note = (
        f"two experts are {1e3 * pair_gb:.1f} MB: in 28.02 ms that is {pair_gb / 0.02802:.1f} GB/s,"
        f" PCIe 4.0 x16; one alone would be {pair_gb / 0.05604:.1f}. On the GPU they need at least"
        f" {1e3 * pair_gb / 1008:.2f} ms at 1008 GB/s, above the 0.25 of the table"
    )
    return Ours(_pair_ms(MODEL), "input", (TABLE,), note)


def g3() -> Ours:
    """Measured times of Phi-3.5-MoE's experts on the CPU: inputs."""
    return Ours(_pair_ms(PHI), "input", (TABLE,))


def g4() -> Ours:
    """Tokens per second with 24 cores and the best cache."""
    costs = mixtral()
    ways = cached.best_uniform_ways(costs)
    single = cached.costs(slots=0)
    alone = tokens_per_s("CPU only")
    as_one = 1e3 / (single.layers * (single.other_ns + TOP_K * 2 * single.cpu_ns) / 1e6)
    note = (
        f"Mixtral at ({(ways > 0).sum()}; {ways.max()}), {tokens_per_s('cached') / alone - 1:.0%}"
        f" over the CPU alone, published 15 to 35 %. Were 7.34 ms one expert's time, the CPU alone"
        f" would make {as_one:.2f} tokens/s. {NO_PHI}"
    )
    best = max(tokens_per_s(system) for system in BASELINES)
    return Ours(
        (tokens_per_s("cached"), None),
        "input",
        (TABLE, OTHER, ROUTING, GROUP, UNBOUNDED),
        note,
        (best, None),
        (tokens_per_s("optimum"), None),
    )


def g5() -> Ours:
    """Speedup over Pre-gated MoE with 24 cores."""
    base = tokens_per_s("Pre-gated MoE")
    layers = get_model(PHI).layers
    phi = cached.costs(PHI)
    published = 10.4 * layers * TOP_K * phi.fetch_ns / 1e9
    note = (
        f"Pre-gated MoE as the paper estimates it, {base:.2f} tokens/s. Phi from the published 10.4"
        f" tokens/s would be {published:.2f}. {NO_PHI}"
    )
    return Ours(
        (tokens_per_s("cached") / base, None),
        "input",
        (TABLE, OTHER, ROUTING, "Pre-gated MoE overlaps perfectly: all it takes are the copies"),
        note,
        optimum=(tokens_per_s("optimum") / base, None),
    )


def g6() -> Ours:
    """Speedup over Fiddler."""
    base = tokens_per_s("Fiddler")
    held = routing()
    popular = float(held.popular.sum(axis=0) @ [0, 1, 2] / (TOP_K * held.popular.sum()))
    ways = cached.best_uniform_ways(mixtral())
    lru = sum(int(held.lru[layer, w] @ [0, 1, 2]) for layer, w in enumerate(ways.tolist()))
    share = lru / (TOP_K * held.tokens * len(ways))
    note = (
        f"Fiddler's 56 experts serve {popular:.3f} of all accesses, the cache {share:.3f}: with the"
        " same costs per hit and miss they are about as fast. The rest is implementation"
    )
    return Ours(
        (tokens_per_s("cached") / base,),
        "assumed",
        (TABLE, ROUTING, "Fiddler with its own published popularity of Mixtral, same kernels"),
        note,
        optimum=(tokens_per_s("optimum") / base,),
        missing="Fiddler's search for a split, O(N 2^N), whose time II-A and IV-B name twice",
    )


def g7() -> Ours:
    """Share of tokens that use an expert of the token before.

    The published range is "across all layers", so that the layer farthest from it counts.
    """
    reuse = routing().reuse.tolist()
    (there,) = published()["G7"].values
    farthest = max(reuse, key=lambda value: abs(there.error(value)))
    note = (
        f"the layer farthest from the range, which is of all layers; ours have {min(reuse):.2f} to"
        f" {max(reuse):.2f}, on average {fmean(reuse):.2f}; experts chosen at random give"
        f" {random_hits(EXPERTS, TOP_K).any[0, TOP_K - 1]:.3f} already"
    )
    return Ours((farthest,), "assumed", (ROUTING,), note)


def g8() -> Ours:
    """Tokens per second to which copies limit the cache (29; 2)."""
    costs, tokens = mixtral(), routing().tokens

    def rate(indexes: int) -> float:
        ways = cached.uniform_ways(costs, indexes, 2)
        return tokens * 1e9 / cached.trace_ns(costs, ways)

    note = (
        f"(29; 2) needs 58 slots where there are 56; (28; 2) gives {rate(28):.2f}. With 28.02 ms"
        f" for each expert instead of two it were {rate(29) / 2:.2f}"
    )
    return Ours((rate(29),), "assumed", (TABLE, ROUTING, GROUP, UNBOUNDED), note)


def g9() -> Ours:
    """Points by which LRU finds at least one expert more often than random contents."""
    some, full = routing().hits["LRU"]
    ways = tuple(range(1, EXPERTS))
    gains = [some[w - 1] - (1 - float(probability(EXPERTS, w, TOP_K, 0))) for w in ways]
    both = [full[w - 1] - float(probability(EXPERTS, w, TOP_K, TOP_K)) for w in ways]
    note = (
        f"mean over 1 to 7 ways, {_points(gains)}, of which the paper does not say which;"
        f" for both experts {_points(both)}. FIFO is"
        f" {_points([some[w - 1] - routing().hits['FIFO'][0][w - 1] for w in ways])} below LRU"
    )
    return Ours((sum(gains) / len(gains),), "assumed", (ROUTING, GROUP), note)


def g10() -> Ours:
    """Energy per token of Mixtral by threads."""
    systems: tuple[System, ...] = ("cached", "optimum")
    ours, best = (
        tuple(joule_per_token(MODEL, n, token_ns(system, n)) for n in cached.THREADS)
        for system in systems
    )
    prefetching = joule_per_token(MODEL, PREFETCHING, token_ns("Pre-gated MoE"))
    implied = (133.4 + 99.6) / 55.5
    over = implied / tokens_per_s("CPU only", 16) - 1
    note = (
        f"prefetching {prefetching:.1f}, published 171.3. With 16 threads the paper's 55.5 J and"
        f" 233 W are {implied:.1f} tokens/s, {over:.0%} over the CPU alone, against its own 15 to"
        " 35 %"
    )
    return Ours(
        ours, "assumed", (TABLE, OTHER, ROUTING, "power as in Table IV"), note, optimum=best
    )


def g11() -> Ours:
    """Return the gain over the CPU alone, of any number of threads, Mixtral and Phi."""
    gains = {threads: _gain(threads) for threads in cached.THREADS}
    there, _ = published()["G11"].values
    farthest = max(gains.values(), key=lambda value: (abs(there.error(value)), value))
    each = ", ".join(f"{threads}: {gain:.0%}" for threads, gain in gains.items())
    phi = {threads: _phi_from_tables(threads) * _phi_alone_s(threads) - 1 for threads in (1, 24)}
    note = (
        f"Mixtral by threads {each}; the value is that farthest from the range. Phi's own tables IV"
        f" and V give {phi[1]:.0%} with one thread and {phi[24]:.0%} with 24. {NO_PHI}"
    )
    best = max(_gain(threads, "optimum") for threads in cached.THREADS)
    return Ours(
        (farthest, None),
        "assumed",
        (TABLE, OTHER, ROUTING, GROUP, UNBOUNDED),
        note,
        optimum=(best, None),
    )


def g12() -> Ours:
    """Return the gain over Pre-gated MoE of Phi on one core, from the paper's own tables."""
    ours, base = _phi_from_tables(1), _phi_from_tables(PREFETCHING)
    note = (
        f"power (Table IV) over energy (Table V): {ours:.2f} and {base:.2f} tokens/s; nothing is"
        f" modelled. {NO_PHI}"
    )
    return Ours((ours / base - 1,), "input", (), note)


def g13() -> Ours:
    """Energy per token of Phi-3.5-MoE by threads, and of prefetching."""
    token_ns = pre_gated_token_ns(cached.costs(PHI), TOP_K)
    prefetching = joule_per_token(PHI, PREFETCHING, token_ns)
    values = (*(None,) * len(cached.THREADS), prefetching)
    assumptions = (TABLE, "Pre-gated MoE overlaps perfectly", "power as in Table IV")
    return Ours(values, "assumed", assumptions, f"of prefetching alone. {NO_PHI}")


def g14() -> Ours:
    """Return the energy of a token as a share of prefetching's, with 24 threads."""
    ours, best, base = (
        joule_per_token(MODEL, threads, token_ns(system))
        for system, threads in (("cached", 24), ("optimum", 24), ("Pre-gated MoE", PREFETCHING))
    )
    note = f"Phi's own table gives {PHI_JOULE[24] / PHI_JOULE[PREFETCHING]:.3f}. {NO_PHI}"
    return Ours(
        (ours / base, None),
        "assumed",
        (TABLE, OTHER, ROUTING, "power as in Table IV"),
        note,
        optimum=(best / base, None),
    )


def g15() -> Ours:
    """Return how often a layer uses an expert of the same number as the layer before."""
    same = routing().same.tolist()
    at_random = random_hits(EXPERTS, TOP_K).any[0, TOP_K - 1]
    note = (
        f"the mean over layers, {min(same):.2f} to {max(same):.2f}; experts chosen at random give"
        f" {at_random:.3f}, so that it is no pattern"
    )
    return Ours((fmean(same),), "assumed", (ROUTING, "at least one of a token's two"), note)


def g16() -> Ours:
    """Return how long an expert stays, of tokens that use one of the token before."""
    two, three = (fmean(row) for row in routing().runs.tolist())
    note = (
        "means over layers. Read as shares with the two tokens before, whatever was before those,"
        f" the first would be {two:.3f}"
    )
    reading = (
        '"the previous two" is read as no more than two, since "three or more" stands beside it;'
        " chosen because it fits"
    )
    return Ours((two - three, three), "selected", (ROUTING, reading), note)


def _gain(threads: int, system: System = "cached") -> float:
    return tokens_per_s(system, threads) / tokens_per_s("CPU only", threads) - 1


def _phi_from_tables(threads: int) -> float:
    """Return Phi's tokens per second by the paper's power and energy."""
    return sum(MEASURED[PHI][threads]) / PHI_JOULE[threads]


def _phi_alone_s(threads: int) -> float:
    """Return what a token of Phi takes on the CPU alone."""
    costs = cached.costs(PHI, threads)
    return costs.layers * costs.costs.lookup_ns(0, TOP_K) / 1e9


def _pair_ms(model: str) -> tuple[float, ...]:
    return tuple(2 * cached.costs(model, threads).cpu_ns / 1e6 for threads in cached.THREADS)


def _points(values: list[float]) -> str:
    return " / ".join(f"{value:.3f}" for value in values)
