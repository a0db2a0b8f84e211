"""Method robust for placement, cache and bitwidth: decided on earlier loads, run on later ones.

    python benchmarks/studies/robust_others.py --traces DIR [--full] [--problems placement,cache]

DIR holds ``esft_deepseek_v2_lite/*.npz`` and ``hdmoe_mixtral_8x7b/*.npz``; what a trace reads twice
is removed first, and behind it the 600 tokens of a prompt that all of HD-MoE's traces share. Each
trace is cut into stretches; what was decided on one is used on each
of the eight after it. For bitwidth the prompts of a sequence are what is known, the tokens decoded
after them what comes.

placement  100 steps of one token of DeepSeek-V2-Lite with room for a quarter of the experts, 200 of
           Mixtral-8x7B on 24 GB, on the CPU-GPU collaborative paper's machine
cache      300 and 400 tokens of the two on that machine
bitwidth   DeepSeek-V2-Lite, 2.5 bits on average in each layer, nine sequences of a trace and the
           whole; Mixtral-8x7B, the whole

Two references: the optimum of each later stretch, and for placement the best decision in hindsight
for the later stretches together (the optimum of all of them as one instance; where it is not proven
its lower bound is used, so that no excess is understated). Prints a Markdown row per
problem and trace: median excess over the later optimum by the simple rule, the optimum of what was
observed, and `robust`; in how many cases `robust` is better, or at least as good; the same of all
the later stretches together, over hindsight; and CPU seconds per call.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

import moeopt
from benchmarks.rooms.core import InstanceEnvelope, SolutionEnvelope
from benchmarks.rooms.sim import Trace, read_trace
from moeopt import run_on

ESFT, MIXTRAL = "esft_deepseek_v2_lite", "hdmoe_mixtral_8x7b"
MODELS = {ESFT: "deepseek-v2-lite", MIXTRAL: "mixtral-8x7b"}
SHARED_PROMPT = 600
LATER = 8
STARTS, ALL_STARTS = 3, 8
SEQUENCES = 9
DESKTOP = {"machine": "rtx4090-7960x"}
SIMPLE = {"placement": "frequency-hindsight", "cache": "best-uniform", "bitwidth": "prefix-split"}
EXACT = {"placement": "price-and-swap", "cache": "dp", "bitwidth": "dp"}
STRETCH: dict[tuple[str, str], tuple[str, str, dict[str, Any]]] = {
    ("placement", ESFT): ("first_step", "steps", {"share": 0.25, "steps": 100}),
    ("placement", MIXTRAL): ("first_step", "steps", {"reserved_gib": 1.5, "steps": 200}),
    ("cache", ESFT): ("first_token", "tokens", {"slots": 416, "tokens": 300}),
    ("cache", MIXTRAL): ("first_token", "tokens", {"threads": 24, "slots": 56, "tokens": 400}),
}
"""The generator's options: where a stretch begins, how long it is, and the rest."""

HEADER = (
    "| decision | trace | cases | simple rule | optimum of the observed | robust | better than rule"
    " | than optimum | over hindsight: rule | optimum | robust | CPU s |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


@dataclass(frozen=True)
class Case:
    """What was observed, what came after it, and all of that as one instance, if it can be."""

    observed: InstanceEnvelope
    later: list[InstanceEnvelope]
    together: InstanceEnvelope | None


def stretches(problem: str, folder: str, trace: Trace, starts: int) -> Iterator[Case]:
    """Yield cases of a trace, their starts spread evenly."""
    first, length, options = STRETCH[problem, folder]
    if problem == "placement":
        options = options | {"rules_know": "steps"}

    def made(begin: int, parts: int = 1) -> InstanceEnvelope:
        where = {first: begin * options[length], length: parts * options[length]}
        named = {"model": MODELS[folder], "trace": trace}
        return moeopt.generate(problem, **named, **DESKTOP, **(options | where))

    total = trace.tokens // options[length]
    for begin in sorted(
        set(np.linspace(0, max(0, total - LATER - 1), starts).astype(int).tolist())
    ):
        parts = min(LATER, total - begin - 1)
        together = made(begin + 1, parts) if problem == "placement" else None
        yield Case(made(begin), [made(begin + 1 + n) for n in range(parts)], together)


def phases(folder: str, trace: Trace) -> Iterator[Case]:
    """Yield prompts and what was decoded after them: of single sequences, and of the whole."""
    number = 0 if trace.seq_len is None else len(trace.seq_len)
    chosen: list[int | None] = [None]
    if number:
        chosen += np.linspace(0, number - 1, min(number, SEQUENCES)).astype(int).tolist()
    for sequence in chosen:
        options = DESKTOP | {"model": MODELS[folder], "trace": trace}
        if sequence is not None:
            options |= {"sequence": sequence}
        known, later = (
            moeopt.generate("bitwidth", phase=phase, **options) for phase in ("prefill", "decode")
        )
        yield Case(known, [later], None)


def measured(problem: str, folder: str, trace: Trace, starts: int) -> str:
    """Return a trace's row."""
    found = phases(folder, trace) if problem == "bitwidth" else stretches(
        problem, folder, trace, starts
    )  # fmt: skip
    ratios, hindsight, seconds = [], [], []
    for case in found:
        decisions = []
        for method in (SIMPLE[problem], EXACT[problem]):
            decisions.append(_decision(case.observed, method))
        begin = process_time()
        decisions.append(_decision(case.observed, "robust"))
        seconds.append(process_time() - begin)
        costs = np.array(
            [[run_on(one, decision) for one in case.later] for decision in decisions],  # type: ignore[misc]
            dtype=float,
        )
        best = [moeopt.solve(one, time_limit_s=20).objective for one in case.later]
        ratios.append(costs / np.array(best, dtype=float))
        if case.together is not None:
            bound = moeopt.solve(case.together, time_limit_s=20).bound
            whole = [run_on(case.together, decision) for decision in decisions]
            hindsight.append([one / bound for one in whole])  # type: ignore[operator]
    excess = np.concatenate(ratios, axis=1) - 1
    cells = [problem, trace.name.removesuffix(".npz"), str(excess.shape[1])]
    cells += [_percent(median(row)) for row in excess.tolist()]
    for other in excess[:2]:
        better, as_good = (excess[2] < other).mean(), (excess[2] <= other).mean()
        cells.append(f"{better:.0%} ({as_good:.0%})")
    if hindsight:
        cells += [_percent(median(column) - 1) for column in zip(*hindsight, strict=True)]
    else:
        cells += ["-"] * 3
    return f"| {' | '.join([*cells, f'{max(seconds):.1f}'])} |"


def _decision(observed: InstanceEnvelope, method: str) -> SolutionEnvelope:
    solution: SolutionEnvelope = moeopt.solve(observed, method=method, time_limit_s=30).solution
    return solution


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder with the traces")
    parser.add_argument("--full", action="store_true", help="more starts")
    parser.add_argument("--problems", default="placement,cache,bitwidth", help="comma-separated")
    arguments = parser.parse_args()
    print(HEADER, flush=True)
    for problem in arguments.problems.split(","):
        for folder in MODELS:
            for file in sorted((arguments.traces / folder).glob("*.npz")):
                trace = read_trace(file)
                if problem != "bitwidth":
                    trace = moeopt.dedupe_trace(trace)
                    cut = SHARED_PROMPT if folder == MIXTRAL else 0
                    trace = Trace(trace.name, trace.topk_ids[cut:], facts=trace.facts)
                starts = ALL_STARTS if arguments.full else STARTS
                print(measured(problem, folder, trace, starts), flush=True)


if __name__ == "__main__":
    main()
