"""Simulated annealing: one compiled loop; a problem brings its moves and what each changes.

A move is proposed by changing the state; it stays if the objective rises by no more than an
exponential random number times the temperature (Kirkpatrick, Gelatt, Vecchi 1983; Metropolis 1953),
or else is taken back. That number is drawn first, so that a problem may give up a move early.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend
from moeopt.core.compiled import Kernel, step

Random = NDArray[np.uint64]
"""The state of xorshift, shape (1,): not 0."""

BITS = 9
"""Exponential random numbers are one of 2 to this power quantiles: a logarithm costs a move."""

EXPONENTIAL = -np.log((np.arange(2**BITS) + 0.5) / 2**BITS)

IMPOSSIBLE = np.inf
"""What a proposal returns that has left the state as it was."""


def seeded(seed: int) -> Random:
    """Return the random numbers of a seed; different seeds have different ones."""
    return np.array([(seed + 1) * 0x9E3779B97F4A7C15 % 2**64 or 1], dtype=np.uint64)


@step
def drawn(random: Random) -> Any:
    """Return 64 random bits as a uint64, by xorshift (Marsaglia 2003)."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return x


@step
def uniform(random: Random) -> float:
    """Return a random number in [0, 1)."""
    return float(drawn(random) >> np.uint64(11)) / 9007199254740992.0


@step
def below(random: Random, end: int) -> Any:
    """Return a random integer from 0 to before `end`, which is at most 2**31."""
    return np.int64((drawn(random) >> np.uint64(32)) * np.uint64(end) >> np.uint64(32))


class Annealing:
    """The loop with a problem's moves: make one for the whole module, and call it.

    Parameters
    ----------
    propose
        ``propose(problem, state, random, most, temperature)`` makes a move in the state and returns
        by how much the objective rises, or `IMPOSSIBLE` if there is no move after all. As soon as
        it rises by more than `most` for certain, whatever more than that may be returned.
    commit
        ``commit(problem, state)`` ends a move that stays, and notes the best state.
    revert
        ``revert(problem, state)`` takes back a move that was proposed last.
    few
        So many moves at one temperature are tried in plain Python at first, as `short` says.

    Notes
    -----
    All three are `moeopt.core.compiled.part` functions at the top of a module: the compiled loop
    is kept on the disk under their names.
    """

    def __init__(
        self,
        propose: Callable[..., float],
        commit: Callable[..., None],
        revert: Callable[..., None],
        few: int = 0,
    ) -> None:
        self.loop = _loop_of(propose, commit, revert, few)

    def __call__(
        self,
        problem: Any,
        state: Any,
        random: Random,
        temperatures: Iterable[float],
        moves: int,
        *,
        units: float = 0.0,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """Try moves at one temperature after the other; the state is changed.

        Parameters
        ----------
        problem, state
            What the problem's own functions take.
        random
            As of `seeded`; it is changed.
        temperatures
            In the objective's unit; 0 takes no move that makes it worse. They may go by what has
            been found so far.
        moves
            How many are tried at each temperature.
        units
            Work that a move takes, for `moeopt.core.clock.spend`.
        stopped
            Asked before each temperature.
        """
        for temperature in temperatures:
            if stopped():
                return
            self.loop(problem, state, random, EXPONENTIAL, float(temperature), moves)
            spend(moves * units)


def _loop_of(propose: Any, commit: Any, revert: Any, few: int) -> Kernel:
    def anneal(
        problem: Any,
        state: Any,
        random: Random,
        exponential: NDArray[np.float64],
        temperature: float,
        moves: int,
    ) -> None:
        for _ in range(moves):
            most = temperature * exponential[drawn(random) >> np.uint64(64 - BITS)]
            change = propose(problem, state, random, most, temperature)
            if change <= most:
                commit(problem, state)
            elif change < IMPOSSIBLE:
                revert(problem, state)

    whose = propose.py_func
    anneal.__qualname__ = f"anneal_{whose.__module__.split('.')[-2]}_{whose.__qualname__}"
    return Kernel(anneal, few, allocates=False, size=lambda arguments: int(arguments[-1]))


def falling(hot: float, cold: float, steps: int) -> list[float]:
    """Return so many temperatures, at least one, that fall by the same factor each time."""
    found: list[float] = np.geomspace(hot, cold, max(1, steps)).tolist()
    return found
