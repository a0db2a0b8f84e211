"""Several copies of an expert on the DIMMs: what they cost in memory, and what they buy in time.

    python benchmarks/studies/dimm_copies.py --traces DIR [--tables price,curve] [--cells 39]
        [--rows FILE.jsonl] [--figure FILE.svg]

``price``: families of layout with several windows, whose loads are known: the best layout found
with as much memory as so many copies take, over the best one found with one copy; brackets.
``curve``: decided on 8 windows of 256 tokens, run on the next 8, every one scheduled exactly; the
excess over each later window's own optimum with one copy, proven, by memory. DIR holds
``esft_deepseek_v2_lite/*.npz``; a cell is a trace and a layer.

Memory is counted in copies per expert: 1.25 is a quarter more bytes than the weights have, rounded
down to whole experts over all DIMMs. ``--rows`` keeps one line per cell and rule, and goes on with
those that are missing. Median / maximum where two numbers stand.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import moeopt
from benchmarks.rooms.layout import Copies, Instance, execute_layout, objective, windows_of
from benchmarks.rooms.sim import read_trace

LIBRARY = Path(__file__).parents[2] / "instances"
WINDOWS = ("esft-windows", "windows")
MEMORY = (1.0, 1.25, 1.5, 2.0, 3.0)
EXPERT_BYTES = 2**24
"""Of 16 DIMMs' shares whole; what counts is how many experts fit."""

SETTING = {
    "machine": "trimoe",
    "model": "deepseek-v2-lite",
    "batch": 256,
    "batching": "window",
    "hbm_slots": 4,
    "quantum_ns": 1,
    "layout_from": "none",
    "windows": 8,
}
RULES: tuple[tuple[str, float | None], ...] = (
    ("bound-and-pack", None),
    ("lpt", None),
    ("dual-copies", 2.0),
    ("two-localized", 2.0),
    *(("copies-by-load", memory) for memory in MEMORY),
)
"""Rule -> copies per expert that there is memory for; None: one copy each, no limit of memory."""

DECISION_S = 8.0
OWN_S = 20.0
PRICE_S = 15.0
TARGET = 0.09


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, help="folder with esft_deepseek_v2_lite/*.npz")
    parser.add_argument("--tables", default=",".join(TABLES), help="comma-separated")
    parser.add_argument("--cells", type=int, default=39, help="how many, of 39")
    parser.add_argument("--rows", type=Path, help="lines to keep and to go on from, JSON")
    parser.add_argument("--figure", type=Path, help="also draw the curve: .svg, .png or .pdf")
    arguments = parser.parse_args()
    for name in arguments.tables.split(","):
        if name == "curve" and arguments.traces is None and arguments.rows is None:
            parser.error("--tables curve: needs --traces or --rows")
        for line in TABLES[name](arguments):
            print(line, flush=True)
        print()


def with_memory(instance: Instance, copies: float | None) -> Instance:
    """Return the instance with memory for so many copies of each expert on average."""
    if copies is None:
        return instance
    room = int(copies * instance.experts) * EXPERT_BYTES // instance.dimms
    several = Copies(max_per_expert=3, expert_bytes=EXPERT_BYTES, dimm_bytes=room)
    return instance.model_copy(update={"schema_version": 2, "copies": several})


def price(_: argparse.Namespace) -> Iterator[str]:
    """Yield the table of layouts with copies over layouts with one, the windows known."""
    columns = [f"{memory:g} copies" for memory in MEMORY[1:]]
    yield "| instance | windows | one copy: bound, best | " + " | ".join(columns) + " | bound |"
    yield "|---|---:|---:|" + "---:|" * (len(columns) + 1)
    known = json.loads((LIBRARY / "layout" / "best_known.json").read_text())
    for key, entry in known.items():
        if not key.startswith(tuple(f"{family}/" for family in WINDOWS)):
            continue
        instance = moeopt.load(LIBRARY / "layout" / key)
        if len(instance.scenarios) == 1 or "later" in key:
            continue
        cells, bound = [], 0
        for memory in MEMORY[1:]:
            result = moeopt.solve(
                with_memory(instance, memory), "bound-and-pack", time_limit_s=PRICE_S
            )
            cells.append(f"{result.objective / entry['objective']:.3f}")
            bound = max(bound, result.bound)
        one = f"{entry['bound'] / entry['objective']:.3f}, 1"
        cells.append(f"{bound / entry['objective']:.3f}")
        shown = f"{key.removesuffix('.json')} | {len(instance.scenarios)} | {one}"
        yield f"| {shown} | {' | '.join(cells)} |"


def curve(arguments: argparse.Namespace) -> Iterator[str]:
    """Yield the table of excess on later windows by rule and memory, and draw the figure."""
    rows = list(_rows(arguments))
    yield (
        "| rule | copies per expert | on the windows decided on | on later windows | at most 9 % "
        "| decisions | pairs | schedules proven |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|---:|"
    points = []
    for rule, memory in RULES:
        mine = [row for row in rows if (row["rule"], row["copies"]) == (rule, memory)]
        later = [excess for row in mine for excess in row["later"]]
        if not later:
            continue
        seen = [row["seen"] for row in mine]
        within = sum(excess <= TARGET for excess in later) / len(later)
        proven = sum(row["proven"] for row in mine) / len(later)
        shown = "1, no limit" if memory is None else f"{memory:g}"
        yield (
            f"| `{rule}` | {shown} | {_share(seen)} | {_share(later)} | {within:.0%} "
            f"| {len(mine)} | {len(later)} | {proven:.0%} |"
        )
        points.append((rule, memory, later, seen))
    if arguments.figure is not None:
        _draw(points, arguments.figure)


def _rows(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield one row per cell and rule, those known first."""
    known: dict[tuple[str, str, float | None], dict[str, Any]] = {}
    if arguments.rows is not None and arguments.rows.exists():
        for line in arguments.rows.read_text().splitlines():
            row = json.loads(line)
            known[row["cell"], row["rule"], row["copies"]] = row
    yield from known.values()
    if arguments.traces is None:
        return
    files = sorted((arguments.traces / "esft_deepseek_v2_lite").glob("*.npz"))
    cells = [(file, layer) for layer in range(0, 26, 2) for file in files]
    for file, layer in cells[: arguments.cells]:
        cell = f"{file.stem}-layer{layer}"
        missing = [of for of in RULES if (cell, *of) not in known]
        if not missing:
            continue
        options = SETTING | {"trace": read_trace(file), "layer": layer}
        seen = moeopt.generate("layout", **options, first_window=0)
        later = moeopt.generate("layout", **options, first_window=8)
        alone = [_own(window) for window in windows_of(later)]
        floor = sum(_own(window) for window in windows_of(seen))
        for rule, memory in missing:
            row = {"cell": cell, "rule": rule, "copies": memory}
            row |= _judged(with_memory(seen, memory), with_memory(later, memory), rule, alone)
            row["seen"] = row["seen"] / floor - 1
            if arguments.rows is not None:
                with arguments.rows.open("a") as file_of_rows:
                    file_of_rows.write(json.dumps(row) + "\n")
            yield row


def _own(window: Instance) -> int:
    """Return the least makespan of a window over all layouts of one copy each, proven."""
    result = moeopt.solve(window, "bound-and-pack", time_limit_s=OWN_S)
    return int(result.bound or 0)


def _judged(seen: Instance, later: Instance, rule: str, own: Sequence[int]) -> dict[str, Any]:
    """Return what a rule's layout costs where it was decided, and its excess on later windows."""
    decision = moeopt.solve(seen, rule, time_limit_s=DECISION_S).solution
    run = execute_layout(later, decision)
    excess = [ns / best - 1 for ns, best in zip(run.makespans_ns, own, strict=True)]
    best_schedules = execute_layout(seen, decision)
    return {
        "seen": min(objective(seen, decision), best_schedules.objective_ns),
        "later": excess,
        "proven": len(own) - run.unproven,
    }


def _share(values: Sequence[float]) -> str:
    return f"{100 * median(values):.1f} / {100 * max(values):.1f} %"


def _draw(points: Sequence[tuple[str, float | None, list[float], list[float]]], path: Path) -> None:
    """Draw the excess by memory: the informed rule's curve, and the others as single points."""
    from matplotlib.figure import Figure

    from benchmarks.rooms.problems import save_figure

    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.add_subplot()
    informed = [(m, later, seen) for rule, m, later, seen in points if rule == "copies-by-load"]
    memory = [m for m, _, _ in informed]
    quartiles = [sorted(later) for _, later, _ in informed]
    low = [100 * of[len(of) // 4] for of in quartiles]
    high = [100 * of[3 * len(of) // 4] for of in quartiles]
    axes.fill_between(memory, low, high, color="#4477aa", alpha=0.2, linewidth=0)
    medians = [100 * median(later) for _, later, _ in informed]
    axes.plot(memory, medians, "o-", color="#4477aa", label="copies-by-load, later windows")
    inside = [100 * median(seen) for _, _, seen in informed]
    axes.plot(memory, inside, "o--", color="#66ccee", label="copies-by-load, windows decided on")
    marks = {"bound-and-pack": "s", "lpt": "v", "dual-copies": "D", "two-localized": "^"}
    for rule, m, later, _ in points:
        if rule in marks:
            shown = f"{rule}, later windows"
            axes.plot([m or 1.0], [100 * median(later)], marks[rule], color="#333333", label=shown)
    axes.axhline(100 * TARGET, color="#999999", linewidth=0.8)
    axes.set_xlabel("memory in copies per expert")
    axes.set_ylabel("excess over each window's own optimum, %")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, path)


TABLES: Mapping[str, Callable[[argparse.Namespace], Iterator[str]]] = {
    "price": price,
    "curve": curve,
}


if __name__ == "__main__":
    main()
