"""What layouts decided on some windows cost on later ones, by rule, and how much is to be gained.

    python benchmarks/studies/robust_layout.py --traces DIR --out FILE [--part pairs,windows,floor]
    python benchmarks/studies/robust_layout.py --out FILE --page
    python benchmarks/studies/robust_layout.py --traces DIR --out FILE --part models

The first measures and appends to FILE (what stands there is not measured again); the second writes
the table of `docs/later.md` and its figure anew from it, and prints the noise floor; the third
prints longest-first and `robust` by model, with intervals over traces.

DIR holds ``esft_deepseek_v2_lite/*.npz`` and ``hdmoe_mixtral_8x7b/*.npz``; what a trace reads twice
is removed, and the 600 tokens that all of HD-MoE's traces begin with. Windows have 256 tokens, the
machine is TriMoE's with 4 experts resident. A cell is a trace, a layer and eight windows that are
judged; what is decided knows only windows before them. Parts:

pairs    decided on the 8 windows before. Layers that the method was tuned on are not among these.
windows  decided on the 1, 2, 4, 8, 16 windows before, and on all of them.
models   as pairs, for longest-first and `robust` alone, on more traces of Mixtral; no window of a
         layer is used twice, and intervals are over whole traces.
floor    loads drawn from one popularity per layer, that of a whole trace: `robust` on 8 windows
         beside a layout that knows the popularity, by tokens per window.

Rules: `lpt` (longest-first) on the windows seen; these as near to their optimum as `bound-and-pack`
comes; `robust`, longest-first on sampled futures; and hindsight, `bound-and-pack` on the judged
windows themselves, of which the sum of the windows' own optima is the lower bound.
"""

import argparse
import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import moeopt
from benchmarks.rooms.layout import Instance, Options, Solution, execute_layout, of_loads
from benchmarks.rooms.sim import Source, get_model, read_trace
from benchmarks.rooms.study import interval
from moeopt import get_machine

ESFT, MIXTRAL = "esft_deepseek_v2_lite", "hdmoe_mixtral_8x7b"
MODELS = {ESFT: "deepseek-v2-lite", MIXTRAL: "mixtral-8x7b"}
SHARED_PROMPT = 600
BATCH, JUDGED, RESIDENT = 256, 8, 4
LAYERS = (1, 10, 17, 24)
TUNED_ON = (3, 5, 12, 14, 20, 22)
"""Layers of the ESFT traces that were looked at while the method was made."""

COUNTS = (1, 2, 4, 8, 16, 24)
BATCHES = (64, 128, 256, 512, 1024)
RULES = ("lpt", "windows seen, optimised", "robust", "hindsight")
SAMPLE_RULE, TUNED, _, HINDSIGHT = RULES
HINDSIGHT_WORK = 10.0
"""Units for an incumbent; with 30 the first cell's layouts are the same: bounds gain."""
OPTIMUM_S = 30.0
PAGE = Path(__file__).parents[2] / "docs" / "later.md"

Record = dict[str, Any]


def windows_of(file: Path, layer: int, batch: int = BATCH) -> NDArray[np.int64]:
    """Return the tokens of every expert in every window of a layer."""
    ids = moeopt.dedupe_trace(read_trace(file)).topk_ids
    ids = ids[SHARED_PROMPT if file.parent.name == MIXTRAL else 0 :, layer]
    experts = get_model(MODELS[file.parent.name]).routed_experts
    cut = ids[: len(ids) // batch * batch].reshape(-1, batch * ids.shape[1])
    return np.stack([np.bincount(row, minlength=experts) for row in cut]).astype(np.int64)


def layer_of(folder: str, loads: NDArray[np.int64], name: str, batch: int = BATCH) -> Instance:
    """Return the instance of given windows."""
    source = Source(get_machine("trimoe"), get_model(MODELS[folder]), quantum_ns=1, name=name)
    options = Options(batch=batch, hbm_slots=RESIDENT, layout_from="none")
    return of_loads(source, options, list(loads), name)


def optimised(instance: Instance) -> Solution:
    """Return a layout tuned to the windows of an instance, as near to their optimum as it comes."""
    return moeopt.solve(instance, "bound-and-pack", work_limit=HINDSIGHT_WORK).solution


def optima(instance: Instance) -> tuple[list[int], list[int]]:
    """Return every window's own best objective and bound."""
    best, bounds = [], []
    for scenario in instance.scenarios:
        alone = instance.model_copy(update={"scenarios": (scenario,)})
        result = moeopt.solve(alone, "bound-and-pack", time_limit_s=OPTIMUM_S, workers=1)
        best.append(result.objective)
        bounds.append(result.bound)
    return best, bounds


def decided(seen: Instance, rule: str) -> tuple[Solution, float]:
    """Return what a rule decides on the windows seen, and its seconds of processor time."""
    begin = time.process_time()
    if rule == TUNED:
        solution = optimised(seen)
    else:
        solution = moeopt.solve(seen, rule, time_limit_s=600.0, workers=1).solution
    return solution, time.process_time() - begin


def executed(judged: Instance, solution: Solution) -> dict[str, list[int]]:
    """Return the makespans of a layout under both schedulers."""
    names = ("exact", "trimoe")
    return {name: list(execute_layout(judged, solution, name).makespans_ns) for name in names}


def pairs(traces: Path) -> Iterator[tuple[str, Any]]:
    """Yield a key and what measures it for every cell of part "pairs"."""
    cells = [
        (file, layer, first)
        for file in sorted((traces / ESFT).glob("*.npz"))
        for layer in LAYERS
        for first in (0, 8, 16)
    ]
    cells += [(traces / MIXTRAL / f"{name}.npz", 10, 0) for name in ("coding", "writing")]
    for file, layer, first in sorted(cells, key=lambda cell: (LAYERS.index(cell[1]), cell[2])):
        yield f"pairs/{file.stem}/{layer}/{first}", (file, layer, first, (8,), RULES[:-1])


def by_model(traces: Path) -> Iterator[tuple[str, Any]]:
    """Yield the same of part "models"; the trace of Mixtral that is set aside is left out."""
    for folder, firsts in ((ESFT, (0, 16)), (MIXTRAL, (0,))):
        for file in sorted((traces / folder).glob("*.npz")):
            if file.stem != "extraction":
                for layer, first in product(LAYERS, firsts):
                    cell = (file, layer, first, (8,), (SAMPLE_RULE, "robust"))
                    yield f"models/{folder}/{file.stem}/{layer}/{first}", cell


def by_windows(traces: Path) -> Iterator[tuple[str, Any]]:
    """Yield the same of part "windows": the last windows of a trace are judged."""
    rules = (SAMPLE_RULE, TUNED, "robust")
    for file in sorted((traces / ESFT).glob("*.npz")):
        yield f"windows/{file.stem}", (file, LAYERS[1], 16, COUNTS, rules)


def measured(cell: Any) -> Record:
    """Return the judged windows' optima, and every rule's makespans by windows seen."""
    file, layer, first, counts, rules = cell
    loads = windows_of(file, layer)
    begin = first + 8
    judged = layer_of(file.parent.name, loads[begin : begin + JUDGED], f"{file.stem}-later")
    best, bounds = optima(judged)
    found: Record = {"optimum": best, "bound": bounds, "rules": {}}
    for count in counts:
        seen = layer_of(file.parent.name, loads[begin - count : begin], f"{file.stem}-seen")
        for rule in rules:
            solution, seconds = decided(seen, rule)
            found["rules"][f"{rule}/{count}"] = executed(judged, solution) | {"cpu_s": seconds}
    if TUNED in rules:
        found["rules"][f"{HINDSIGHT}/8"] = executed(judged, optimised(judged))
    return found


def floors(traces: Path) -> Iterator[tuple[str, Any]]:
    """Yield the cells of part "floor"."""
    for batch in BATCHES:
        for file in sorted((traces / ESFT).glob("*.npz"))[:2]:
            yield f"floor/{batch}/{file.stem}", (file, LAYERS[1], batch)


def floor(cell: Any) -> Record:
    """Return what `robust` and who knows the popularity lose on windows drawn from it."""
    file, layer, batch = cell
    popularity = windows_of(file, layer).sum(axis=0)
    tokens = batch * get_model(MODELS[ESFT]).top_k
    rng = np.random.default_rng(batch)

    def windows(number: int) -> Instance:
        drawn = rng.multinomial(tokens, popularity / popularity.sum(), number)
        return layer_of(ESFT, drawn, "drawn", batch)

    judged, seen = windows(JUDGED), windows(8)
    knowing = moeopt.solve(windows(256), "lpt").solution
    best, bounds = optima(judged)
    rules = {rule: executed(judged, decided(seen, rule)[0]) for rule in (SAMPLE_RULE, "robust")}
    rules["popularity known"] = executed(judged, knowing)
    rules[HINDSIGHT] = executed(judged, optimised(judged))
    return {"optimum": best, "bound": bounds, "rules": rules}


PARTS = {
    "pairs": (pairs, measured),
    "windows": (by_windows, measured),
    "models": (by_model, measured),
    "floor": (floors, floor),
}


def excess(records: list[Record], rule: str, schedule: str = "exact") -> NDArray[np.float64]:
    """Return a rule's excess over each judged window's own optimum, in percent."""
    return np.concatenate(
        [
            100 * (np.array(of["rules"][rule][schedule]) / np.array(of["optimum"]) - 1)
            for of in records
        ]
    )


def share(rule: float, sample_rule: float, hindsight: float) -> str:
    """Return the part of the gain that is possible at all, "-" if none is."""
    if sample_rule <= hindsight:
        return "-"
    return f"{100 * (sample_rule - rule) / (sample_rule - hindsight):.0f} %"


def pairs_table(records: list[Record]) -> list[str]:
    """Return the rules on later windows under both schedulers."""
    lines = [
        "| decided by | median / largest excess | mean | share of the possible gain, median / mean "
        "| better than longest-first | worse | by at most, points | TriMoE's schedule, median "
        "| processor s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    low, high = (excess(records, f"{rule}/8") for rule in (HINDSIGHT, SAMPLE_RULE))
    for rule in RULES:
        of, of_trimoe = (excess(records, f"{rule}/8", name) for name in ("exact", "trimoe"))
        shares = (
            share(float(np.median(of)), float(np.median(high)), float(np.median(low))),
            share(float(of.mean()), float(high.mean()), float(low.mean())),
        )
        seconds = [one["rules"][f"{rule}/8"].get("cpu_s") for one in records]
        cells = [
            f"{np.median(of):.1f} / {of.max():.1f} %",
            f"{of.mean():.1f} %",
            " / ".join(shares),
            f"{100 * np.mean(of < high - 1e-9):.0f} %",
            f"{100 * np.mean(of > high + 1e-9):.0f} %",
            f"{(of - high).max():.1f}",
            f"{np.median(of_trimoe):.1f} %",
            "-" if seconds[0] is None else f"{median(seconds):.1f}",
        ]
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    gaps = [
        100 * (sum(one["rules"][f"{HINDSIGHT}/8"]["exact"]) / sum(one["bound"]) - 1)
        for one in records
    ]
    open_ones = sum(
        best > bound
        for one in records
        for best, bound in zip(one["optimum"], one["bound"], strict=True)
    )
    change = excess(records, "robust/8") - high
    by_decision = change.reshape(len(records), -1).mean(axis=1)
    lines += [
        "",
        f"{len(low)} pairs of a decision and a later window, {len(records)} decisions. `robust` is"
        f" no worse than longest-first in {100 * np.mean(change < 1e-9):.0f} % of the pairs, and"
        f" worse by 3 points at most in {100 * np.mean(change <= 3):.0f} %; of the decisions,"
        f" over all windows, {100 * np.mean(by_decision < -1e-9):.0f} % are better, and the worst"
        f" is {by_decision.max():.1f} points worse. Hindsight's"
        f" bracket: at most {median(gaps):.1f} % (median; largest {max(gaps):.1f} %) above the sum"
        f" of the windows' own bounds. Windows without a proven optimum: {open_ones}.",
    ]
    return lines


def models_table(found: dict[str, Record]) -> list[str]:
    """Return both rules by model: medians over windows, intervals over traces."""
    lines = [
        "| model | traces | decisions | windows | longest-first | `robust` | `robust` less |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for folder, model in MODELS.items():
        of = {key: one for key, one in found.items() if key.startswith(f"models/{folder}/")}
        if not of:
            continue
        values = [excess(list(of.values()), f"{rule}/8") for rule in (SAMPLE_RULE, "robust")]
        traces = [key.split("/")[2] for key in of for _ in range(JUDGED)]
        cells = []
        for shown in (*values, values[0] - values[1]):
            low, high = interval(shown.tolist(), traces) or (np.nan, np.nan)
            cells.append(f"{np.median(shown):.1f} [{low:.1f} to {high:.1f}]")
        counts = f"{len(set(traces))} | {len(of)} | {len(traces)}"
        lines.append(f"| {model} | {counts} | {' | '.join(cells)} |")
    return lines


def floor_table(records: dict[int, list[Record]]) -> list[str]:
    """Return the noise floor by tokens per window."""
    rules = (SAMPLE_RULE, "robust", "popularity known", HINDSIGHT)
    lines = [f"| tokens | {' | '.join(rules)} |", "|---:|" + "---:|" * len(rules)]
    for batch, of in sorted(records.items()):
        cells = [f"{np.median(excess(of, rule)):.1f} %" for rule in rules]
        lines.append(f"| {batch} | {' | '.join(cells)} |")
    return lines


def draw_figure(records: list[Record], file: Path) -> None:
    """Draw the mean excess against the number of windows seen."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "robust"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    for rule in (SAMPLE_RULE, TUNED, "robust"):
        means = [excess(records, f"{rule}/{count}").mean() for count in COUNTS]
        axes.plot(range(len(COUNTS)), means, marker="o", label=rule)
    hindsight = excess(records, f"{HINDSIGHT}/8").mean()
    axes.axhline(hindsight, color="grey", linestyle="--", label="hindsight")
    axes.set_xticks(range(len(COUNTS)), [str(count) for count in COUNTS])
    axes.set_xlabel("windows observed")
    axes.set_ylabel("mean excess on later windows, %")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def page(found: dict[str, Record]) -> None:
    """Rewrite the table and the figure of the page; print the noise floor."""
    text = PAGE.read_text()
    of_part = {part: [of for key, of in found.items() if key.startswith(part)] for part in PARTS}
    by_batch: dict[int, list[Record]] = {}
    for key, of in found.items():
        if key.startswith("floor"):
            by_batch.setdefault(int(key.split("/")[1]), []).append(of)
    begin, end = "<!-- pairs: begin -->\n", "<!-- pairs: end -->"
    before, _, rest = text.partition(begin)
    lines = [*pairs_table(of_part["pairs"]), end]
    text = before + begin + "\n".join(lines) + rest.partition(end)[2]
    PAGE.write_text(text)
    draw_figure(of_part["windows"], PAGE.with_name("robust.svg"))
    print(*floor_table(by_batch), sep="\n")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, help="folder with the traces")
    parser.add_argument("--out", type=Path, required=True, help="JSON lines of what was measured")
    parser.add_argument("--part", default="pairs,windows,floor", help="comma-separated")
    parser.add_argument("--page", action="store_true", help="write the page from what was measured")
    arguments = parser.parse_args()
    lines = arguments.out.read_text().splitlines() if arguments.out.exists() else []
    found: dict[str, Record] = dict(json.loads(line) for line in lines)
    if arguments.page:
        page(found)
        return
    for part in arguments.part.split(","):
        cells, measure = PARTS[part]
        for key, cell in cells(arguments.traces):
            if key not in found:
                with arguments.out.open("a") as file:
                    file.write(json.dumps([key, measure(cell)]) + "\n")
                print(key, flush=True)
    if "models" in arguments.part:
        lines = arguments.out.read_text().splitlines()
        print(*models_table(dict(json.loads(line) for line in lines)), sep="\n")


if __name__ == "__main__":
    main()
