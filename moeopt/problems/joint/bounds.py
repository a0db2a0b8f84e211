"""Lower bounds on the time of all steps that need no solver, each with its proof."""

from math import gcd

import numpy as np

from .instance import Instance

PARTS = 8
"""Shares of the two sides that are tried: multiples of an eighth."""


def objective_grid(instance: Instance) -> int:
    """Return a number that every objective is a multiple of: all times' common divisor."""
    times = [*instance.copy_ns, *instance.shared_ns, instance.hand_over_ns]
    for context in instance.contexts:
        times += [context.step_ns, *context.attention_ns]
    for table in (*instance.gpu_ns, *instance.cpu_ns):
        times += table
    return gcd(*times) or 1


def lower_bound(instance: Instance) -> int:
    """Return the best of a few bounds that look at each layer of each step alone.

    Proof. From the start of a layer's attention to that of the next one it takes A + S + G at
    least, with A attention, S shared experts and G the experts on the GPU. Where nothing may be
    deferred it takes A + I as well, with I those on the CPU, so for a share p of 8 at least
    A + (p (S + G) + (8 - p) I) / 8, a sum over the experts, each of which is at its least on one of
    the sides and at one of the widths. Where experts may be deferred A + S is left. Contexts that
    do not fit beside nothing are no solution's.
    """
    layers = instance.layers
    fit = [c for c in instance.contexts if c.kv_bytes <= instance.gpu_bytes]
    around = [
        len(instance.steps) * (c.step_ns + sum(c.attention_ns)) for c in fit or instance.contexts
    ]
    rows = instance.rows
    gpu = np.array(instance.gpu_ns)[:, rows.tokens].min(axis=0)
    cpu = np.array(instance.cpu_ns)[:, rows.tokens].min(axis=0)
    shared = np.tile(np.array(instance.shared_ns), len(instance.steps))
    best = shared.copy()
    fixed = np.arange(layers) == layers - 1 if instance.max_deferred else np.full(layers, True)
    alone = np.tile(fixed, len(instance.steps))
    for p in range(PARTS + 1):
        least = np.minimum(p * gpu, (PARTS - p) * cpu)
        summed = np.zeros(len(shared), dtype=np.int64)
        np.add.at(summed, rows.row, least)
        best = np.where(alone, np.maximum(best, -(-(p * shared + summed) // PARTS)), best)
    return min(around) + int(best.sum())
