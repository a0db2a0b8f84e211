"""Prices that a search has found: each raises the bounds of many states, and is found once."""

from dataclasses import dataclass, field

from .prices import Prices, largest_piece, prices_at
from .scenario import Scenario


@dataclass
class KnownPrices:
    """The prices found so far on a scenario."""

    scenario: Scenario
    _raising: list[Prices] = field(default_factory=list)
    _of_state: dict[tuple[int, int, int], Prices | None] = field(default_factory=dict)

    def bound(self, r: int, e: int) -> int:
        """Return the best bound of a state by all prices that raised one; -1 without any."""
        return max((prices.bound(r, e) for prices in self._raising), default=-1)

    def of(self, makespan: int, r: int, e: int) -> Prices | None:
        """Return the best prices of a state within a makespan; few makespans make a difference."""
        room = largest_piece(self.scenario, r, makespan)
        if (r, e, room) not in self._of_state:
            self._of_state[r, e, room] = prices_at(self.scenario, r, e, room)
        return self._of_state[r, e, room]

    def raised(self, bound: int, r: int, e: int) -> int:
        """Look for prices that raise the bound of a state; return it, or -1 if there are none."""
        prices = self.of(bound, r, e)
        if prices is None or prices.bound(r, e) <= bound:
            return -1
        self._raising.append(prices)
        return prices.bound(r, e)
