"""What exact ways per layer gain over the paper's uniform ones, on real traces, with proofs.

    python benchmarks/studies/cache_ways.py --traces DIR [--tokens N] [--threads N] [--slots N]

DIR holds ``hdmoe_mixtral_8x7b/*.npz`` and ``esft_deepseek_v2_lite/*.npz``, which need not be there
all. What a trace reads twice is removed, the rest is cut in two: ways are decided on the first part
(optimal ones proven by `dp`), and run on the second. Machine and costs are those of the CPU-GPU
collaborative paper; 56 slots for Mixtral, a quarter of all experts for DeepSeek-V2-Lite. Costs of
the latter are rooflines. Two Markdown tables, one row per trace:

1. on the part that they were decided on, the excess over the optimal ways of the paper's uniform
   ways, the best uniform ones, proportional and greedy ones; of first-in-first-out and random
   contents in the optimal ways; the optimum over the Belady bound, which no retention policy could
   beat; and energy per token of best uniform and optimal ways, by the paper's power;
2. on the held-out part, how much longer than the ways that are optimal there the decided ones take:
   best uniform, greedy and optimal ones; and the gain of optimal over best uniform ways, where they
   were decided and held out.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import moeopt
from benchmarks.papers.collaborative.policies import fifo, random_contents
from benchmarks.papers.collaborative.power import MEASURED, joule_per_token
from benchmarks.rooms.cache import HEURISTICS, Instance, Solution, objective
from benchmarks.rooms.sim import Trace, hold_out, read_trace
from benchmarks.studies.belady_bound import belady_bound
from moeopt import run_on

MACHINE = "rtx4090-7960x"
SLOTS = {"mixtral-8x7b": 56, "deepseek-v2-lite": 416}
FOLDERS = {"hdmoe_mixtral_8x7b": "mixtral-8x7b", "esft_deepseek_v2_lite": "deepseek-v2-lite"}
RULES = ("uniform-ways", "best-uniform", "proportional", "greedy-marginal")
HELD_OUT = ("best-uniform", "greedy-marginal", "optimal")


@dataclass(frozen=True)
class Decided:
    """A part of a trace, and the ways of every rule on it, the optimal ones among them."""

    instance: Instance
    plans: dict[str, Solution]

    def ns(self, rule: str) -> int:
        """Return the time of a rule's plan on the part that it was decided on."""
        return objective(self.instance, self.plans[rule])


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder with the traces")
    parser.add_argument("--tokens", type=int, help="the first ones of each trace; all if absent")
    parser.add_argument("--threads", type=int, default=24, help="CPU threads, for Mixtral")
    parser.add_argument("--slots", type=int, help="instead of 56 and 416")
    arguments = parser.parse_args()
    first = [*RULES, "FIFO", "random", "optimum / Belady", "J best-uniform", "J optimal"]
    second = [*HELD_OUT, "gain where decided", "gain held out"]
    in_sample, held_out = _table("decided on", first), _table("held out", second)
    for model, trace in _traces(arguments.traces):
        short = trace if arguments.tokens is None else _beginning(trace, arguments.tokens)
        slots = arguments.slots or SLOTS[model]
        threads = arguments.threads if model in MEASURED else None
        kept, later = (_decide(part, model, slots, threads) for part in hold_out(short))
        in_sample.append(_row(trace.name, _in_sample(kept, model, arguments.threads)))
        held_out.append(_row(trace.name, _held_out(kept, later)))
    print("\n".join([*in_sample, "", *held_out]))


def _traces(folder: Path) -> Iterator[tuple[str, Trace]]:
    for name, model in FOLDERS.items():
        for file in sorted((folder / name).glob("*.npz")):
            yield model, replace(read_trace(file), name=file.stem)


def _beginning(trace: Trace, tokens: int) -> Trace:
    return replace(
        trace, topk_ids=trace.topk_ids[:tokens], topk_weights=None, seq_len=None, decode=None
    )


def _decide(part: Trace, model: str, slots: int, threads: int | None) -> Decided:
    instance = moeopt.generate(
        "cache", machine=MACHINE, model=model, trace=part, slots=slots, threads=threads
    )
    assert isinstance(instance, Instance)
    result = moeopt.solve(instance, "dp", time_limit_s=300)
    if result.status != "optimal":
        raise SystemExit(f"{part.name}: not proven")
    plans = {rule: HEURISTICS[rule](instance) for rule in RULES}
    return Decided(instance, plans | {"optimal": result.solution})


def _in_sample(kept: Decided, model: str, threads: int) -> list[str]:
    best = kept.ns("optimal")
    ways = [given or 0 for given in kept.plans["optimal"].ways]
    cells = [_percent(kept.ns(rule), best) for rule in RULES]
    for policy in (fifo, random_contents):
        cells.append(_percent(float(policy(kept.instance, ways).trace_ns), best))
    cells.append(f"{best / belady_bound(kept.instance):.3f}")
    for rule in ("best-uniform", "optimal"):
        per_token = kept.ns(rule) / len(kept.instance.accesses)
        known = model in MEASURED
        cells.append(f"{joule_per_token(model, threads, per_token):.1f}" if known else "-")
    return cells


def _held_out(kept: Decided, later: Decided) -> list[str]:
    best = later.ns("optimal")
    found = {rule: run_on(later.instance, kept.plans[rule]) for rule in HELD_OUT}
    cells = [_percent(ns, best) for ns in found.values()]
    for uniform, optimal in (
        (kept.ns("best-uniform"), kept.ns("optimal")),
        (found["best-uniform"], found["optimal"]),
    ):
        cells.append(f"{100 * (1 - optimal / uniform):.2f} %")
    return cells


def _percent(ns: float, best: int) -> str:
    return f"{100 * (ns / best - 1):.2f} %"


def _table(first: str, columns: list[str]) -> list[str]:
    return [f"| {' | '.join([first, *columns])} |", f"|---|{'---:|' * len(columns)}"]


def _row(name: str, cells: list[str]) -> str:
    return f"| {' | '.join([name, *cells])} |"


if __name__ == "__main__":
    main()
