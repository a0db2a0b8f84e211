"""States where the hosts bind: others than the largest leave NDP, the DIMMs taken together.

What fits the DIMMs together need not fit each of them. The plans found are packed at once, so that
most states end here and never need flows and hosts in one program.
"""

from collections.abc import Callable
from dataclasses import dataclass

from . import fine
from .classes import Answer, decide, most_of
from .flows import packs_well
from .incumbent import Incumbent, Ints
from .known_prices import KnownPrices

TRIALS = 2000
"""Trials of one packing: some 20 ms at the most."""

TO_SPARE = 0.005
"""Part of the DIMMs' room that is asked for where a fuller plan could not be packed."""

GLIMPSE_S = 0.15
"""Seconds for HiGHS before CP-SAT has a try: one question in a hundred takes it much longer."""

TRY_S = 1.0
"""Seconds for CP-SAT, which is slower at most questions, and before HiGHS has all the time left."""


@dataclass
class General:
    """Questions about states (r, e), the DIMMs taken together.

    Attributes
    ----------
    incumbent
        Gets the plans that are found.
    prices
        They shrink the questions.
    remaining_s
        Says how many seconds are left.
    """

    incumbent: Incumbent
    prices: KnownPrices
    remaining_s: Callable[[], float]

    def too_fine(self, r: int, e: int) -> bool:
        """Tell whether the packings of a state are beyond proof."""
        sizes, _ = self.incumbent.scenario.packed(r, e)
        return fine.too_fine(sizes, self.incumbent.upper)

    def decide(self, makespan: int, r: int, e: int, share: float = 1.0) -> Answer:
        """Decide whether there is a plan within the makespan.

        `share` is the part of the time left that it may take where packings are too fine.
        """
        question = (self.incumbent.scenario, r, e, makespan)
        prices = self.prices.of(makespan, r, e)
        if self.too_fine(r, e):
            return decide(*question, prices, share * self.remaining_s())
        answer = decide(*question, prices, min(GLIMPSE_S, self.remaining_s()))
        if answer == "limit" and self.remaining_s() > 0:
            from .in_integers import decide_in_integers

            most = most_of(*question, prices)
            answer = decide_in_integers(*question, most, min(TRY_S, self.remaining_s()))
        if answer == "limit" and self.remaining_s() > 0:
            answer = decide(*question, prices, self.remaining_s())
        return answer

    def pack(self, way: Ints, makespan: int, r: int, e: int) -> None:
        """Pack ways that `decide` found: quickly, with more room, and by flows."""
        if self.incumbent.pack(way, makespan, TRIALS):
            return
        sizes, _ = self.incumbent.items_of(way)
        room = self.incumbent.scenario.dimms * (makespan - r * self.incumbent.scenario.striped_read)
        if sizes.sum() > (1 - TO_SPARE) * room:
            prices, limit_s = self.prices.of(makespan, r, e), min(GLIMPSE_S, self.remaining_s())
            question = (self.incumbent.scenario, r, e, makespan)
            answer = decide(*question, prices, limit_s, to_spare=TO_SPARE)
            if not isinstance(answer, str):
                way = answer.way
                if self.incumbent.pack(way, makespan, TRIALS):
                    return
        packs_well(self.incumbent, way, makespan, r, self.remaining_s())

    def pack_fine(self, way: Ints, makespan: int) -> None:
        """Pack what is too fine for flows: quickly, from several sides."""
        for _ in range(fine.PACKINGS):
            if self.incumbent.pack(way, makespan, TRIALS):
                break

    def least(self, low: int, r: int, e: int) -> int:
        """Return a bound from `low` on of a state that is too fine to be packed, by bisection."""
        upper = self.incumbent.upper
        high = middle = fine.goal(upper)
        while high - low >= max(1, upper // fine.RESOLUTION) and self.remaining_s() > 0:
            answer = self.decide(middle, r, e)
            if answer == "limit":
                break
            if answer == "infeasible":
                low = middle + 1
            else:
                self.pack_fine(answer.way, middle)
                high = middle
            middle = (low + high) // 2
        return low
