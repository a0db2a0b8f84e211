"""The loop of bound-and-pack: the state of least bound is packed, refuted or made dearer.

Each state passes through stages, all at the same bound before any at a higher one:

`SIMPLE`    its bound is sharpened (`states.least_capacity`);
`QUICK`     quick assignment to the hosts and quick packing at the bound; success ends the search.
            Where the assignment fails, prices may raise the bound;
`FLOW`      the hosts are no problem: a flow finds a better plan than the incumbent, or refutes;
`GENERAL`   the hosts bind: others may leave, the DIMMs taken together (`general`);
`GENERAL_FLOW` as before, each DIMM for itself;
`OPEN`      nothing left to try: the search ends without a proof when this is the least bound.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from . import fine, hosts
from .flows import Verdict, packs, packs_somehow
from .general import General
from .incumbent import Incumbent, Ints
from .known_prices import KnownPrices
from .scenario import Scenario
from .states import least_capacity, simple_bounds

SIMPLE, QUICK, FLOW, GENERAL, GENERAL_FLOW, OPEN = range(6)
PACKED = (FLOW, GENERAL_FLOW, OPEN)

FIRST_STATES = 40
"""States that are tried for a good plan first."""

FIRST_TRIALS = 50
QUICK_TRIALS = 400
FLOW_TRIALS = 200
"""Trials of one packing: 5 us each and more."""

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
    _better: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._prices = KnownPrices(self._scenario)
        self._hosts_bind = General(self.incumbent, self._prices, self.remaining_s)

    def run(self) -> None:
        """Search until the proof is complete, nothing is left to try, or the time is up."""
        bounds, reads, local_reads = simple_bounds(self._scenario, self._upper)
        first = list(zip(bounds.tolist(), reads.tolist(), local_reads.tolist(), strict=True))
        self._first_plans(first[:FIRST_STATES])
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

    def _first_plans(self, states: list[tuple[int, int, int]]) -> None:
        """Look for a good plan at once, in the states of least bounds."""
        for bound, r, e in states:
            bound = max(bound, self._prices.bound(r, e))
            for makespan in (bound, self._upper - 1):
                if bound >= self._upper or self.remaining_s() <= 0:
                    break
                way = hosts.assign(self._scenario, r, e, makespan)
                if way is not None:
                    self.incumbent.pack(self.incumbent.complete(way), makespan, FIRST_TRIALS)
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
        known = self._prices.bound(r, e)
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
            sizes, _ = self._scenario.packed(r, e)
            little = bound > fine.goal(self._upper)
            self.enough = little and fine.has_no_grid(sizes, self._upper)
            self.note = "TOO_FINE_FOR_A_PROOF"
            return False
        return True

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
        elif (raised := self._prices.raised(bound, r, e)) > bound:
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
        """Ask for a plan below the incumbent's makespan: "no" ends the state; if open, bisect."""
        makespan = self._asked(bound, r, e)
        verdict = self._ask(stage, makespan, r, e)
        self._note(verdict == "better", r, e)
        if verdict == "better":
            self._push(bound, stage, r, e)
        elif verdict == "no":
            self._push(makespan + 1, stage, r, e)
        elif verdict == "open":
            self._push(self._bisected(bound, stage, r, e), OPEN, r, e)
        else:
            self._push(bound, OPEN, r, e)
        return self.remaining_s() > 0

    def _asked(self, bound: int, r: int, e: int) -> int:
        """Return which makespan to ask a state for: just better than the incumbent's.

        A "no" ends the state then. After every second better plan in a row it is half way to the
        bound, so that many better plans take few steps.
        """
        makespan, times = self._goal(r, e), self._better.get((r, e), 0)
        if times and times % 2 == 0:
            makespan = min(makespan, (bound + self._upper - 1) // 2)
        return makespan

    def _note(self, better: bool, r: int, e: int) -> None:
        """Count the better plans in a row."""
        self._better[r, e] = self._better.get((r, e), 0) + 1 if better else 0

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
        return self._hosts_bind.too_fine(r, e)

    def _ask(self, stage: int, makespan: int, r: int, e: int) -> Verdict:
        limit_s = self.remaining_s() * (fine.PATIENCE if self._too_fine(r, e) else 1)
        if stage == FLOW:
            return packs(self.incumbent, self._ways[r, e], makespan, r, e, limit_s)
        prices = self._prices.of(makespan, r, e)
        return packs_somehow(self.incumbent, makespan, r, e, prices, limit_s)

    def _general(self, bound: int, r: int, e: int) -> bool:
        """Refute a state with the DIMMs taken together, or look for better plans so."""
        if self._too_fine(r, e):
            return self._general_fine(bound, r, e)
        makespan, before = self._asked(bound, r, e), self._upper
        answer = self._hosts_bind.decide(makespan, r, e)
        if answer == "limit":
            return False
        if answer == "infeasible":
            bound = makespan + 1
        else:
            self._hosts_bind.pack(answer.way, makespan, r, e)
        better = self._upper < before
        self._note(better, r, e)
        # A question half way says nothing of what is just better, and that is asked next.
        again = better or makespan < self._upper - 1
        self._push(bound, GENERAL if again else GENERAL_FLOW, r, e)
        return True

    def _general_fine(self, bound: int, r: int, e: int) -> bool:
        """Do the same where packings are beyond proof; any better plan is asked for in a glance."""
        makespan = self._upper - 1
        answer = self._hosts_bind.decide(makespan, r, e, fine.GLANCE)
        if answer == "limit":
            makespan = self._goal(r, e)
            if makespan < bound:
                self._push(bound, OPEN, r, e)
                return True
            answer = self._hosts_bind.decide(makespan, r, e)
        if answer == "limit":
            return False
        if answer == "infeasible":
            self._push(makespan + 1, GENERAL_FLOW, r, e)
        else:
            self._hosts_bind.pack_fine(answer.way, makespan)
            self._push(self._hosts_bind.least(bound, r, e), GENERAL_FLOW, r, e)
        return True
