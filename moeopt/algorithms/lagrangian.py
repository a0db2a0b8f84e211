"""Multipliers of relaxed constraints, raised until the bound that they prove is best.

A Lagrangian dual is concave in its multipliers, and where it is evaluated it tells a supergradient:
by how much the relaxed constraints are broken. Three ways up, by how many multipliers there are:

- one: bisection by the sign of the slope (`bisection`, `best_price`);
- few, of loads that one maximum bounds: multiplicative weights (`multiplicative_weights`);
- many: the volume algorithm (`Volume`; Barahona and Anbil 2000), a subgradient method.

Whatever the multipliers are, they give a bound. So nothing here is part of a proof: the problem
evaluates its own dual, in integers where the bound is to be claimed, and multipliers are floats or
integers as it likes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from moeopt.core.rounding import rounded

Floats = NDArray[np.float64]
Solution = TypeVar("Solution")
Multipliers = TypeVar("Multipliers")
Averages = Mapping[str, Floats]


@dataclass(frozen=True)
class Tangent(Generic[Solution]):
    """A concave function of one multiplier, where it was evaluated.

    Attributes
    ----------
    price
        The multiplier.
    value, slope
        The function there, and a supergradient: what is used beyond the limit.
    solution
        What attains the value.
    """

    price: int
    value: int
    slope: int
    solution: Solution


def bisection(
    dual: Callable[[int], Tangent[Solution]], most: int, close: int | None = None
) -> Iterator[Tangent[Solution]]:
    """Yield tangents that close in on the maximum of a concave function of an integer.

    Parameters
    ----------
    dual
        Evaluates the function at a price from 0 to `most`.
    most
        A price at which the function does not rise any more.
    close
        End where the price is known to one part in ``2**close``; None: exactly.

    Yields
    ------
    Tangent
        The last one that rises and the first one that does not are the two sides of the maximum.
    """
    first = dual(0)
    yield first
    if first.slope <= 0:
        return
    low, high, at_high = 0, most, False
    while high - low > 1 + (0 if close is None else high >> close):
        found = dual((low + high) // 2)
        yield found
        if found.slope > 0:
            low = found.price
        else:
            high, at_high = found.price, True
    if high > low and not at_high:
        yield dual(high)


@dataclass(frozen=True)
class Maximum(Generic[Solution]):
    """Both sides of the maximum of a concave function of one multiplier.

    Attributes
    ----------
    rising
        The tangent at the dearest price that was too cheap; None if a price of 0 is not.
    fallen
        The tangent at the cheapest price that was dear enough.
    """

    rising: Tangent[Solution] | None
    fallen: Tangent[Solution]

    @property
    def best(self) -> Tangent[Solution]:
        """The side with the larger value."""
        sides = [side for side in (self.fallen, self.rising) if side is not None]
        return max(sides, key=lambda side: side.value)

    @property
    def share_of_rising(self) -> float:
        """The part of the rising side's solution in the mix of both that just meets the limit."""
        if self.rising is None or self.rising.slope <= self.fallen.slope:
            return 0.0
        slope = self.fallen.slope
        return max(0.0, min(1.0, -slope / (self.rising.slope - slope)))


def best_price(
    dual: Callable[[int], Tangent[Solution]], most: int, close: int | None = None
) -> Maximum[Solution]:
    """Return the two sides of the maximum of a concave function of an integer.

    Parameters
    ----------
    dual, most, close
        As in `bisection`.

    Examples
    --------
    Two of these three fit; at a price of 4 the third is not worth its place.

    >>> worth = [9, 7, 4]
    >>> def dual(price):
    ...     taken = [value for value in worth if value > price]
    ...     value = -sum(value - price for value in taken) - 2 * price
    ...     return Tangent(price, value, len(taken) - 2, taken)
    >>> best_price(dual, most=10).best.price
    4
    """
    found = [*bisection(dual, most, close)]
    rising = [tangent for tangent in found if tangent.slope > 0 and tangent.price < most]
    fallen = [tangent for tangent in found if tangent.slope <= 0 or tangent.price == most]
    return Maximum(rising[-1] if rising else None, fallen[-1])


@dataclass(frozen=True)
class Weighed:
    """The best weights of some rounds.

    Attributes
    ----------
    value
        Of the dual there.
    weights
        The largest is 1.
    logarithms
        Of the weights after the last round: what further rounds go on from.
    """

    value: float
    weights: Floats
    logarithms: Floats


def multiplicative_weights(
    dual: Callable[[Floats], tuple[float, Floats]], logarithms: Floats, rounds: int
) -> Weighed:
    """Raise the weights of whatever the solution of each round loads most (Hedge).

    Parameters
    ----------
    dual
        Returns value and loads, in parts of their limits, at weights whose largest is 1.
    logarithms
        Of the first weights.
    rounds
        At least 1; each moves weights by less than the one before: one over the root of its number.
    """
    best = Weighed(-np.inf, np.exp(logarithms), logarithms)
    for turn in range(1, rounds + 1):
        weights = rounded(np.exp(logarithms - logarithms.max()))
        value, loads = dual(weights)
        logarithms = logarithms + loads / max(float(loads.max()), 1e-9) / turn**0.5
        if value > best.value:
            best = Weighed(value, weights, logarithms)
    return Weighed(best.value, best.weights, logarithms)


@dataclass(frozen=True)
class Pace:
    """Lengths of the volume algorithm's steps, and how they fall.

    Attributes
    ----------
    longest, shortest
        Parts of the gap to the target; below the shortest there is nothing to gain.
    shorter, patience
        What a step is multiplied by after so many steps without progress.
    share
        What a new solution counts against the average of those before.
    """

    longest: float = 0.1
    shortest: float = 1e-5
    shorter: float = 0.7
    patience: int = 10
    share: float = 0.1


class Bounded(Protocol):
    """A relaxation's value and solution at some multipliers."""

    @property
    def bound(self) -> float:
        """What is proven there, or nearly that."""


Value = TypeVar("Value", bound=Bounded)


class Dual(Protocol[Multipliers, Value]):
    """A Lagrangian dual with many multipliers, as the volume algorithm asks for it."""

    def evaluate(self, at: Multipliers) -> Value:
        """Solve the subproblems."""

    def seen(self, value: Value) -> Averages:
        """Return what of a solution is averaged: subgradients, and what else is to be known."""

    def moved(self, now: Value, mean: Averages, step: float, gap: float) -> Multipliers | None:
        """Return the multipliers a step further along the averages; None: they say nothing more.

        Parameters
        ----------
        now
            Where the step begins.
        mean
            The averages of `seen`.
        step, gap
            The step's length as a part of the gap, and the gap; see `stride`.
        """


def stride(step: float, gap: float, direction: Floats) -> float:
    """Return the factor of a direction at which a linear dual closes the gap by a part of it.

    Polyak's rule; 0 where there is no direction left.
    """
    length = float(rounded(direction.ravel() @ direction.ravel()))
    return float(rounded(step * gap / length)) if length > LEAST_LENGTH else 0.0


LEAST_LENGTH = 1e-12
"""Squared length below which a direction is rounding errors."""

LEAST_GAIN = 1e-7
"""Relative rise of the bound that counts as progress."""

AHEAD = 0.05
"""Where no target is known the gap is this part of the bound."""


class Volume(Generic[Multipliers, Value]):
    """The volume algorithm: steps along an average of the subgradients seen so far.

    They begin at the best multipliers known, or where the last step led to, if that was not too
    long ago. The same averages of the subproblems' solutions come near a solution of the linear
    relaxation.

    Parameters
    ----------
    dual
        What is maximised.
    first
        The multipliers to begin with, or what was found there.
    pace
        The lengths of its steps.

    Attributes
    ----------
    best, now
        Where the bound was highest, and where the last step led to.
    mean
        The averages.
    """

    def __init__(
        self, dual: Dual[Multipliers, Value], first: Value, pace: Pace | None = None
    ) -> None:
        self.dual, self.pace = dual, pace or Pace()
        self.best = self.now = first
        self.mean = dict(dual.seen(first))
        self._step, self._failed = self.pace.longest, 0

    @property
    def converged(self) -> bool:
        """Whether there is nothing to gain, or steps have become too short for it."""
        return self._step < self.pace.shortest

    def again(self) -> None:
        """Begin again from the best multipliers, with steps half as long as the longest."""
        self._step, self._failed, self.now = self.pace.longest / 2, 0, self.best

    def iterate(self, target: float | None, steps: int, stopped: Callable[[], bool]) -> None:
        """Take some steps, until the target is reached.

        Parameters
        ----------
        target
            An upper bound on what can be reached; None: none is known.
        steps
            Most steps.
        stopped
            Whether to end before.
        """
        for _ in range(steps):
            reached = target is not None and self.best.bound >= target
            if stopped() or self.converged or reached:
                return
            aim = self.best.bound + max(1.0, AHEAD * abs(self.best.bound))
            aim = aim if target is None else target
            # A step that went astray would make the next one longer, and so on without end.
            gap = min(max(aim - self.now.bound, 0.0), 2.0 * abs(aim))
            moved = self.dual.moved(self.now, self.mean, self._step, gap)
            if moved is None:
                self._step = 0.0
                return
            self._update(self.dual.evaluate(moved))

    def _update(self, found: Value) -> None:
        """Keep better multipliers, and go back to the best ones after failures."""
        self.now = found
        if found.bound > self.best.bound + LEAST_GAIN * abs(self.best.bound):
            self.best, self._failed = found, 0
        else:
            self._failed += 1
        if self._failed >= self.pace.patience:
            self._step, self._failed = self.pace.shorter * self._step, 0
            self.now = self.best
        share, seen = self.pace.share, self.dual.seen(found)
        self.mean = {name: share * seen[name] + (1 - share) * self.mean[name] for name in seen}
