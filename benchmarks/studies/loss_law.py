"""Fit the law of losses to a table of measured ones.

    python benchmarks/studies/loss_law.py FILE

FILE is a table of losses: CSV with ``layer,expert,loss_1bit,...``, say.
Prints the law's numbers beside those that the package has, and what was measured: the spread within
a layer, and what one bit more divides a loss by.
"""

import argparse
from pathlib import Path

import numpy as np

from benchmarks.rooms.sim import FITTED, LossLaw, LossTable, load_loss_table


def fitted_to(table: LossTable) -> LossLaw:
    """Return the law of a measured table at consecutive widths from 1 on.

    Medians over the layers, so that a layer with a single odd expert does not set a number.
    """
    logs = np.log(np.maximum(table.losses, np.finfo(float).tiny))
    falls = logs[:, :, :-1] - logs[:, :, 1:]
    by_layer = np.median(logs, axis=1).mean(axis=1)
    place = np.linspace(0, 1, len(by_layer))
    depth = float(np.polyfit(place, by_layer, 1)[0]) if len(by_layer) > 1 else 0.0
    spread = np.median(logs.std(axis=1, ddof=1), axis=0)
    return LossLaw(
        depth=round(depth, 2),
        spread=round(float(spread.mean()), 3),
        fall=tuple(np.median(falls, axis=(0, 1)).round(3).tolist()),
        scatter=tuple(np.median(falls.std(axis=1, ddof=1), axis=0).round(3).tolist()),
    )


def main() -> None:
    """Print the fit; figures without another word are medians over layers or experts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    table = load_loss_table(parser.parse_args().file)
    print(f"fitted:  {fitted_to(table)}\npackage: {FITTED}")
    ratio = np.median(table.losses.max(axis=1) / table.losses.min(axis=1), axis=0)
    falls = np.median(table.losses[:, :, :-1] / table.losses[:, :, 1:], axis=(0, 1))
    worse = (table.losses[:, :, :-1] < table.losses[:, :, 1:]).mean(axis=(0, 1))
    for column, width in enumerate(table.bits):
        print(
            f"{width} bits: largest over least loss of a layer {ratio[column]:.2f} (median)", end=""
        )
        if column + 1 < len(table.bits):
            following = table.bits[column + 1]
            print(f"; {following} bits lose {falls[column]:.2f} times less, ", end="")
            print(f"more for {100 * worse[column]:.1f} % of the experts", end="")
        print()


if __name__ == "__main__":
    main()
