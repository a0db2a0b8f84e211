"""The layers of `recourse.py`: their windows as instances, and migrations before each of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import moeopt
from benchmarks.harness.routes import forecast
from benchmarks.rooms.core import Search
from benchmarks.rooms.layout import Instance as LayoutInstance
from benchmarks.rooms.layout import generate as layouts
from benchmarks.rooms.relayout import (
    Instance,
    Layouts,
    Migration,
    Options,
    decide,
    draw,
    draw_from,
    on_layout,
)
from benchmarks.rooms.sim import Forecast, Source, Trace, get_model, read_trace
from benchmarks.rooms.tri_domain import STRIPED, Layout
from moeopt import Futures, get_machine

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

BEFORE = 2
"""Layers before, of which the routes are known."""

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
    """The windows of one cell as instances of `layout` and `relayout`.

    Parameters
    ----------
    cell
        Where they are from.
    routes
        Experts that its tokens took in the layers before and in its own, shape
        (tokens, layers, experts per token).
    """

    def __init__(self, cell: Cell, routes: Ints) -> None:
        self.cell, self.routes, self.source = cell, routes, cell.source
        self.experts = self.source.model.routed_experts
        own = routes[:, -1].reshape(-1, BATCH * routes.shape[2]).astype(np.int64)
        self.loads = np.array([np.bincount(ids, minlength=self.experts) for ids in own])

    def forecast(self, window: int) -> Forecast:
        """Return the forecast of a window by the routes of its tokens so far."""
        seen, after = window * BATCH, (window + 1) * BATCH
        now = self.routes[seen:after, :-1]
        return forecast(self.routes[:seen], now, self.experts, BATCH)

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
    by_routes = windows.forecast(window) if policy.known == "routes" else None
    expected = seen[-OBSERVED:].sum(axis=0)
    if by_routes is not None:
        expected = np.rint(by_routes.mean).astype(np.int64)
    elif policy.known != "forecast":
        expected = coming.sum(axis=0)
    held = np.flatnonzero(state.resident)
    leaving = held[np.argsort(expected[held], kind="stable")][:REPLACED]
    kept = state.resident.copy()
    kept[leaving] = False
    today = windows.relayout(np.maximum(expected, 1), kept, state.dimm, seen)
    moves = HIDDEN * policy.every if policy.moves is None else policy.moves
    today = today.model_copy(update={"dimm_link_window_ns": moves * today.relayout_ns})
    search = Search(limit_s=60.0)
    if policy.known in ("loads", "limit"):
        known = tuple(windows.relayout(load, kept, state.dimm) for load in coming)
        decide(today, lambda number, stream: known, search, Futures(samples=len(known)))
    else:
        futures = Futures(samples=SAMPLES, horizon=policy.every)
        priced = windows.relayout(windows.loads[window - 1], kept, state.dimm, seen)
        drawn = draw(priced, futures, window)
        if by_routes is not None:
            drawn = draw_from(by_routes, priced, window)
        decide(today, drawn, search, futures)
    chosen = search.solution.migrations
    fetched = [migration for migration in chosen if migration.kind == "prefetch"]
    back = [expert for expert in leaving.tolist() if expert in {m.expert for m in fetched}]
    stay = [e for e in leaving[::-1].tolist() if e not in back]
    kept[back] = True
    kept[stay[: SLOTS - len(fetched) - int(kept.sum()) + len(back)]] = True
    waiting = [migration for migration in chosen if migration.kind != "prefetch"]
    made = [migration for migration in fetched if migration.expert not in back]
    return State(kept, state.dimm, waiting), made


def routes_of(cell: Cell, traces: Path) -> Ints:
    """Return which experts the cell's tokens took, for `Windows`."""
    trace = moeopt.dedupe_trace(read_trace(traces / cell.folder / f"{cell.trace}.npz"))
    if cell.folder == MIXTRAL:
        trace = Trace(trace.name, trace.topk_ids[SHARED_PROMPT:], facts=trace.facts)
    first = BATCH * cell.start
    layers = slice(max(0, cell.layer - BEFORE), cell.layer + 1)
    return trace.topk_ids[first : first + BATCH * (OBSERVED + LATER), layers]
