"""Times of kernels where they were not fitted: other ranks, batches and devices.

    python benchmarks/studies/replication_elsewhere.py --data DIR

Of the measurements and the form of `benchmarks/studies/replication_kernel.py`: numbers of ranks
left out of the fit one by one, the shipped times by tokens of a batch, and times of one device by
data sheets from another's (`KernelTimes.scaled`).
"""

import argparse
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from benchmarks.rooms.replication import KERNELS, KernelTimes
from benchmarks.studies.replication_kernel import (
    Floats,
    Measured,
    predicted,
    signs,
    single,
    wide,
)

SHEETS = {"h100-fp8": (3350.0, 1979.0, 1.0), "a100-bf16": (2039.0, 312.0, 2.0)}
"""GB/s of memory, dense TFLOPS in the format and bytes per weight, by the vendor's data sheets."""

BANDS = (1, 65, 513, 4097, 2**20)


def shipped(name: str) -> Floats:
    """Return the logarithms of a kernel's shipped times, as `predicted` takes them."""
    return logs_of(KERNELS[name])


def logs_of(kernel: KernelTimes) -> Floats:
    """Return the logarithms of a kernel's times."""
    launch, read = kernel.launch_ns / 10**3, kernel.read_ps_per_thousand / 10**3
    each = kernel.pass_ps_per_million / 10**6, kernel.token_ps_per_million / 10**6
    return np.log([launch, read, *each])


def elsewhere(data: Path) -> None:
    """Print the errors on ranks, tokens and devices that were not fitted."""
    table, other = wide(data), single(data, "bfloat16", "a100-bf16")
    ranks = np.array([int(str(key[4])) for key in table.keys])
    print("| what was left out | rows | median error | bias | sign of copies |")
    print("|---|---:|---:|---:|---:|")

    def row(name: str, kept: Any, guess: Floats, of: Measured, right: str = "-") -> None:
        error = guess[kept] / of.us[kept] - 1
        cells = f"{np.median(np.abs(error)):.1%} | {np.median(error):+.1%} | {right}"
        print(f"| {name} | {int(kept.sum())} | {cells} |", flush=True)

    for count in np.unique(ranks).tolist():
        own = ranks == count

        def residual(p: Floats, own: Any = own) -> Floats:
            return np.asarray(np.log(predicted("partly", p, table) / table.us)[~own])

        start = np.array([3.6, -1.0, -5.5, -6.0])
        guess = predicted(
            "partly", least_squares(residual, start, loss="soft_l1", f_scale=0.1).x, table
        )
        good = [
            one for known in (False, True) for one in signs(of_rows(table, own), guess[own], known)
        ]
        said = f"{sum(good)} of {len(good)}" if good else "-"
        row(f"{count} ranks", own, guess, table, said)
    batch, guess = np.array(table.batch), predicted("shipped", shipped("h100-fp8"), table)
    for low, high in pairwise(BANDS):
        kept = (batch >= low) & (batch < high)
        if kept.any():
            row(f"nothing; {low} to {high - 1} tokens", kept, guess, table)
    for source, target, of in (("h100-fp8", "a100-bf16", other), ("a100-bf16", "h100-fp8", table)):
        here, there = SHEETS[source], SHEETS[target]
        scaled = KERNELS[source].scaled(here[0] / there[0] * there[2] / here[2], here[1] / there[1])
        every = np.ones(len(of.us), dtype=bool)
        row(
            f"{target} by data sheets from {source}",
            every,
            predicted("shipped", logs_of(scaled), of),
            of,
        )


def of_rows(table: Measured, kept: Any) -> Measured:
    """Return some rows of a table."""
    at = np.flatnonzero(kept).tolist()
    columns = (column[kept] for column in (table.weights, table.experts, table.tokens, table.us))
    return Measured(table.name, [table.keys[n] for n in at], [table.batch[n] for n in at], *columns)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the measurements")
    elsewhere(parser.parse_args().data)


if __name__ == "__main__":
    main()
