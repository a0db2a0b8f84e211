"""What decisions cost on later loads, by how much later, on real traces, with intervals.

    python benchmarks/studies/holdout_distance.py --traces DIR [--full] [--problems layout,cache]

DIR holds ``esft_deepseek_v2_lite/*.npz`` and ``hdmoe_mixtral_8x7b/*.npz``; what a trace reads twice
is removed first, and behind it the 600 tokens of a prompt that all of HD-MoE's traces share. Every
trace is cut into stretches; what was decided on one is used on every later one:

layout     a window of 256 tokens in one layer of DeepSeek-V2-Lite on TriMoE's machine, as in
           instances/layout/esft-first-later. Mixtral's eight experts leave nothing to decide there.
           TriMoE's rule as its assumption reads it, and with 70 % of the experts localized.
placement  100 steps of one token of DeepSeek-V2-Lite with room for a quarter of the experts, and
           200 of Mixtral-8x7B on 24 GB, on the CPU-GPU collaborative paper's machine.
cache      300 and 400 tokens of the two on that machine, as in instances/cache.

Prints a Markdown row for each problem, model, rule and distance: the median excess over the optimum
in hindsight where the decision was made and later; the 95 % interval of the latter, bootstrapped
over traces; the largest; the least and the largest median of the single traces; decisions and
pairs. Only proven optima count. Without ``--full`` fewer
layers and stretches.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import moeopt
from benchmarks.rooms.core import InstanceEnvelope
from benchmarks.rooms.sim import Trace, read_trace
from benchmarks.rooms.study import (
    OPTIMUM,
    HeldOutRow,
    Store,
    Study,
    distance_in_words,
    excesses,
    summary,
)

ESFT, MIXTRAL = "esft_deepseek_v2_lite", "hdmoe_mixtral_8x7b"
MODELS = {ESFT: "deepseek-v2-lite", MIXTRAL: "mixtral-8x7b"}
SHARED_PROMPT = 600
"""Tokens with which every trace of HD-MoE begins."""


@dataclass(frozen=True)
class Setting:
    """Instances that differ in trace, layer and stretch of time.

    Attributes
    ----------
    problem, folder, rules
        What is decided, on which traces, by which heuristics besides the optimum.
    first
        The generator's option that says where a stretch begins.
    quick, full
        Where they begin, in both modes.
    options
        Of the generator, the same for all; `layers` and `full_layers` are taken one by one.
    """

    problem: str
    folder: str
    rules: tuple[str, ...]
    first: str
    quick: Sequence[int]
    full: Sequence[int]
    options: dict[str, Any]
    layers: Sequence[int | None] = (None,)
    full_layers: Sequence[int | None] = (None,)

    def instances(self, trace: Trace, full: bool) -> Iterator[InstanceEnvelope]:
        """Yield an instance for every layer and stretch of a trace."""
        for layer in self.full_layers if full else self.layers:
            chosen = self.options if layer is None else self.options | {"layer": layer}
            for begin in self.full if full else self.quick:
                which = {self.first: begin, "model": MODELS[self.folder], "trace": trace}
                yield moeopt.generate(self.problem, **chosen, **which)


DESKTOP = {"machine": "rtx4090-7960x"}
LAYOUTS = ("lpt", "trimoe-layout", "trimoe-layout[cold_cut=experts 0.7]")
RESIDENTS = ("frequency",)
WAYS = ("best-uniform", "greedy-marginal")
SETTINGS = (
    Setting(
        *("layout", ESFT, LAYOUTS, "first_window"),
        quick=(0, 1, 6, 16),
        full=(0, 1, 6, 11, 12, 17, 22, 23, 30),
        options={"machine": "trimoe", "batch": 256, "hbm_slots": 4, "quantum_ns": 1},
        layers=(4, 17),
        full_layers=range(0, 26, 2),
    ),
    Setting(
        *("placement", ESFT, RESIDENTS, "first_step"),
        quick=(0, 100, 2600, 2700),
        full=[at + more for at in range(0, 7000, 1300) for more in (0, 100)],
        options=DESKTOP | {"share": 0.25, "steps": 100, "rules_know": "steps"},
    ),
    Setting(
        *("placement", MIXTRAL, RESIDENTS, "first_step"),
        quick=(0, 200, 1400),
        full=(0, 200, 1400, 1600, 2400),
        options=DESKTOP | {"reserved_gib": 1.5, "steps": 200, "rules_know": "steps"},
    ),
    Setting(
        *("cache", ESFT, WAYS, "first_token"),
        quick=(0, 300, 3200, 3500),
        full=[at + more for at in range(0, 7000, 1600) for more in (0, 300)],
        options=DESKTOP | {"slots": 416, "tokens": 300},
    ),
    Setting(
        *("cache", MIXTRAL, WAYS, "first_token"),
        quick=(0, 400, 1900),
        full=(0, 400, 1800, 2200),
        options=DESKTOP | {"threads": 24, "slots": 56, "tokens": 400},
    ),
)


@dataclass(frozen=True)
class Measured:
    """A row: what a rule costs at a distance, and the medians of the single traces."""

    setting: Setting = field(repr=False)
    held_out: HeldOutRow
    by_trace: dict[str, float]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder with the traces")
    parser.add_argument("--full", action="store_true", help="more layers and stretches")
    parser.add_argument("--problems", default="layout,placement,cache", help="comma-separated")
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds per optimum")
    arguments = parser.parse_args()
    names = arguments.problems.split(",")
    chosen = [setting for setting in SETTINGS if setting.problem in names]
    print(HEADER, flush=True)
    for setting in chosen:
        found = measured(setting, arguments.traces, arguments.full, arguments.time_limit)
        print("\n".join(line(row) for row in found), flush=True)


def figures(traces: Path) -> tuple[str, str]:
    """Return finding 2 as it was, and what this study says of the same rules in its quick mode."""
    before = (
        "layout: optimum 20 / 52 %, longest-first 10 / 62 %, TriMoE's rule 23 / 63 %; placement:"
        " counts 4.3, optimum 5.3 %; cache 0.6 %"
    )
    said = []
    for setting in SETTINGS:
        where = f"{setting.problem}, {MODELS[setting.folder]}"
        for row in measured(setting, traces):
            one = row.held_out
            interval = f"({_interval(one)}; {one.pairs} pairs)"
            said.append(f"{where}, {one.method}, {one.distance}: {_percent(one.later)} {interval}")
    return before, "; ".join(said)


def measured(
    setting: Setting, traces: Path, full: bool = False, time_limit_s: float = 30.0
) -> list[Measured]:
    """Return a row for each distance and rule, the nearest and the best first.

    Parameters
    ----------
    traces
        Folder that holds the setting's folder.
    full
        Whether all layers and stretches are taken.
    time_limit_s
        For each optimum.
    """
    with Store() as store:
        made = [
            instance
            for file in sorted((traces / setting.folder).glob("*.npz"))
            for instance in setting.instances(_once(file, setting.folder), full)
        ]
        if not made:
            raise SystemExit(f"{traces / setting.folder}: holds no traces")
        table = moeopt.gap(made, setting.rules, time_limit_s=time_limit_s, store=store)
        study = Study.of(table.frame, store, "")
    solves = study.frame.assign(label=study.frame.method)
    found = excesses(setting.problem, solves, study.instances, study.optima(solves))
    trace_of = {key: _trace(instance) for key, instance in study.instances.items()}
    result = []
    every = ((decade, *one) for decade, of in found.items() for one in of.items())
    for decade, rule, decisions in every:
        parts: dict[str, list[float]] = {}
        for key, pairs in decisions.items():
            parts.setdefault(trace_of[key], []).append(median(one.later for one in pairs))
        words = distance_in_words(setting.problem, decade)
        row = summary(rule, words, decisions, trace_of)
        medians = {name: median(values) for name, values in parts.items()}
        result.append((decade, Measured(setting, row, medians)))
    result.sort(key=lambda one: (one[0], one[1].held_out.method != OPTIMUM, one[1].held_out.later))
    return [row for _, row in result]


def _once(file: Path, folder: str) -> Trace:
    """Return what is left of a trace without repeats and without the prompt that all share."""
    trace = moeopt.dedupe_trace(read_trace(file))
    if folder != MIXTRAL:
        return trace
    return Trace(trace.name, trace.topk_ids[SHARED_PROMPT:], facts=trace.facts)


def _trace(instance: InstanceEnvelope) -> str:
    name = (instance.provenance or {})["trace"]["name"]
    return str(name)


HEADER = (
    "| decision | model | decided by | later loads | known | later | 95 % | largest | by trace "
    "| decisions | pairs |\n|---|---|---|---|---:|---:|---:|---:|---:|---:|---:|"
)


def line(row: Measured) -> str:
    """Return a row of the table."""
    one, medians = row.held_out, row.by_trace.values()
    cells = [row.setting.problem, MODELS[row.setting.folder], one.method, one.distance]
    cells += [_percent(one.known), _percent(one.later), _interval(one), _percent(one.later_max)]
    cells += [f"{_percent(min(medians))} to {_percent(max(medians))}"]
    cells += [str(one.decisions), str(one.pairs)]
    return f"| {' | '.join(cells)} |"


def _interval(one: HeldOutRow) -> str:
    return "-" if one.interval is None else " to ".join(map(_percent, one.interval))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    main()
