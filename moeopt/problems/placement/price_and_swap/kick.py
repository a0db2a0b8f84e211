"""Random exchanges that take a placement out of a local optimum."""

import numpy as np

from moeopt.problems.placement.layer_steps import Flags
from moeopt.problems.placement.room import Room

EXCHANGES = (2, 10)
"""Fewest and most exchanges of a kick."""

TRIES = 50


def kicked(held: Flags, room: Room, rng: np.random.Generator) -> Flags:
    """Return a placement that keeps the rules, some experts away from the given one.

    Experts that change sides are drawn from few layers, so that exchanges soon mend what is worse.
    """
    for _ in range(TRIES):
        found = held.copy()
        layers = rng.choice(len(held), size=min(2, len(held)), replace=False)
        for _ in range(int(rng.integers(*EXCHANGES))):
            out, into = (int(layer) for layer in rng.choice(layers, size=2))
            if room.restriction == "equal-counts":
                into = out
            on, off = np.flatnonzero(found[out]), np.flatnonzero(~found[into])
            if len(on) and len(off):
                found[out, rng.choice(on)] = False
                found[into, rng.choice(off)] = True
        if room.allows(found):
            return found
    return held
