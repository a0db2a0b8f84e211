"""Whether the forecast of loads says what comes: coverage and likelihood on real traces.

    python benchmarks/studies/forecast.py --traces DIR [--batch 256] [--figure docs/forecast.svg]

DIR holds ``esft_deepseek_v2_lite/*.npz`` and ``hdmoe_mixtral_8x7b/*.npz``; what a trace reads twice
is removed first, and behind it the 600 tokens of a prompt that all of HD-MoE's traces share. In
each layer, from the fourth window on, the last eight windows are what was observed, and the eight
after them, as far as there are, what is forecast.

Prints a Markdown row per trace: how many of the later counts the intervals of 50, 80 and 95 %
cover; and the mean log-likelihood of a count, in nats, beside what it is with other forecasts: the
plain mean and the moving average of TriMoE Eq. 8 as means of Poisson counts, and both with the
fitted variance. These are given half a token for each expert, without which an expert that was not
seen would be impossible. With ``--one`` a single window is observed: then the prior decides.

Counts are whole, so that no interval has exactly the level asked for. A count on the edge of one is
counted as inside with the chance that makes the level exact (randomised probability integral
transform; Czado, Gneiting and Held, Biometrics 65, 2009).
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import moeopt
from benchmarks.rooms.sim import ALPHA, Dynamics, Forecast, fit, forecast, read_trace

FOLDERS = {"esft_deepseek_v2_lite": (64, 0), "hdmoe_mixtral_8x7b": (8, 600)}
"""Experts, and tokens that are left out."""

SEEN, LATER, FIRST = 8, 8, 4
"""Windows that are observed at most, that are forecast, and that the first forecast has seen."""

EVERY = 2
"""From one forecast of a layer to the next, in windows."""

LEVELS = np.arange(0.05, 1.0, 0.05)
SHOWN = (0.5, 0.8, 0.95)
FEW = 0.5
"""Tokens that the plain mean and the moving average are given for each expert."""

OTHERS = ("plain mean", "EMA", "plain mean, fitted variance", "EMA, fitted variance")
HEADER = (
    f"| trace | forecasts | {' | '.join(f'{level:.0%} covers' for level in SHOWN)} | likelihood |"
    f" {' | '.join(OTHERS)} |\n|---|---:|{'---:|' * (len(SHOWN) + 1 + len(OTHERS))}"
)


@dataclass(frozen=True)
class Calibration:
    """What the forecasts of one trace are worth.

    Attributes
    ----------
    forecasts
        How many there are.
    covered
        Share of later counts within the interval of each of `LEVELS`.
    likelihood
        Mean log-likelihood of a later count.
    others
        The same with the forecasts of `OTHERS`.
    """

    name: str
    forecasts: int
    covered: NDArray[np.float64]
    likelihood: float
    others: tuple[float, ...]


def windows(file: Path, batch: int) -> Iterator[NDArray[np.int64]]:
    """Yield the loads of each layer of a trace, shape (windows, experts)."""
    experts, skipped = FOLDERS[file.parent.name]
    ids = moeopt.dedupe_trace(read_trace(file)).topk_ids[skipped:].astype(np.int64)
    number = len(ids) // batch
    for layer in range(ids.shape[1]):
        parts = np.split(ids[: number * batch, layer], number)
        yield np.array([np.bincount(part.ravel(), minlength=experts) for part in parts])


def calibration(file: Path, batch: int, seen: int = SEEN) -> Calibration:
    """Return what forecasts of a trace's layers are worth."""
    rng = np.random.default_rng(0)
    places, likelihood, others = [], [], []
    for loads in windows(file, batch):
        for now in range(FIRST, len(loads), EVERY):
            observed, later = loads[max(0, now - seen) : now], loads[now : now + LATER]
            found = fit(observed, LATER)
            below, up_to = found.cdf(later - 1), found.cdf(later)
            places.append((below + (up_to - below) * rng.random(later.shape)).ravel())
            likelihood.append(found.log_likelihood(later))
            others.append([one.log_likelihood(later) for one in _others(observed, found)])
    away = np.abs(np.concatenate(places) - 0.5)
    covered = np.array([(away < level / 2).mean() for level in LEVELS])
    means = tuple(np.mean(others, axis=0).tolist())
    return Calibration(file.stem, len(likelihood), covered, float(np.mean(likelihood)), means)


def _others(observed: NDArray[np.int64], found: Forecast) -> Iterator[Forecast]:
    """Yield the forecasts of `OTHERS`, the latter two with the variance that was fitted."""
    exact = Dynamics(FEW, 1.0, 1.0, 0.0)
    plain = forecast(observed, exact, LATER)
    moving = forecast(observed, replace(exact, discount=1 - ALPHA), LATER)
    for one in (plain, moving):
        yield replace(one, variance=one.mean)
    for one in (plain, moving):
        yield replace(one, variance=found.variance / found.mean * one.mean)


def row(found: Calibration) -> str:
    """Return a trace's row."""
    shown = [found.covered[int(np.argmin(np.abs(LEVELS - level)))] for level in SHOWN]
    cells = [found.name, str(found.forecasts), *(f"{100 * share:.1f} %" for share in shown)]
    cells += [f"{value:.3f}" for value in (found.likelihood, *found.others)]
    return f"| {' | '.join(cells)} |"


def draw(found: list[Calibration], path: Path) -> None:
    """Draw what intervals cover over what they promise; needs the extra `report`."""
    from matplotlib.figure import Figure

    from benchmarks.rooms.problems import save_figure

    figure = Figure(figsize=(6, 5), layout="constrained")
    axis = figure.subplots()
    axis.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    axis.fill_between([0, 1], [-0.05, 0.95], [0.05, 1.05], color="0.9", label="within 5 points")
    for one in found:
        axis.plot(LEVELS, one.covered, marker=".", markersize=4, linewidth=1, label=one.name)
    axis.set(xlim=(0, 1), ylim=(0, 1), xlabel="chance that the interval states")
    axis.set_ylabel("later counts inside")
    axis.legend(fontsize="small")
    save_figure(figure, path)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder with the traces")
    parser.add_argument("--batch", type=int, default=256, help="tokens in a window")
    parser.add_argument("--one", action="store_true", help="only one window is observed")
    parser.add_argument("--figure", type=Path, help="also draw it: .svg, .png or .pdf")
    arguments = parser.parse_args()
    print(HEADER, flush=True)
    found = []
    for folder in FOLDERS:
        for file in sorted((arguments.traces / folder).glob("*.npz")):
            found.append(calibration(file, arguments.batch, 1 if arguments.one else SEEN))
            print(row(found[-1]), flush=True)
    if arguments.figure is not None:
        draw(found, arguments.figure)


if __name__ == "__main__":
    main()
