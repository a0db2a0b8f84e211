"""What moving experts between windows brings: how many, how often, and by what knowledge.

    python benchmarks/studies/recourse.py --traces DIR [--full] [--store FILE] [--figure FILE]

DIR holds ``esft_deepseek_v2_lite/*.npz`` and ``hdmoe_mixtral_8x7b/*.npz``. What a trace reads twice
is removed first, and behind it the 600 tokens of a prompt that all of HD-MoE's traces share. A
layer on TriMoE's machine gets a layout from eight windows of 256 tokens, by longest-first or, with
``--decide``, by another method of `layout`; then come eight windows. Before each of them experts
may migrate as an instance of `relayout` has it: each move between DIMMs takes 157.5 us of
DIMM-Link, each prefetch its transfer over PCIe, and 0.68 ms of either are hidden by what the GPU
computes meanwhile (TriMoE 5.5); what goes beyond delays the layer. A prefetched expert takes the
place of one of the two residents with fewest tokens expected.

What is known before a window is one of four things. ``forecast``: the layer's loads up to the
window before, which is what TriMoE's predictor has seen (4.3, Eq. 8). ``routes``: besides, which
experts of the two layers before the window's own tokens took, which is known when the layer's
attention begins, and which the paper does not use. By either, method ``robust`` decides migrations
on futures sampled from a forecast. ``loads``: the loads of the window itself, which no predictor
has, each window on the layout that the one before left. ``limit``: the same, but every window
starts from the first layout: what so many moves can bring, as far as the search finds it.

Every window has its best schedule; excess is over the window's own optimum, with a layout of its
own. Prints Markdown tables over pairs of a layout and a later window. Without ``--full`` fewer
cells. A store keeps what was measured; a later run with it goes on from there.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from recourse_windows import (
    ESFT,
    HIDDEN,
    LATER,
    MIXTRAL,
    MODELS,
    NOTHING,
    OBSERVED,
    Cell,
    Measured,
    Policy,
    Windows,
    routes_of,
    run,
)

ESFT_TRACES = ("intent", "law", "summary")
STARTS = (0, 8, 16)

MAIN = (NOTHING, Policy("forecast"), Policy("routes"), Policy("loads"))
"""On all cells."""

KNOWN = {
    "forecast": ("forecast from earlier windows", "#4477aa"),
    "loads": ("loads known, layout as the window before left it", "#ee6677"),
    "limit": ("loads known, from the first layout", "#228833"),
}
MOVES = (0, 1, 2, 4, 8, 16)
OFTEN = tuple(Policy(known, None, every) for known in ("forecast", "loads") for every in (4, LATER))
CURVE = tuple(Policy(known, moves) for known in KNOWN for moves in MOVES)
CURVE_START, CURVE_LAYERS = 16, (1, 11, 21)
"""How many moves, and how often: on the cells that begin here, in these layers."""


def cells(full: bool) -> Iterator[Cell]:
    """Yield the cells: starts that leave all sixteen windows, and some layers."""
    for trace in ESFT_TRACES:
        for layer in range(1, 26, 5 if full else 12):
            for start in STARTS if full else STARTS[::2]:
                yield Cell(ESFT, trace, layer, start)
    for trace in ("coding", "humanities", "writing") if full else ("writing",):
        for layer in range(4, 32, 8 if full else 16):
            yield Cell(MIXTRAL, trace, layer, 0)


def measured(
    chosen: Sequence[Cell],
    policies: Sequence[Policy],
    traces: Path,
    method: str = "lpt",
    store: Path | None = None,
) -> Iterator[Measured]:
    """Yield every later window of every cell under every policy.

    What is in the store is not measured again: optima by cell, rows by cell and policy.
    """
    known: dict[str, dict[str, list[Any]]] = {"optima": {}, "rows": {}}
    if store is not None and store.exists():
        known = json.loads(store.read_text())
    for cell in chosen:
        of_cell = f"{cell.folder} {cell.trace} {cell.layer} {cell.start}"
        keys = [f"{of_cell} {method} {p.known} {p.moves} {p.every}" for p in policies]
        if of_cell not in known["optima"] or not known["rows"].keys() >= set(keys):
            windows = Windows(cell, routes_of(cell, traces))
            if of_cell not in known["optima"]:
                window = range(OBSERVED, OBSERVED + LATER)
                known["optima"][of_cell] = [windows.optimum_ns(at) for at in window]
            start = windows.decided(method)
            for policy, key in zip(policies, keys, strict=True):
                if key not in known["rows"]:
                    found = run(windows, start, known["optima"][of_cell], policy)
                    known["rows"][key] = [
                        [m.makespan_ns, m.delay_ns, m.optimum_ns, m.moves, m.prefetches]
                        for m in found
                    ]
                    if store is not None:
                        store.write_text(json.dumps(known))
        for policy, key in zip(policies, keys, strict=True):
            yield from (Measured(cell, policy, *row) for row in known["rows"][key])


def quartiles(excess: Sequence[float]) -> str:
    """Return median, upper quartile and maximum as cells in percent."""
    shares = np.quantile(excess, [0.5, 0.75, 1.0])
    return " | ".join(f"{100 * share:.1f} %" for share in shares)


def table(found: Sequence[Measured]) -> Iterator[str]:
    """Yield a Markdown row for each policy."""
    yield (
        "| known | decided | moves allowed | moves made | prefetches | pairs | median "
        "| upper quartile | maximum | all hidden, median | better than none |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    unmoved = {
        (m.cell, turn): m.excess for m, turn in _turns(m for m in found if m.policy == NOTHING)
    }
    for policy in dict.fromkeys(m.policy for m in found):
        rows = list(_turns(m for m in found if m.policy == policy))
        often = {1: "every window", LATER: "once"}.get(policy.every, f"every {policy.every}")
        moves = HIDDEN if policy.moves is None else policy.moves
        cells = [policy.known, often, str(moves)]
        if policy == NOTHING:
            cells = ["nothing", "never", "0"]
        cells.append(f"{np.mean([m.moves for m, _ in rows]):.1f}")
        cells.append(f"{np.mean([m.prefetches for m, _ in rows]):.1f}")
        better = sum(m.excess < unmoved[m.cell, turn] for m, turn in rows)
        free = np.median([m.free_excess for m, _ in rows])
        cells += [str(len(rows)), quartiles([m.excess for m, _ in rows])]
        cells += [f"{100 * free:.1f} %", f"{100 * better / len(rows):.0f} %"]
        yield f"| {' | '.join(cells)} |"


def _turns(found: Iterable[Measured]) -> Iterator[tuple[Measured, int]]:
    """Yield each with the number of its window in its cell."""
    for number, one in enumerate(found):
        yield one, number % LATER


def draw_curve(found: Sequence[Measured], path: Path) -> None:
    """Write excess against moves per window as a picture; needs the extra `report`."""
    from matplotlib.figure import Figure

    from benchmarks.rooms.problems import save_figure

    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axis: Any = figure.subplots()
    at = np.arange(len(MOVES))
    for known, (about, colour) in KNOWN.items():
        for style, name in (("-", "excess"), (":", "free_excess")):
            medians = [
                100
                * np.median([getattr(m, name) for m in found if m.policy == Policy(known, moves)])
                for moves in MOVES
            ]
            label = about if style == "-" else None
            axis.plot(at, medians, style, color=colour, marker="o", markersize=4, label=label)
    level = 100 * np.median([m.excess for m in found if m.policy == NOTHING])
    axis.axhline(level, color="#777777", linestyle="--", label="no migration")
    axis.set_xticks(at, [str(moves) for moves in MOVES])
    axis.set_xlabel("experts moved per window, at most; dotted: as if all moves were hidden")
    axis.set_ylabel("median excess over own optimum, %")
    axis.set_ylim(0, 2 * level)
    axis.legend(fontsize="small", frameon=False)
    save_figure(figure, path)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder with the traces")
    parser.add_argument("--full", action="store_true", help="all cells")
    parser.add_argument("--decide", default="lpt", help="method of layout for the first layout")
    parser.add_argument("--store", type=Path, help="JSON file that keeps what was measured")
    parser.add_argument("--figure", type=Path, help="draw the curve: .svg, .png or .pdf")
    arguments = parser.parse_args()
    chosen = list(cells(arguments.full))
    setting = (arguments.traces, arguments.decide, arguments.store)

    def show(title: str, of: Sequence[Cell], policies: Sequence[Policy]) -> list[Measured]:
        found = list(measured(of, policies, *setting))
        print(f"\n{title}\n\n" + "\n".join(table(found)), flush=True)
        return found

    for folder in (ESFT, MIXTRAL):
        show(MODELS[folder], [cell for cell in chosen if cell.folder == folder], MAIN)
    of_curve = [
        Cell(ESFT, trace, layer, CURVE_START) for layer in CURVE_LAYERS for trace in ESFT_TRACES
    ]
    found = show("how many, and how often", of_curve, (NOTHING, *OFTEN, *CURVE))
    if arguments.figure is not None:
        draw_curve(found, arguments.figure)


if __name__ == "__main__":
    main()
