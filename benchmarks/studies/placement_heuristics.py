"""What the runtimes' rules for experts on the GPU lose, on real traces, against proven optima.

    python benchmarks/studies/placement_heuristics.py --traces DIR [--steps N] [--time-limit S]

DIR holds ``esft_deepseek_v2_lite/*.npz``. Every trace is cut in two: placements are decided on
steps of the first part, and used for steps of the second. One token per step and 16; 10, 25, 50 and
75 % of the experts fit on the GPU. The machine is that of the CPU-GPU collaborative paper, costs
are rooflines; ``--offload-us`` replaces the CPU's time, e.g. by one that is nearly as fast as the
GPU's. The instances know nothing of what came before their steps, so that every rule that counts
has hindsight where it decides; ``information.py`` is about that.
Four Markdown tables, one row per trace, batch and share:

1. where they were decided, the excess over the optimum of each rule, with its habit of filling
   every slot; "gap" is what is not proven of the optimum, as a rule 0;
2. the same without the habit: the rule stops where filling no longer helps; and the slots that the
   optimum uses, and the share of layers and steps in which the GPU is later there;
3. held out, over the optimum of the held-out steps: each rule with its habit, `offload-time`
   without, and the placement that was optimal where it was decided;
4. what restrictions cost at their optima: whole layers, equal counts, every slot used.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import moeopt
from moeopt.problems.holdout import run_on
from moeopt.problems.placement.check import objective
from moeopt.problems.placement.heuristics import HEURISTICS
from moeopt.problems.placement.instance import Instance, Solution
from moeopt.problems.placement.view import facts
from moeopt.sim.traces.trace import Trace
from moeopt.sim.traces.windows import hold_out

FOLDER = "esft_deepseek_v2_lite"
FILLING = tuple(name for name in HEURISTICS if not name.endswith(("-stop", "-hindsight")))
STOPPING = tuple(name for name in HEURISTICS if name.endswith("-stop"))
HELD_OUT = (*FILLING, "offload-time-stop")
RESTRICTIONS: dict[str, dict[str, Any]] = {
    "whole layers": {"restriction": "whole-layers"},
    "equal counts": {"restriction": "equal-counts"},
    "every slot": {"fill": True},
}


@dataclass(frozen=True)
class Solved:
    """Steps, the best placement for them, and how far below it the optimum may be."""

    instance: Instance
    best: Solution
    best_ns: int
    gap: float


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder with the traces")
    parser.add_argument("--only", help="name of one trace")
    parser.add_argument("--steps", type=int, default=100, help="steps of each part")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per optimum")
    parser.add_argument("--batches", default="1,16", help="tokens per step")
    parser.add_argument("--shares", default="0.1,0.25,0.5,0.75", help="of experts on the GPU")
    parser.add_argument("--offload-us", type=float, help="of an expert, instead of the CPU's time")
    arguments = parser.parse_args()
    tables = [
        _table("decided on", [*FILLING, "gap"]),
        _table("decided on", [*STOPPING, "slots used", "GPU later"]),
        _table("held out", [*HELD_OUT, "optimal", "gap"]),
        _table("restricted to", list(RESTRICTIONS)),
    ]
    for name, parts, options in _cells(arguments):
        for table, cells in zip(tables, _rows(parts, options, arguments), strict=True):
            table.append(f"| {name} | {' | '.join(cells)} |")
        print(name, flush=True)
    print("\n" + "\n\n".join("\n".join(table) for table in tables))


def _cells(arguments: argparse.Namespace) -> Iterator[tuple[str, list[Trace], dict[str, Any]]]:
    for file in sorted((arguments.traces / FOLDER).glob("*.npz")):
        if arguments.only not in (None, file.stem):
            continue
        trace = replace(moeopt.load_trace(file), name=file.stem)
        for batch in map(int, arguments.batches.split(",")):
            parts = list(hold_out(trace, batch=batch))
            for share in map(float, arguments.shares.split(",")):
                options: dict[str, Any] = {"batch": batch, "share": share}
                options |= {"batching": "streams", "steps": arguments.steps}
                if arguments.offload_us is not None:
                    options["offload_us"] = arguments.offload_us
                yield f"{file.stem}, batch {batch}, {share:.0%}", parts, options


def _rows(
    parts: list[Trace], options: dict[str, Any], arguments: argparse.Namespace
) -> Iterator[list[str]]:
    kept, later = (_solved(_instance(part, options), arguments.time_limit) for part in parts)
    yield [*(_excess(kept, name) for name in FILLING), f"{kept.gap:.3%}"]
    told = facts(kept.instance, kept.best)
    used = f"{told['slots_used']} of {kept.instance.gpu_slots}"
    stops = [_excess(kept, name) for name in STOPPING]
    yield [*stops, used, f"{int(told['gpu_bound_permille']) / 1000:.1%}"]
    plans = {name: HEURISTICS[name](kept.instance) for name in HELD_OUT} | {"optimal": kept.best}
    yield [*(_held_out(later, plan) for plan in plans.values()), f"{later.gap:.3%}"]
    yield [_restricted(kept, change, arguments.time_limit) for change in RESTRICTIONS.values()]


def _instance(part: Trace, options: dict[str, Any]) -> Instance:
    made = moeopt.generate(
        "placement", machine="rtx4090-7960x", model="deepseek-v2-lite", trace=part, **options
    )
    assert isinstance(made, Instance)
    return made


def _solved(instance: Instance, limit_s: float) -> Solved:
    found = moeopt.solve(instance, "price-and-swap", time_limit_s=limit_s)
    assert isinstance(found.objective, int)
    return Solved(instance, found.solution, found.objective, found.gap or 0.0)


def _excess(solved: Solved, rule: str) -> str:
    plan = HEURISTICS[rule](solved.instance)
    return "-" if plan is None else _percent(objective(solved.instance, plan), solved.best_ns)


def _held_out(later: Solved, plan: Solution | None) -> str:
    return "-" if plan is None else _percent(run_on(later.instance, plan), later.best_ns)


def _restricted(kept: Solved, change: dict[str, Any], limit_s: float) -> str:
    restricted = kept.instance.model_copy(update=change)
    found = moeopt.solve(restricted, "price-and-swap", time_limit_s=limit_s)
    if not isinstance(found.objective, int):
        return found.status
    proven = "" if found.status == "optimal" else f" (gap {found.gap:.3%})"
    return _percent(found.objective, kept.best_ns) + proven


def _percent(ns: int, best: int) -> str:
    return f"{100 * (ns / best - 1):.2f} %"


def _table(first: str, columns: list[str]) -> list[str]:
    return [f"| {' | '.join([first, *columns])} |", f"|---|{'---:|' * len(columns)}"]


if __name__ == "__main__":
    main()
