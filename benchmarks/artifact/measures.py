"""What is measured on each sample, finding by finding; every excess is over a proven optimum."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import moeopt
from benchmarks.artifact.samples import (
    MIXTRAL,
    SEED,
    V2_LITE,
    Part,
    Sample,
    Values,
    draw,
    excess,
    measure,
    proven,
)
from benchmarks.rooms.layout import Copies, execute_layout
from benchmarks.rooms.replication import HEURISTICS, KERNELS
from benchmarks.rooms.replication import Instance as CopiesInstance
from benchmarks.rooms.sim import Trace
from benchmarks.studies.replication import over_bound

BATCHES = (64, 256, 512)
LAYERS = 6
"""Of each trace of DeepSeek-V2-Lite; of Mixtral's, of which there are more, half."""

Found = dict[str, dict[str, Values]]
"""Group, such as a batch -> sample -> quantities."""


def _of_both(traces: Path, part: Part, values: Callable[[Sample], Values | None]) -> Found:
    """Return what is measured on samples of both models."""
    return {
        V2_LITE.model: measure(draw(traces, V2_LITE, part, LAYERS), values),
        MIXTRAL.model: measure(draw(traces, MIXTRAL, part, LAYERS // 2), values),
    }


def _by_batch(
    traces: Path,
    part: Part,
    one: Callable[[int], Callable[[Sample], Values | None]],
    batches: Sequence[int] = BATCHES,
) -> Found:
    """Return what is measured on samples of DeepSeek-V2-Lite, for each batch."""
    samples = draw(traces, V2_LITE, part, LAYERS)
    return {str(batch): measure(samples, one(batch)) for batch in batches}


def _step(sample: Sample, batch: int) -> int:
    """Return the step that is measured, drawn from those that the trace has."""
    steps = sample.routing.tokens // batch - 1  # a schedule has a step before it
    seed = [SEED, sample.layer, batch]
    return int(np.random.default_rng(seed).integers(max(1, steps)))


def _layout(sample: Sample, batch: int, **options: Any) -> Any:
    return moeopt.generate(
        "layout",
        machine="trimoe",
        model=sample.model,
        trace=sample.routing,
        layer=sample.layer,
        batch=batch,
        batching="streams",
        hbm_slots=8,
        first_window=_step(sample, batch),
        **options,
    )


def batches(traces: Path, part: Part) -> Found:
    """TriMoE and others, each on its own layout, over the best layout and schedule of the step."""
    rules = ("trimoe", "ktransformers", "monde", "klotski")

    def one(batch: int) -> Callable[[Sample], Values | None]:
        def values(sample: Sample) -> Values | None:
            instance = _layout(sample, batch)
            best = proven(instance)
            if best is None:
                return None
            found = {rule: excess(instance, rule, best) for rule in rules}
            known = excess(_layout(sample, batch, layout_from="none"), "trimoe", best)
            return found | {
                "trimoe knowing": known,
                "lead": found["ktransformers"] - found["trimoe"],
            }

        return values

    return _by_batch(traces, part, one)


def placement(traces: Path, part: Part) -> Found:
    """Rules for residents of a single request, by tokens read before and by the very steps.

    Eight layers at random, a quarter of the experts on the GPU, 200 decoded tokens of one text.
    """
    pairs = {
        "frequency": "frequency-hindsight",
        "importance": "importance-hindsight",
        "uniform-x": "uniform-x-hindsight",
        "fiddler": "fiddler-hindsight",
    }

    def values(sample: Sample) -> Values | None:
        trace = sample.several(8)
        first = np.random.default_rng([SEED, sample.layer]).integers(
            trace.tokens // 2, trace.tokens - 200
        )
        instance = moeopt.generate(
            "placement",
            machine="rtx4090-7960x",
            model=sample.model,
            trace=trace,
            layers=8,
            share=0.25,
            steps=200,
            first_step=int(first),
        )
        best = proven(instance)
        if best is None:
            return None
        found = {}
        for past, known in pairs.items():
            found |= {past: excess(instance, past, best), known: excess(instance, known, best)}
        return found

    return _of_both(traces, part, values)


PATHS: Mapping[str, dict[str, Any]] = {
    "one path": {},
    "transfers overlap": {"gpu_work": "two parts"},
    "half a striped read": {"dimm_share": "1/2"},
    "70 % localized": {"cold_cut": "experts 0.7"},
}
"""Assumptions of the schedule: the default, and others one at a time."""


def schedule(traces: Path, part: Part) -> Found:
    """TriMoE's greedy schedule and refinement on the layout of its section 3.1."""

    def one(batch: int) -> Callable[[Sample], Values | None]:
        def values(sample: Sample) -> Values | None:
            found = {}
            for shown, options in PATHS.items():
                instance = moeopt.generate(
                    "tri_domain",
                    machine="trimoe",
                    model=sample.model,
                    trace=sample.routing,
                    layer=sample.layer,
                    batch=batch,
                    batching="streams",
                    step=1 + _step(sample, batch),
                    **options,
                )
                best = proven(instance)
                if best is None:
                    return None
                found[shown] = excess(instance, "trimoe", best)
            return found

        return values

    return _by_batch(traces, part, one)


def migrations(traces: Path, part: Part) -> Found:
    """TriMoE's choice of migrations, by both readings of their benefit, and none at all."""
    rules = {"benefit": "benefit-greedy", "makespan": "benefit-makespan", "none": "none"}

    def one(batch: int) -> Callable[[Sample], Values | None]:
        def values(sample: Sample) -> Values | None:
            steps = sample.routing.tokens // batch
            instance = moeopt.generate(
                "relayout",
                machine="trimoe",
                model=sample.model,
                trace=sample.routing,
                layer=sample.layer,
                batch=batch,
                batching="streams",
                step=8 + _step(sample, batch) % max(1, steps - 8),
            )
            best = proven(instance)
            if best is None:
                return None
            found = {name: excess(instance, rule, best) for name, rule in rules.items()}
            return found | {"gain of benefit": found["none"] - found["benefit"]}

        return values

    return _by_batch(traces, part, one, (64, 256))


def slices(traces: Path, part: Part) -> Found:
    """Balance equation of the edge paper on prompts, by its readings of times and rounding.

    `rounding` "best" looks at the objective, which the text does not say; "nearest" does not.
    """
    readings = {
        "own times, best rounding": "framework",
        "own times, nearest": "framework[rounding=nearest]",
        "mean times, best rounding": "framework[balance_times=mean]",
        "mean times, nearest": "framework[balance_times=mean,rounding=nearest]",
    }

    def values(sample: Sample) -> Values | None:
        instance = moeopt.generate(
            "balance",
            machine="edge-gpu-ndp-6",
            model=sample.model,
            trace=sample.routing,
            layer=sample.layer,
            stage="prefill",
            seq_len=512,
        )
        best = proven(instance)
        if best is None:
            return None
        return {name: excess(instance, rule, best) for name, rule in readings.items()}

    return _of_both(traces, part, values)


def widths(traces: Path, part: Part) -> Found:
    """Prefix order of widths at a layer's budget, losses by two laws."""

    def values(sample: Sample) -> Values | None:
        trace = replace(
            sample.routing,
            topk_ids=sample.routing.topk_ids[:, [sample.layer]],
            topk_weights=None
            if sample.routing.topk_weights is None
            else sample.routing.topk_weights[:, [sample.layer]],
        )
        found = {}
        for law in ("fitted", "convex"):
            instance = moeopt.generate(
                "bitwidth",
                machine="cxl-ndp",
                model=sample.model,
                trace=trace,
                layers=1,
                losses=law,
                average_bits=2.5,
            )
            best = proven(instance)
            if best is None:
                return None
            found |= {
                f"prefix order, {law}": excess(instance, "prefix-split", best),
                f"greedy upgrades, {law}": excess(instance, "greedy-marginal", best),
            }
        return found

    return _of_both(traces, part, values)


def blind_copies(traces: Path, part: Part) -> Found:
    """Every expert striped and on one DIMM, no loads known, over TriMoE's layout at its best."""

    def one(batch: int) -> Callable[[Sample], Values | None]:
        def values(sample: Sample) -> Values | None:
            instance = _layout(sample, batch)
            own = moeopt.solve(instance, "trimoe-layout-tuned")
            single = execute_layout(instance, own.solution)
            size = 2**24
            room = 2 * instance.experts * size // instance.dimms
            several = Copies(max_per_expert=3, expert_bytes=size, dimm_bytes=room)
            free = instance.model_copy(update={"schema_version": 2, "copies": several})
            decided = moeopt.solve(free, "dual-copies").solution
            both = execute_layout(free, decided)
            if single.unproven or both.unproven:
                return None
            return {"share of the time": both.objective_ns / single.objective_ns}

        return values

    return _by_batch(traces, part, one)


@dataclass(frozen=True)
class Ranks:
    """Who serves a model with expert parallelism: ranks, slots of each, and an expert's shape."""

    devices: int
    slots: int
    shape: tuple[int, int]


RANKS = {
    "deepseek-v2-lite": Ranks(8, 9, (2048, 1408)),
    "mixtral-8x7b": Ranks(4, 3, (4096, 14336)),
}
WINDOW, DECODED, GPU = 384, 64, "h100-fp8"
"""Tokens that are seen, tokens of a decoding step, and whose kernel times those take."""


def expert_copies(traces: Path, part: Part) -> Found:
    """EPLB's copies decided on a window of tokens, run on that and on the next one.

    Prompts: a step has the whole window, and counts tokens. Decoding: steps of 64 tokens, kernel
    times of an H100 with their launches.
    """

    def one(kind: str) -> Callable[[Sample], Values | None]:
        def values(sample: Sample) -> Values | None:
            seen, after = (_window(sample, kind, turn) for turn in (0, 1))
            if seen is None or after is None:
                return None
            found = {}
            for name, rule in (("no copies", "eplb-without-copies"), ("EPLB", "eplb")):
                plan = HEURISTICS[rule](seen)
                if plan is None:
                    return None
                for when, instance in (("seen", seen), ("next", after)):
                    found[f"{name}, {when}"] = over_bound(
                        instance, plan.model_copy(update={"shares": None})
                    )
            best = moeopt.solve(seen, "anneal-and-refute", work_limit=0.3, enough_gap=0.005)
            found["optimum of the seen, next"] = over_bound(
                after, best.solution.model_copy(update={"shares": None})
            )
            found["EPLB over no copies"] = found["EPLB, next"] - found["no copies, next"]
            return found

        return values

    found = {}
    for source, count in ((V2_LITE, LAYERS), (MIXTRAL, LAYERS // 2)):
        samples = draw(traces, source, part, count)
        for kind in ("prompts", "decoding"):
            found[f"{source.model}, {kind}"] = measure(samples, one(kind))
    return found


def _window(sample: Sample, kind: str, turn: int) -> CopiesInstance | None:
    ids, ranks = sample.routing.topk_ids[:, sample.layer], RANKS[sample.model]
    windows = len(ids) // WINDOW
    if windows < 2:
        return None
    experts = int(sample.routing.topk_ids.max()) + 1
    first = int(np.random.default_rng([SEED, sample.layer]).integers(windows - 1)) + turn
    mine = ids[first * WINDOW : (first + 1) * WINDOW]
    size = WINDOW if kind == "prompts" else DECODED
    loads = [
        np.bincount(mine[at : at + size].ravel(), minlength=experts)
        for at in range(0, WINDOW, size)
    ]
    kernel = {}
    if kind == "decoding":
        kernel = {"work": "kernel", **KERNELS[GPU].of(*ranks.shape)}
    made: CopiesInstance = CopiesInstance.from_arrays(
        loads=loads,
        devices=ranks.devices,
        slots=ranks.slots,
        name="window",
        max_copies=8,
        **kernel,
    )
    return made


def caches(traces: Path, part: Part) -> Found:
    """Ways of equal number in the first layers, as the text leaves their number open."""
    readings = {
        "twice top-k": "uniform-ways",
        "top-k": "uniform-ways[ways=top-k]",
        "all layers": "uniform-ways[ways=all layers]",
    }

    def one(slots: int) -> Callable[[Sample], Values | None]:
        def values(sample: Sample) -> Values | None:
            whole = sample.several(8)
            instance = moeopt.generate(
                "cache",
                machine="rtx4090-7960x",
                model=sample.model,
                trace=Trace(whole.name, whole.topk_ids[:600]),
                layers=8,
                slots=slots,
            )
            best = proven(instance)
            if best is None:
                return None
            return {name: excess(instance, rule, best) for name, rule in readings.items()}

        return values

    samples = draw(traces, MIXTRAL, part, LAYERS // 2)
    return {str(slots): measure(samples, one(slots)) for slots in (16, 32)}


MEASURES: Mapping[str, Callable[[Path, Part], Found]] = {
    "batches": batches,
    "placement": placement,
    "schedule": schedule,
    "migrations": migrations,
    "slices": slices,
    "widths": widths,
    "blind-copies": blind_copies,
    "expert-copies": expert_copies,
    "caches": caches,
}
