"""K12, K13e, K14e, K20, K22 and K25: KTransformers and its baselines, run as systems."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean

from benchmarks.papers.figure import Ours
from benchmarks.papers.ktransformers.end_to_end import (
    LENGTHS,
    LONGEST,
    MODELS,
    REPLY,
    SHORT_PROMPT,
    Case,
    Stage,
    decode_s,
    prefill_s,
)
from benchmarks.papers.ktransformers.other_systems import ADDED, LAWS, LLAMA, llama_ms
from benchmarks.papers.published import Interval, published
from benchmarks.papers.seeds import Drawn, over_seeds

BASELINES: tuple[Stage, ...] = ("fiddler", "llama.cpp")

SHOWN_LENGTHS = (LENGTHS[0], LENGTHS[len(LENGTHS) // 2], LENGTHS[-1])

EXECUTED = (
    "every routed expert on the CPU, all else on the GPU (6.1). Fiddler: 5.4 TFLOPS a socket"
    " (2.2), pages spread over both, 7,000 launches of 16 us a token, and what remains of its"
    " 5.8 ms a layer (2.3) for each active expert; llama.cpp: 1.8 TFLOPS, as PyTorch's AVX-512,"
    " 3,000 launches of 5 us, parts of 512 tokens"
)
FRAMEWORK = "Fiddler's framework takes as long for an expert of any of the three models"
ROUTING = "routing: a prompt's is not stated; the farthest of two laws"
LENGTH = f"prompts of {SHORT_PROMPT} tokens and {REPLY} answered (6.1)"
RATES = (
    "two sockets of 21.3 TFLOPS against PyTorch's 5.4 and 1.8 cannot give 19.74 without the uneven"
    " threads of the static schedule, whose form is not stated"
)


def k12() -> Ours:
    """Return the least and the greatest gain in prefill over both baselines."""

    def gains(law: str, seed: int) -> tuple[float, float]:
        found = [
            prefill_s(system, case) / prefill_s("graph", case)
            for model in MODELS
            for length in SHOWN_LENGTHS
            for case in (Case(model, law=law, seed=seed, prompt=length),)
            for system in BASELINES
        ]
        return min(found), max(found)

    ours, said = _farthest("K12", gains)
    lengths = ", ".join(map(str, SHOWN_LENGTHS))
    return Ours(
        ours.values,
        "assumed",
        (EXECUTED, FRAMEWORK, ROUTING),
        f"of three models in BF16 and prompts of {lengths} tokens; {said}",
        intervals=ours.intervals,
        seeds=ours.seeds,
        missing=RATES,
    )


def k13e() -> Ours:
    """Return the least and the greatest gain in decoding over each baseline, three models."""
    values, note = _decode("graph", BASELINES)
    return Ours(values, "assumed", (EXECUTED, FRAMEWORK, LENGTH), note)


def k14e() -> Ours:
    """Return the least and the greatest gain in decoding with deferral, over both baselines."""
    found = [_gain("deferral", system, Case(model)) for model in MODELS for system in BASELINES]
    _, note = _decode("deferral", BASELINES)
    without = ", ".join(
        f"{model} {_gain('deferral', 'graph', Case(model)):.2f}" for model in MODELS
    )
    return Ours(
        (min(found), max(found)),
        "assumed",
        (EXECUTED, FRAMEWORK, LENGTH),
        f"{note}; over itself without deferral {without}",
    )


def k20() -> Ours:
    """Return the tokens per second that led to the paper, in prefill and decoding."""

    def speeds(law: str, seed: int) -> tuple[float, ...]:
        cases = [Case(law=law, seed=seed, prompt=length) for length in LENGTHS]
        return tuple(case.prompt / prefill_s("llama.cpp", case) for case in cases)

    found = {law: over_seeds(partial(speeds, law)) for law in LAWS}
    every = over_seeds(lambda seed: (fmean(one for law in LAWS for one in speeds(law, seed)),))
    said = "; ".join(
        f"{law} {', '.join(f'{value:.0f}' for value in drawn.values)}"
        for law, drawn in found.items()
    )
    most, least = (1e3 / ms for ms in llama_ms())
    executed = 1 / decode_s("llama.cpp", Case())
    own = 1 / decode_s("graph", Case())
    return Ours(
        (every.values[0], least),
        "assumed",
        (EXECUTED, ADDED, LLAMA, "prefill: the mean over prompts of 32 to 8,192 tokens, two laws"),
        f"llama.cpp in prefill with prompts of {', '.join(map(str, LENGTHS))} tokens {said}; in"
        f" decoding {least:.2f} to {most:.2f} by stated numbers, {executed:.2f} executed, where"
        f" KTransformers has {own:.2f} for the stated 5.87; 5.87 / 4.68 = {5.87 / 4.68:.3f}, the"
        " least of K13, so that the paper's is llama.cpp's",
        intervals=(every.intervals[0], None),
        seeds=every.seeds,
        missing="how long the prompts were that gave 70.02 tokens/s, and which of the two systems",
    )


def k22() -> Ours:
    """Return the gain over Fiddler by the CPU's kernels, in decoding and in prefill."""

    def gains(law: str, seed: int) -> tuple[float, float]:
        cases = [Case(model, law=law, seed=seed) for model in MODELS]
        decode = max(_gain("kernels", "fiddler", case) for case in cases)
        return decode, max(
            prefill_s("fiddler", case) / prefill_s("kernels", case) for case in cases
        )

    ours, said = _farthest("K22", gains)
    return Ours(
        ours.values,
        "assumed",
        (EXECUTED, FRAMEWORK, ROUTING, "static: blocks of as many experts for each thread"),
        f"{said}. All of Fig. 14, on top of each other: {_chain()}",
        intervals=ours.intervals,
        seeds=ours.seeds,
        missing="how the static schedule cuts experts, which the dynamic one mends (K21)",
    )


def k25() -> Ours:
    """Return the largest gain in prefill by tensor parallelism over sockets."""

    def gains(law: str, seed: int) -> tuple[float]:
        cases = [Case(model, law=law, seed=seed) for model in MODELS]
        return (max(prefill_s("dynamic", c) / prefill_s("sockets", c) for c in cases),)

    ours, said = _farthest("K25", gains)
    return Ours(
        ours.values,
        "assumed",
        (ROUTING, f"prompts of {LONGEST} tokens (6.4); three models"),
        f"{said}; spread pages are read at what half of local reads and half over the link give,"
        " and with so many tokens operations hide most of it",
        intervals=ours.intervals,
        seeds=ours.seeds,
    )


def _gain(stage: Stage, over: Stage, case: Case) -> float:
    return decode_s(over, case) / decode_s(stage, case)


def _decode(stage: Stage, baselines: Sequence[Stage]) -> tuple[tuple[float, ...], str]:
    """Return least and greatest gain over each baseline, and all of them in words."""
    values, said = [], []
    for system in baselines:
        gains = {model: _gain(stage, system, Case(model)) for model in MODELS}
        values += [min(gains.values()), max(gains.values())]
        said.append(f"over {system} " + ", ".join(f"{m} {g:.2f}" for m, g in gains.items()))
    return tuple(values), "; ".join(said)


def _farthest(name: str, gains: Callable[[str, int], Iterable[float]]) -> tuple[Drawn, str]:
    """Return for each value the law farthest from the published one, and all in words."""
    found = {law: over_seeds(lambda seed, law=law: tuple(gains(law, seed))) for law in LAWS}  # type: ignore[misc]
    chosen: list[tuple[float, Interval]] = []
    for place, there in enumerate(published()[name].values):
        drawn = max(found.values(), key=lambda one: abs(there.error(one.values[place])))
        chosen.append((drawn.values[place], drawn.intervals[place]))
    values, intervals = zip(*chosen, strict=True)
    said = "; ".join(
        f"{law} {' / '.join(drawn.text(at) for at in range(len(drawn.values)))}"
        for law, drawn in found.items()
    )
    return Drawn(values, intervals, next(iter(found.values())).seeds), said


def _chain() -> str:
    """Return Fig. 14 for DeepSeek-V3 in words: each stage over the one before."""
    names: tuple[Stage, ...] = ("fiddler", "kernels", "dynamic", "sockets", "graph")
    words = ("kernels", "dynamic scheduling", "sockets", "one CUDA graph")
    parts = []
    for phase, of in (("prefill", prefill_s), ("decoding", decode_s)):
        times = [of(stage, Case()) for stage in names]
        gains = [before / after for before, after in pairwise(times)]
        each = ", ".join(f"{word} {gain:.2f}" for word, gain in zip(words, gains, strict=True))
        parts.append(f"{phase} {each}")
    return "; ".join(parts)
