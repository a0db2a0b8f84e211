"""Good splits: consecutive blocks by dynamic programming, then moves and exchanges of parts."""

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.compiled import compiled

from .paths import FAR, Ints, Paths

MOST_MOVES = 2_000
"""Improvements of one start; each is of a nanosecond at least."""

CELLS_PER_UNIT = 40_000_000
"""Moves looked at per unit of work."""

BLOCK_STEPS_PER_UNIT = 200_000_000
"""Steps of `block_costs`, devices x layers^3 / 6, per unit of work."""


def blocks(paths: Paths, ways: Ints, host: int) -> Ints | None:
    """Return homes in which each device, in turn, has attention of consecutive layers.

    In a block, experts lie beside attention, those first that gain most per byte, as far as there
    is room; the others lie on `host`. The blocks' ends are the best for such splits.

    Parameters
    ----------
    ways
        The devices that may have a block, in the order of the blocks.
    host
        Where the other experts lie.

    Returns
    -------
    (2, layers) array or None
        None if there is no such split.
    """
    layers = len(paths.has)
    gain = np.zeros(layers)
    table = np.full((len(ways) + 1, layers + 1), FAR, dtype=np.int64)
    begins = np.zeros((len(ways) + 1, layers + 1), dtype=np.int64)
    table[0, 0] = 0
    orders = []
    for row, device in enumerate(ways.tolist()):
        away = paths.hop[device, host] + paths.hop[host, device]
        beside = np.where(paths.experts[:, device] < FAR, paths.experts[:, device], FAR)
        gain = (paths.experts[:, host] + away - beside) / np.maximum(paths.experts_bytes, 1)
        order = np.argsort(-gain, kind="stable")
        orders.append(order)
        cost = block_costs(
            paths.attention[:, device], beside, paths.experts[:, host] + away,
            paths.attention_bytes, paths.experts_bytes, paths.has, order, int(paths.room[device]),
        )  # fmt: skip
        spend(layers**3 / 6 / BLOCK_STEPS_PER_UNIT)
        hop = paths.hop[ways[row - 1], device] if row else paths.hop[paths.source, device]
        for end in range(layers + 1):
            table[row + 1, end], begins[row + 1, end] = table[row, end], end
            for begin in range(end):
                if table[row, begin] < FAR and cost[begin, end] < FAR:
                    value = table[row, begin] + cost[begin, end] + hop
                    if value < table[row + 1, end]:
                        table[row + 1, end], begins[row + 1, end] = value, begin
    if table[-1, -1] >= FAR:
        return None
    homes = np.full((2, layers), -1, dtype=np.int64)
    end = layers
    for row in range(len(ways), 0, -1):
        begin = int(begins[row, end])
        device = int(ways[row - 1])
        room = int(paths.room[device]) - int(paths.attention_bytes[begin:end].sum())
        for layer in orders[row - 1].tolist():
            if not begin <= layer < end or not paths.has[layer]:
                continue
            away = paths.hop[device, host] + paths.hop[host, device] + paths.experts[layer, host]
            size = int(paths.experts_bytes[layer])
            stays = size <= room and paths.experts[layer, device] < away
            homes[1, layer] = device if stays else host
            room -= size if stays else 0
        homes[0, begin:end] = device
        end = begin
    return homes


@compiled
def block_costs(
    attention: Ints,
    beside: Ints,
    away: Ints,
    attention_bytes: Ints,
    experts_bytes: Ints,
    has: Ints,
    order: Ints,
    room: int,
) -> Ints:
    """Return the time of each block of layers on a device, shape (layers, layers + 1).

    From its first layer to the one before its end, without the hop to it; `FAR` where attention
    alone has no room.
    """
    layers = len(attention)
    cost = np.full((layers, layers + 1), FAR, dtype=np.int64)
    for begin in range(layers):
        free, base = room, 0
        for end in range(begin + 1, layers + 1):
            if attention[end - 1] >= FAR:
                break
            base += attention[end - 1]
            free -= attention_bytes[end - 1]
            if free < 0:
                break
            left, total = free, base
            for layer in order:
                if layer < begin or layer >= end or not has[layer]:
                    continue
                if experts_bytes[layer] <= left and beside[layer] < away[layer]:
                    left -= experts_bytes[layer]
                    total += beside[layer]
                elif away[layer] < FAR:
                    total += away[layer]
                else:
                    total = FAR
                    break
            if total < FAR:
                cost[begin, end] = total
    return cost


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
