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

What is known before a window is one of three things. ``forecast``: the layer's loads up to the
window before, which is what TriMoE's predictor has seen (4.3, Eq. 8); migrations are decided by
method ``robust`` on futures sampled from them. ``loads``: the loads of the window itself, which no
predictor has, each window on the layout that the one before left. ``limit``: the same, but every
window starts from the first layout: what so many moves can bring, as far as the search finds it.

Every window has its best schedule; excess is over the window's own optimum, with a layout of its
own. Prints Markdown tables over pairs of a layout and a later window. Without ``--full`` fewer
cells. A store keeps what was measured; a later run with it goes on from there.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import moeopt
from moeopt.interop.traces import read_trace
from moeopt.problems.futures import Futures
from moeopt.problems.layout.instance import Instance as LayoutInstance
from moeopt.problems.relayout.futures import Layouts
from moeopt.problems.relayout.instance import STRIPED, Instance
from moeopt.problems.relayout.robust import decide
from moeopt.problems.relayout.solution import Migration
from moeopt.problems.search import Search
from moeopt.sim.forecast.relayout import draw
from moeopt.sim.generators import layout as layouts
from moeopt.sim.generators.relayout import Options, on_layout
from moeopt.sim.layout_rule import Layout
from moeopt.sim.presets import get_machine, get_model
from moeopt.sim.source import Source
from moeopt.sim.trace import Trace

ESFT, MIXTRAL = "esft_deepseek_v2_lite", "hdmoe_mixtral_8x7b"
MODELS = {ESFT: "deepseek-v2-lite", MIXTRAL: "mixtral-8x7b"}
SHARED_PROMPT = 600
"""Tokens with which every trace of HD-MoE begins."""

BATCH, OBSERVED, LATER, SLOTS = 256, 8, 8, 4
"""Tokens in a window, windows decided on, windows after them, and experts in the GPU's memory."""

HIDDEN = 4
"""Moves that are over within the attention window (TriMoE 5.5)."""

REPLACED = 2
"""Residents that prefetched experts may take the place of."""

SAMPLES = 64

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Cell:
    """A layer of a trace, and the first of its sixteen windows."""

    folder: str
    trace: str
    layer: int
    start: int

    @property
    def source(self) -> Source:
        """What instances are made of."""
        name = f"{self.trace}-layer{self.layer}-window{self.start}"
        return Source(
            get_machine("trimoe"), get_model(MODELS[self.folder]), quantum_ns=1, name=name
        )


@dataclass(frozen=True)
class Policy:
    """Which migrations may be made.

    Attributes
    ----------
    known
        "forecast" or "loads", see the module; "nothing" moves nothing.
    moves
        At most so many experts move over DIMM-Link before a window; None: no more than are hidden,
        and those of a decision are spread over the windows until the next.
    every
        Migrations are decided before every so many windows.
    """

    known: str
    moves: int | None = HIDDEN
    every: int = 1


NOTHING = Policy("nothing")
MOVES = (0, 1, 2, 4, 8, 16)
OFTEN = tuple(Policy(known, None, every) for known in ("forecast", "loads") for every in (4, LATER))
CURVE = tuple(Policy(known, moves) for known in ("forecast", "loads", "limit") for moves in MOVES)
CURVE_STARTS = (16,)
"""Cells of the curve, and of how often, begin here: a third of all."""

MAIN = (NOTHING, Policy("forecast"), Policy("loads"), Policy("limit"))


@dataclass
class State:
    """Where the experts are, and the moves that are decided but not made."""

    resident: NDArray[np.bool_]
    dimm: Ints
    waiting: list[Migration] = field(default_factory=list)


@dataclass(frozen=True)
class Measured:
    """One later window after a policy's migrations.

    Attributes
    ----------
    makespan_ns, delay_ns
        Of the layer, and for how long its migrations go on after the attention window.
    optimum_ns
        The window's own best layout and schedule.
    moves, prefetches
        How many experts moved over DIMM-Link and PCIe before the window.
    """

    cell: Cell
    policy: Policy
    makespan_ns: int
    delay_ns: int
    optimum_ns: int
    moves: int
    prefetches: int

    @property
    def excess(self) -> float:
        """Relative, the delay counted."""
        return (self.makespan_ns + self.delay_ns) / self.optimum_ns - 1

    @property
    def free_excess(self) -> float:
        """Relative, as if all migrations were hidden."""
        return self.makespan_ns / self.optimum_ns - 1


class Windows:
    """The windows of one cell as instances of `layout` and `relayout`."""

    def __init__(self, cell: Cell, loads: Ints) -> None:
        self.cell, self.loads = cell, loads
        self.source = cell.source

    def layout(self, first: int, number: int) -> LayoutInstance:
        """Return the layout instance of some windows, counted from the cell's first."""
        options = layouts.Options(batch=BATCH, layer=self.cell.layer, hbm_slots=SLOTS)
        windows = list(self.loads[first : first + number])
        return layouts.of_loads(self.source, options, windows, f"{self.source.name}-{first}")

    def relayout(
        self, tokens: Ints, resident: NDArray[np.bool_], dimm: Ints, seen: Ints | None = None
    ) -> Instance:
        """Return the relayout instance of loads, after the windows seen, on a layout."""
        options = Options(
            batch=BATCH,
            layer=self.cell.layer,
            hbm_free_slots=SLOTS - int(resident.sum()),
            observed=seen is not None,
        )
        name = self.source.name or ""
        return on_layout(self.source, options, tokens, Layout(resident, dimm), name, seen)

    def decided(self, method: str) -> State:
        """Return the layout that a method of `layout` decides on the observed windows."""
        solution: Any = moeopt.solve(self.layout(0, OBSERVED), method, time_limit_s=10).solution
        dimm = [STRIPED if dimm is None else dimm for dimm in solution.dimm]
        return State(np.array(solution.resident), np.array(dimm, dtype=np.int64))

    def optimum_ns(self, window: int) -> int:
        """Return the makespan of a window's own best layout, within half a per cent."""
        result = moeopt.solve(self.layout(window, 1), "bound-and-pack", time_limit_s=20)
        assert isinstance(result.objective, int)
        return result.objective


def run(
    windows: Windows, start: State, optima: Sequence[int], policy: Policy
) -> Iterator[Measured]:
    """Yield the later windows of a cell under a policy."""
    state = State(start.resident.copy(), start.dimm.copy())
    for later in range(LATER):
        window = OBSERVED + later
        made: list[Migration] = []
        if policy.known == "limit":
            state = State(start.resident.copy(), start.dimm.copy())
        if policy.known != "nothing":
            if later % policy.every == 0:
                state, made = replanned(windows, state, policy, window)
            most = HIDDEN if policy.moves is None else policy.moves
            made += state.waiting[:most]
            del state.waiting[:most]
        for migration in made:
            if migration.kind == "prefetch":
                state.resident[migration.expert] = True
            else:
                place = STRIPED if migration.dimm is None else migration.dimm
                state.dimm[migration.expert] = place
        now = windows.relayout(windows.loads[window], state.resident, state.dimm)
        spans = Layouts([now]).best_ns(state.resident, state.dimm)
        prefetches = sum(migration.kind == "prefetch" for migration in made)
        moves = len(made) - prefetches
        over = (
            moves * now.relayout_ns - now.dimm_link_window_ns,
            prefetches * now.prefetch_ns - now.pcie_window_ns,
        )
        yield Measured(
            windows.cell, policy, int(spans[0]), max(0, *over), optima[later], moves, prefetches
        )


def replanned(
    windows: Windows, state: State, policy: Policy, window: int
) -> tuple[State, list[Migration]]:
    """Return the state with new moves waiting, and the prefetches to make at once.

    The two residents with fewest tokens expected make room; who is not replaced stays.
    """
    seen = windows.loads[:window]
    coming = windows.loads[window : window + policy.every]
    expected = (coming if policy.known != "forecast" else seen[-OBSERVED:]).sum(axis=0)
    held = np.flatnonzero(state.resident)
    leaving = held[np.argsort(expected[held], kind="stable")][:REPLACED]
    kept = state.resident.copy()
    kept[leaving] = False
    today = windows.relayout(np.maximum(expected, 1), kept, state.dimm, seen)
    moves = HIDDEN * policy.every if policy.moves is None else policy.moves
    today = today.model_copy(update={"dimm_link_window_ns": moves * today.relayout_ns})
    search = Search(limit_s=60.0)
    if policy.known != "forecast":
        known = tuple(windows.relayout(load, kept, state.dimm) for load in coming)
        decide(today, lambda number, stream: known, search, Futures(samples=len(known)))
    else:
        futures = Futures(samples=SAMPLES, horizon=policy.every)
        priced = windows.relayout(windows.loads[window - 1], kept, state.dimm, seen)
        decide(today, draw(priced, futures, window), search, futures)
    chosen = search.solution.migrations
    fetched = [migration for migration in chosen if migration.kind == "prefetch"]
    back = [expert for expert in leaving.tolist() if expert in {m.expert for m in fetched}]
    stay = [e for e in leaving[::-1].tolist() if e not in back]
    kept[back] = True
    kept[stay[: SLOTS - len(fetched) - int(kept.sum()) + len(back)]] = True
    waiting = [migration for migration in chosen if migration.kind != "prefetch"]
    made = [migration for migration in fetched if migration.expert not in back]
    return State(kept, state.dimm, waiting), made


def cells(full: bool) -> Iterator[Cell]:
    """Yield the cells: starts that leave all sixteen windows, and some layers."""
    for trace in ("intent", "law", "summary"):
        for layer in range(1, 26, 5 if full else 12):
            for start in (0, 8, 16) if full else (0, 16):
                yield Cell(ESFT, trace, layer, start)
    for trace in ("coding", "humanities", "writing") if full else ("writing",):
        for layer in range(4, 32, 8 if full else 16):
            yield Cell(MIXTRAL, trace, layer, 0)


def loads_of(cell: Cell, traces: Path) -> Ints:
    """Return the tokens of every expert in the cell's windows, shape (windows, experts)."""
    trace = moeopt.dedupe_trace(read_trace(traces / cell.folder / f"{cell.trace}.npz"))
    if cell.folder == MIXTRAL:
        trace = Trace(trace.name, trace.topk_ids[SHARED_PROMPT:], facts=trace.facts)
    experts = get_model(MODELS[cell.folder]).routed_experts
    at = [np.arange(BATCH) + BATCH * (cell.start + n) for n in range(OBSERVED + LATER)]
    return np.array([trace.counts(tokens, cell.layer, experts) for tokens in at])


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
            windows = Windows(cell, loads_of(cell, traces))
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

    from moeopt.study.pictures import save_figure

    figure = Figure(figsize=(7.2, 4.0), layout="constrained")
    axis: Any = figure.subplots()
    at = np.arange(len(MOVES))
    words = {
        "forecast": "forecast from earlier windows",
        "loads": "loads known, layout as the window before left it",
        "limit": "loads known, from the first layout",
    }
    for (known, about), colour in zip(
        words.items(), ("#4477aa", "#ee6677", "#228833"), strict=True
    ):
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
    axis.set_ylabel("excess over each window's own optimum, %, median")
    axis.set_ylim(0, 3 * level)
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
    of_curve = [cell for cell in chosen if cell.start in CURVE_STARTS and cell.folder == ESFT]
    setting = (arguments.traces, arguments.decide, arguments.store)
    for folder in (ESFT, MIXTRAL):
        found = list(measured([c for c in chosen if c.folder == folder], MAIN, *setting))
        print(f"\n{MODELS[folder]}\n\n" + "\n".join(table(found)), flush=True)
    found = list(measured(of_curve, (NOTHING, *OFTEN, *CURVE), *setting))
    print("\nHow often, and how many\n\n" + "\n".join(table(found)))
    if arguments.figure is not None:
        draw_curve(found, arguments.figure)


if __name__ == "__main__":
    main()
