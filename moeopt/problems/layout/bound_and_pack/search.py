"""The loop of bound-and-pack: the state of least bound is packed, refuted or made dearer.

Each state passes through stages, all at the same bound before any at a higher one:

`SIMPLE`    its bound is sharpened (`states.least_capacity`);
`QUICK`     quick assignment to the hosts and quick packing at the bound; success ends the search.
            Where the assignment fails, prices may raise the bound;
`FLOW`      the hosts are no problem: a flow finds a better plan than the incumbent, or refutes;
`GENERAL`   the hosts bind: others may leave, the DIMMs taken together (`classes`);
`GENERAL_FLOW` as before, each DIMM for itself;
`OPEN`      nothing left to try: the search ends without a proof when this is the least bound.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from . import fine, hosts
from .classes import Answer, decide
from .flows import Verdict, packs, packs_somehow, packs_well
from .incumbent import Incumbent, Ints
from .prices import Prices, largest_piece, prices_at
from .scenario import Scenario
from .states import least_capacity, simple_bounds

SIMPLE, QUICK, FLOW, GENERAL, GENERAL_FLOW, OPEN = range(6)
PACKED = (FLOW, GENERAL_FLOW, OPEN)

DIVES = 40
"""States that are tried for a good plan first."""

DIVE_TRIALS = 50
QUICK_TRIALS = 400
FLOW_TRIALS = 200
TRIALS = 2000
"""Trials of one packing: some 20 ms at the most; most flows are decided in less."""

RESOLUTION = 100_000
"""A bisection may leave such a part of the makespan open; a flow decides it."""

TO_SPARE = 0.005

BISECTIONS = 6
"""Attempts to raise a bound where a flow of rounded sizes cannot refute."""

Key = tuple[int, int, int, int]
"""Bound, stage, striped reads, localized reads."""


@dataclass
class BoundAndPack:
    """One run on one scenario; all times in the scenario's units.

    Attributes
    ----------
    incumbent
        The best plan; what is searched for is a better one.
    remaining_s
        Says how many seconds are left; 0 stops the search.
    on_bound
        Called with each higher proven bound.
    bound
        The proven bound: no makespan is below it.
    closed
        Whether it is proven that nothing is below ``incumbent.upper``.
    enough
        Whether the search ended with a small gap that no method would close.
    note
        How the search ended.
    """

    incumbent: Incumbent
    remaining_s: Callable[[], float]
    on_bound: Callable[[int], None]
    bound: int = -1
    closed: bool = False
    enough: bool = False
    note: str = "TIME_LIMIT"
    _pushed: list[Key] = field(default_factory=list)
    _ways: dict[tuple[int, int], Ints] = field(default_factory=dict)
    _prices: list[Prices] = field(default_factory=list)
    _good: dict[tuple[int, int], int] = field(default_factory=dict)
    _best_prices: dict[tuple[int, int, int], Prices | None] = field(default_factory=dict)

    def run(self) -> None:
        """Search until the proof is complete, nothing is left to try, or the time is up."""
        bounds, reads, local_reads = simple_bounds(self._scenario, self._upper)
        first = list(zip(bounds.tolist(), reads.tolist(), local_reads.tolist(), strict=True))
        self._dive(first[:DIVES])
        for bound, stage, r, e in self._states(first):
            if bound >= self._upper:
                break
            self._raise_bound(bound)
            if self.remaining_s() <= 0 or not self._step(bound, stage, r, e):
                return
        self._raise_bound(self._upper)
        self.closed, self.note = True, "PROVEN"

    @property
    def _scenario(self) -> Scenario:
        return self.incumbent.scenario

    @property
    def _upper(self) -> int:
        return self.incumbent.upper

    def _dive(self, states: list[tuple[int, int, int]]) -> None:
        """Look for a good plan at once, in the states of least bounds."""
        for bound, r, e in states:
            bound = max(bound, self._priced(r, e))
            for makespan in (bound, self._upper - 1):
                if bound >= self._upper or self.remaining_s() <= 0:
                    break
                way = hosts.assign(self._scenario, r, e, makespan)
                if way is not None:
                    self.incumbent.pack(self.incumbent.complete(way), makespan, DIVE_TRIALS)
                    break

    def _states(self, first: list[tuple[int, int, int]]) -> Iterator[Key]:
        """Yield the state of least bound, first stages first, of all not dealt with."""
        for bound, r, e in first:
            fresh = (bound, SIMPLE, r, e)
            while self._pushed and self._pushed[0] < fresh:
                yield heappop(self._pushed)
            yield fresh
        while self._pushed:
            yield heappop(self._pushed)

    def _push(self, bound: int, stage: int, r: int, e: int) -> None:
        if bound < self._upper:
            heappush(self._pushed, (bound, stage, r, e))

    def _raise_bound(self, bound: int) -> None:
        if bound > self.bound:
            self.bound = bound
            self.on_bound(bound)

    def _step(self, bound: int, stage: int, r: int, e: int) -> bool:
        """Deal with one state at one stage; False ends the search without a proof."""
        known = self._priced(r, e)
        if known > bound:
            self._push(known, min(stage, QUICK), r, e)
        elif stage in PACKED and self._hopeless(bound, r, e):
            self.enough, self.note = True, "TOO_FINE_FOR_A_PROOF"
            return False
        elif stage == SIMPLE:
            self._sharpen(bound, r, e)
        elif stage == QUICK:
            self._quick(bound, r, e)
        elif stage == FLOW:
            return self._flow(bound, r, e)
        elif stage == GENERAL:
            return self._general(bound, r, e)
        elif stage == GENERAL_FLOW:
            return self._settle(bound, stage, r, e)
        else:
            self.note = "TOO_FINE_FOR_A_PROOF"
            return False
        return True

    def _priced(self, r: int, e: int) -> int:
        """Return the best bound of a state by all prices found so far; -1 without any."""
        return max((prices.bound(r, e) for prices in self._prices), default=-1)

    def _price(self, bound: int, r: int, e: int) -> int:
        """Look for prices that raise the bound of a state; keep them if they do."""
        prices = self._prices_of(bound, r, e)
        if prices is None or prices.bound(r, e) <= bound:
            return -1
        self._prices.append(prices)
        return prices.bound(r, e)

    def _prices_of(self, makespan: int, r: int, e: int) -> Prices | None:
        """Return the best prices of a state within a makespan; few makespans make a difference."""
        room = largest_piece(self._scenario, r, makespan)
        if (r, e, room) not in self._best_prices:
            self._best_prices[r, e, room] = prices_at(self._scenario, r, e, room)
        return self._best_prices[r, e, room]

    def _sharpen(self, bound: int, r: int, e: int) -> None:
        sizes, _ = self._scenario.packed(r, e)
        step = int(np.gcd.reduce(sizes)) or 1
        least = -(-least_capacity(self._scenario, sizes) // step) * step
        self._push(max(bound, r * self._scenario.striped_read + least), QUICK, r, e)

    def _quick(self, bound: int, r: int, e: int) -> None:
        way = hosts.assign(self._scenario, r, e, bound)
        if way is not None:
            self._ways[r, e] = way
            if not self.incumbent.pack(self.incumbent.complete(way), bound, QUICK_TRIALS):
                self._push(bound, FLOW, r, e)
        elif (raised := self._price(bound, r, e)) > bound:
            self._push(raised, QUICK, r, e)
        else:
            self._push(bound, GENERAL, r, e)

    def _flow(self, bound: int, r: int, e: int) -> bool:
        """Find a packing below the incumbent's makespan, or prove that the state has none."""
        way = self.incumbent.complete(self._ways[r, e])
        if self.incumbent.pack(way, self._upper - 1, FLOW_TRIALS):
            self._push(bound, FLOW, r, e)
            return True
        return self._settle(bound, FLOW, r, e)

    def _settle(self, bound: int, stage: int, r: int, e: int) -> bool:
        """Ask for a plan below the incumbent's makespan: "no" ends the state; if open, bisect.

        Where there was a better plan there may be others: ask half way to the bound.
        """
        makespan = self._goal(r, e)
        times = self._good.get((r, e), 0)
        if times and times % 2 == 0:
            makespan = min(makespan, (bound + self._upper - 1) // 2)
        verdict = self._ask(stage, makespan, r, e)
        self._good[r, e] = times + 1 if verdict == "better" else 0
        if verdict == "better":
            self._push(bound, stage, r, e)
        elif verdict == "no":
            self._push(makespan + 1, stage, r, e)
        elif verdict == "open":
            self._push(self._bisected(bound, stage, r, e), OPEN, r, e)
        else:
            self._push(bound, OPEN, r, e)
        return self.remaining_s() > 0

    def _bisected(self, low: int, stage: int, r: int, e: int) -> int:
        """Return a bound from `low` on by asking for earlier and earlier plans."""
        high = self._upper - 1
        for _ in range(BISECTIONS):
            if low >= high or self.remaining_s() <= 0:
                break
            middle = (low + high) // 2
            if self._ask(stage, middle, r, e) == "no":
                low = middle + 1
            else:
                high = min(middle, self._upper - 1)
        return low

    def _goal(self, r: int, e: int) -> int:
        """Return which makespan to ask for: any below the incumbent's, or one by a small gap."""
        return fine.goal(self._upper) if self._too_fine(r, e) else self._upper - 1

    def _hopeless(self, bound: int, r: int, e: int) -> bool:
        """Tell whether a state's packing is too fine to be decided, and little is at stake."""
        return bound > fine.goal(self._upper) and self._too_fine(r, e)

    def _too_fine(self, r: int, e: int) -> bool:
        return fine.too_fine(self._scenario.packed(r, e)[0], self._upper)

    def _ask(self, stage: int, makespan: int, r: int, e: int) -> Verdict:
        limit_s = self.remaining_s() * (fine.PATIENCE if self._too_fine(r, e) else 1)
        if stage == FLOW:
            return packs(self.incumbent, self._ways[r, e], makespan, r, e, limit_s)
        prices = self._prices_of(makespan, r, e)
        return packs_somehow(self.incumbent, makespan, r, e, prices, limit_s)

    def _general(self, bound: int, r: int, e: int) -> bool:
        """Refute a state with the DIMMs taken together, or find its least makespan so."""
        makespan, too_fine = self._upper - 1, self._too_fine(r, e)
        times = self._good.get((r, e), 0)
        if times and times % 2 == 0 and not too_fine:
            makespan = min(makespan, (bound + self._upper - 1) // 2)
        answer = self._decide(makespan, r, e, fine.GLANCE if too_fine else 1.0)
        if answer == "limit" and too_fine:
            makespan = self._goal(r, e)
            answer = self._decide(makespan, r, e)
        if answer == "limit":
            return False
        if answer == "infeasible":
            self._good[r, e] = 0
            self._push(makespan + 1, GENERAL if makespan < self._upper - 1 else GENERAL_FLOW, r, e)
        else:
            before = self._upper
            self._pack(answer.way, makespan, r, e)
            if self._upper == before and not too_fine:
                self._pack_better(answer.way, makespan, r, e)
            if self._upper < before and not too_fine:
                self._good[r, e] = times + 1
                self._push(bound, GENERAL, r, e)
            elif makespan < self._upper - 1 and not too_fine:
                self._good[r, e] = 0
                self._push(bound, GENERAL, r, e)
            else:
                least = self._least(bound, r, e) if too_fine else bound
                self._push(least, GENERAL_FLOW, r, e)
        return True

    def _pack(self, way: Ints, makespan: int, r: int, e: int) -> None:
        """Pack as well as can be; what is too fine for flows is tried from several sides."""
        for _ in range(fine.PACKINGS if self._too_fine(r, e) else 1):
            if self.incumbent.pack(way, makespan, TRIALS):
                break

    def _pack_better(self, way: Ints, makespan: int, r: int, e: int) -> None:
        sizes, _ = self.incumbent.items_of(way)
        room = self._scenario.dimms * (makespan - r * self._scenario.striped_read)
        if sizes.sum() > (1 - TO_SPARE) * room:
            prices = self._prices_of(makespan, r, e)
            roomy = decide(
                self._scenario,
                r,
                e,
                makespan,
                prices,
                self.remaining_s(),
                to_spare=TO_SPARE,
            )
            if not isinstance(roomy, str):
                way = roomy.way
                if self.incumbent.pack(way, makespan, TRIALS):
                    return
        packs_well(self.incumbent, way, makespan, r, self.remaining_s())

    def _decide(self, makespan: int, r: int, e: int, share: float = 1.0) -> Answer:
        """Decide with the DIMMs taken together, in a share of the time left."""
        prices = self._prices_of(makespan, r, e)
        return decide(self._scenario, r, e, makespan, prices, share * self.remaining_s())

    def _least(self, low: int, r: int, e: int) -> int:
        """Return a bound from `low` on: the least makespan, the DIMMs taken together."""
        high, too_fine = self._goal(r, e), self._too_fine(r, e)
        parts = fine.RESOLUTION if too_fine else RESOLUTION
        middle = (
            high if too_fine else low
        )  # a small gap is enough, or the first bound is the answer
        while high - low >= max(1, self._upper // parts) and self.remaining_s() > 0:
            answer = self._decide(middle, r, e)
            if answer == "limit":
                break
            if answer == "infeasible":
                low = middle + 1
            else:
                self._pack(answer.way, middle, r, e)
                high = middle
            middle = (low + high) // 2
        return low
