"""T12e, T18, T22 and T25: TriMoE run as a system by `moeopt.compare`, with prompts and KV cache."""

from functools import cache, partial
from statistics import fmean

from benchmarks.papers.figure import Ours
from benchmarks.papers.seeds import over_seeds
from benchmarks.papers.trimoe.setting import MODELS, Setting
from benchmarks.papers.trimoe.speedups import SMALL_BATCHES, SMALL_MODEL, SMALL_OPEN
from benchmarks.rooms.systems import Compared
from moeopt import compare

BATCH, TOKENS, LAYERS, STEPS = 512, 512, 2, 4
"""Requests, tokens in and out, and what of the model is executed."""

BASELINES = ("enhanced-ktransformers", "monde", "klotski")

LENGTHS = (
    f"{BATCH} requests of {TOKENS} tokens in and {TOKENS} out, which 5.2.2 does not state; {LAYERS}"
    f" layers with experts and {STEPS} steps stand for all"
)
ROUTING = "the synthetic routing of the other figures (T16, T17), a popularity for each layer"
CACHE = "the KV cache lies on the host's DIMMs (4.1), so that attention waits for PCIe"
WINDOW = (
    "with the KV cache on the host a layer's attention waits for 3.5 ms of PCIe and more, where 5.5"
    " has 0.68 ms of GPU work beside four migrations: what of the cache was on the GPU is open"
)


def t18() -> Ours:
    """Speedup end to end over the strongest baseline, by model."""
    found = over_seeds(partial(_speedups, kv_cache="host"))
    on_gpu = over_seeds(partial(_speedups, kv_cache="gpu"))
    listed = ", ".join(on_gpu.text(place) for place in range(len(MODELS)))
    return Ours(
        found.values,
        "assumed",
        (LENGTHS, ROUTING, CACHE),
        f"with the KV cache on the GPU {listed}; TriMoE's prompts run wholly on the GPU (4.1),"
        " those of the baselines in parts of 512 tokens",
        intervals=found.intervals,
        seeds=found.seeds,
        missing=WINDOW,
    )


def t12_executed() -> Ours:
    """Return the speedup of Qwen3-235B's layers with experts at the batches 128, 64 and 32."""
    found = over_seeds(_small_batches)
    return Ours(
        found.values,
        "assumed",
        (
            f"the layers' experts, {2 * TOKENS} tokens in the KV cache, on the GPU",
            ROUTING,
            "every system decides by what its paper lets it know: MoNDE's number of hot experts is"
            " that of the last step, Enhanced KTransformers prefetches; one bandwidth for all",
        ),
        "T12 has MoNDE's number known in hindsight and KTransformers at 0.716 of the bandwidth",
        intervals=found.intervals,
        seeds=found.seeds,
        missing=SMALL_OPEN,
    )


@cache
def _small_batches(seed: int) -> tuple[float, ...]:
    gains = []
    for batch in SMALL_BATCHES:
        setting = Setting(SMALL_MODEL, batch=batch)
        found = compare(
            setting.machine,
            setting.shape,
            workload="trimoe-skew",
            batch=batch,
            prompt=0,
            output=2 * TOKENS,
            layers=LAYERS,
            steps=2 * STEPS,
            gpu_expert_gib=0,
            exact="none",
            seed=seed,
            systems=["trimoe", *BASELINES],
        )
        ms = {row.system: row.experts_ms for row in found.rows}
        gains.append(min(ms[name] for name in BASELINES) / ms["trimoe"])
    return tuple(gains)


def t22() -> Ours:
    """Return the overhead of migrations: steps with moves that load DIMMs over steps without."""
    found = over_seeds(_overheads)
    return Ours(
        (max(found.values),),
        "assumed",
        (ROUTING, CACHE, "a migration keeps both its DIMMs busy for a read of the expert"),
        "the largest of the three models; what is hidden in the window costs nothing",
        intervals=(found.intervals[found.values.index(max(found.values))],),
        seeds=found.seeds,
    )


def t25() -> Ours:
    """Return the share of decoding in the time of prompts and replies."""
    systems = ("trimoe", *BASELINES)
    found = {kv: over_seeds(partial(_decoding, systems, kv)) for kv in ("host", "gpu")}
    least = {
        kv: min(zip(drawn.values, drawn.intervals, strict=True)) for kv, drawn in found.items()
    }
    value, interval = min(least.values())
    said = "; ".join(
        f"KV cache on the {kv} "
        + ", ".join(f"{name} {share:.2f}" for name, share in zip(systems, of.values, strict=True))
        for kv, of in found.items()
    )
    return Ours(
        (value,),
        "assumed",
        (LENGTHS, ROUTING, "the system, and the place of the KV cache, in which it is least"),
        f"means over three models: {said}",
        intervals=(interval,),
        seeds=found["host"].seeds,
    )


@cache
def _decoding(systems: tuple[str, ...], kv_cache: str, seed: int) -> tuple[float, ...]:
    """Return the mean share of decoding over the models, for each system."""
    shares = []
    for name in systems:
        of = [
            next(row for row in _requests(model, kv_cache, seed) if row.system == name)
            for model in MODELS
        ]
        shares.append(fmean(1 - (r.prefill_s or 0.0) / (r.end_to_end_s(TOKENS) or 1.0) for r in of))
    return tuple(shares)


@cache
def _speedups(seed: int, *, kv_cache: str) -> tuple[float, ...]:
    return tuple(_speedup(model, kv_cache, seed) for model in MODELS)


def _speedup(model: str, kv_cache: str, seed: int) -> float:
    rows = _requests(model, kv_cache, seed)
    seconds = {row.system: row.end_to_end_s(TOKENS) or 0.0 for row in rows}
    return min(seconds[name] for name in BASELINES) / seconds["trimoe"]


@cache
def _requests(model: str, kv_cache: str, seed: int) -> tuple[Compared, ...]:
    """Return TriMoE and the baselines on prompts and replies."""
    setting = Setting(model, batch=BATCH)
    found = compare(
        setting.machine,
        setting.shape,
        workload="trimoe-skew",
        batch=BATCH,
        prompt=TOKENS,
        output=TOKENS,
        layers=LAYERS,
        steps=STEPS,
        kv_cache=kv_cache,
        gpu_expert_gib=0,
        exact="none",
        seed=seed,
        systems=["trimoe", *BASELINES],
    )
    return found.rows


@cache
def _overheads(seed: int) -> tuple[float, ...]:
    """Return what moves that load DIMMs add to a step, for each model, as a share."""
    shares = []
    for model in MODELS:
        setting = Setting(model, batch=BATCH)
        found = compare(
            setting.machine,
            setting.shape,
            workload="trimoe-skew",
            batch=BATCH,
            prompt=0,
            output=2 * TOKENS,
            layers=LAYERS,
            steps=STEPS,
            kv_cache="host",
            gpu_expert_gib=0,
            exact="none",
            seed=seed,
            systems=["trimoe", "trimoe[move_reads=yes]"],
        )
        free, loading = (row.mean_ms or 0.0 for row in found.rows)
        shares.append(loading / free - 1)
    return tuple(shares)
