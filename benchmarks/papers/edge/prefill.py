"""A prompt's layer: what tensor parallelism and load balancing gain over MoNDE (IV-B, IV-D).

The stated NDP units, 64 multipliers at 0.8 GHz, keep up with their memory at one token. A prompt's
experts get dozens; at the stated rate they take a hundred times as long as the figures allow. So
the rate is a free parameter here, and what follows from it is selected, not predicted.
"""

from collections.abc import Sequence
from functools import cache
from statistics import mean
from typing import cast

from benchmarks.papers.edge.cases import MODELS, Reading, cases, machine_name
from benchmarks.papers.edge.framework import optimum
from benchmarks.papers.edge.monde import prefill_ns
from benchmarks.papers.seeds import SEEDS
from benchmarks.rooms.balance import Instance, all_ndp, balance_equation, objective
from moeopt import generate, get_machine, set_machine

WORKLOAD = dict(
    zip(
        MODELS,
        ("esft-deepseek-v2-lite", "esft-deepseek-v2-lite", "hdmoe-mixtral", "hdmoe-mixtral"),
        strict=True,
    )
)
"""Synthetic routing with skew and reuse of a real trace; Qwen3 and Phi have none of their own."""

TOKENS = 512

SLICES = 4
"""Per unit."""

STATED, UNLIMITED = 1.0, 1e6
"""NDP rate as stated; bound by memory whatever the tokens. In multiples of the stated rate."""

SELECTED = 64.0
"""The rate, in multiples of the stated one, that comes nearest to both figures of E5.

Of 1, 16, 24, 32, 40, 48, 56, 64, 128, 256 and without limit, by the larger of the two errors.
"""


@cache
def prefill_instance(model: str, units: int, seed: int, speedup: float) -> Instance:
    """Return one layer of a prompt.

    A prompt's activations are streamed: bytes over the link, without the microsecond that a single
    transfer takes in decoding.
    """
    machine = set_machine(get_machine(machine_name(units)), {"pcie.latency_us": 0.0})
    made = generate(
        "balance",
        machine=machine,
        model=model,
        workload=WORKLOAD[model],
        seed=seed,
        stage="prefill",
        seq_len=TOKENS,
        slices_per_unit=SLICES,
        ndp_speedup=speedup,
    )
    return cast(Instance, made)


def speedups(
    speedup: float,
    models: tuple[str, ...] = MODELS,
    reading: Reading = "expert-parallel",
    exact: bool = False,
    seeds: Sequence[int] = SEEDS,
    times: str = "own",
) -> tuple[float, float]:
    """Return by how much TP and TP+LB are faster than MoNDE, mean over cases and prompts.

    Parameters
    ----------
    speedup
        NDP rate, in multiples of the stated one.
    exact
        The best slices in place of Eq. 2.
    seeds
        Each a prompt for every case.
    times
        The assumption ``balance_times`` of `moeopt.problems.balance.assumptions`, at its default.
    """
    tp, lb = [], []
    for model, units in cases():
        for seed in seeds if model in models else ():
            instance = prefill_instance(model, units, seed, speedup)
            base = prefill_ns(instance, reading)
            balanced = optimum(instance) if exact else balance_equation(instance, times)
            tp.append(base / objective(instance, all_ndp(instance)))
            lb.append(base / objective(instance, balanced))
    return mean(tp), mean(lb)
