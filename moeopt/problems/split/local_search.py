"""Better splits: moves and exchanges of parts."""

import numpy as np

from moeopt.core.clock import spend

from .paths import FAR, Ints, Paths

MOST_MOVES = 2_000
"""Improvements of one start; each is of a nanosecond at least."""

CELLS_PER_UNIT = 40_000_000
"""Moves looked at per unit of work."""


def improved(paths: Paths, homes: Ints) -> Ints:
    """Return homes that no move of a part, or of a layer, or exchange of experts makes better.

    Parameters
    ----------
    homes
        Of a split that fits, shape (2, layers).
    """
    homes = homes.copy()
    layers, count = paths.attention.shape
    used = np.bincount(homes[0], paths.attention_bytes, count)
    used = (used + np.bincount(np.maximum(homes[1], 0), paths.experts_bytes, count)).astype(int)
    every = np.arange(layers)
    for _ in range(MOST_MOVES):
        spend((3 * layers * count + layers * layers) / CELLS_PER_UNIT)
        at, has = homes[0], paths.has > 0
        home = np.where(has, homes[1], at)
        before = np.concatenate([[paths.source], home[:-1]])
        after = np.concatenate([at[1:], [paths.source]])
        free = paths.room - used
        out = paths.hop[at] + paths.experts + paths.hop[:, after].T  # experts on each device
        out = np.where((paths.experts < FAR) & has[:, None], out, FAR)
        experts = np.where(paths.experts_bytes[:, None] <= free, out - out[every, home][:, None], 0)
        experts[~has] = 0
        into = paths.hop[before] + paths.attention  # attention on each device
        low = np.concatenate([[-1], paths.place[at[:-1]]])
        high = np.concatenate([paths.place[at[1:]], [count]])
        keeps = (paths.place >= low[:, None]) & (paths.place <= high[:, None])
        keeps &= paths.attention < FAR
        onward = np.where(has[:, None], paths.hop[:, home].T, paths.hop[:, after].T)
        alone = into + onward
        alone = alone - alone[every, at][:, None]
        fits = keeps & (paths.attention_bytes[:, None] <= free)
        alone = np.where(fits, alone, 0)
        now = into[every, at] + out[every, home]
        both = into + np.diag(paths.hop) + paths.experts + paths.hop[:, after].T - now[:, None]
        fits = keeps & has[:, None] & (paths.experts < FAR)
        fits &= (paths.attention_bytes + paths.experts_bytes)[:, None] <= free
        both = np.where(fits, both, 0)
        swap = out[:, home] - out[every, home][:, None]
        swap = swap + swap.T
        sizes = paths.experts_bytes[:, None] - paths.experts_bytes[None, :]
        fits = (sizes <= free[home][None, :]) & (-sizes <= free[home][:, None])
        fits &= has[:, None] & has[None, :] & (out[:, home] < FAR) & (out[:, home] < FAR).T
        beside = np.abs(every[:, None] - every[None, :]) > 0
        swap = np.where(fits & beside, swap, 0)
        moves = (experts, alone, both, swap)
        best = min(range(4), key=lambda kind: (int(moves[kind].min()), kind))
        if moves[best].min() >= 0:
            return homes
        layer, target = divmod(int(moves[best].argmin()), moves[best].shape[1])
        size, held = int(paths.attention_bytes[layer]), int(paths.experts_bytes[layer])
        if best in (1, 2):
            used[at[layer]] -= size
            used[target] += size
            homes[0, layer] = target
        if best in (0, 2):
            used[home[layer]] -= held
            used[target] += held
            homes[1, layer] = target
        if best == 3:
            used[home[layer]] += int(paths.experts_bytes[target]) - held
            used[home[target]] += held - int(paths.experts_bytes[target])
            homes[1, layer], homes[1, target] = homes[1, target], homes[1, layer]
    return homes
