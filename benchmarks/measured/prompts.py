"""Public speeds at which prompts are read: what a ubatch takes, fitted, and how far off that is.

The same as for decoding with fewer points: nothing is chosen, the costs' priors stand in
prompt.toml, and a machine is predicted by a fit to the others.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from benchmarks.measured.points import group_of, machine_called, model_called, number_in
from benchmarks.rooms.sim import (
    PROMPT_PRIOR,
    PROMPT_TERMS,
    Context,
    Placement,
    PromptCosts,
    Setting,
    placed_rows,
    prompt_slopes,
    soft,
)

Vector = NDArray[np.float64]

NOISE, MACHINE = 0.1, 0.3
"""Standard deviations of logarithms expected beforehand: of a point, and of a machine."""

INSIDE = 0.8


@dataclass(frozen=True)
class PromptPoint:
    """A speed at which a prompt was read.

    Attributes
    ----------
    group
        Its machine.
    rows, often
        What its ubatch needs (`placed_rows`).
    us
        What the ubatch took.
    """

    group: str
    label: str
    rows: Vector
    often: Vector
    us: float


@dataclass(frozen=True)
class HeldPrompt:
    """A held-out prompt: logarithm of predicted over measured speed, and its expected size."""

    point: PromptPoint
    log: float
    sd: float


@dataclass(frozen=True)
class Prompts:
    """The fit to all points, and each point predicted without its machine."""

    costs: PromptCosts
    held: list[HeldPrompt]

    @property
    def median(self) -> float:
        """Median over machines of their median error in size."""
        sizes: dict[str, list[float]] = {}
        for one in self.held:
            sizes.setdefault(one.point.group, []).append(abs(float(np.expm1(one.log))))
        return float(np.median([np.median(own) for own in sizes.values()]))

    @property
    def inside(self) -> float:
        """Share of points in an interval whose scale is of other machines' points."""
        found = []
        for one in self.held:
            others = [other for other in self.held if other.point.group != one.point.group]
            found.append(abs(one.log) <= _scale(others) * one.sd)
        return float(np.mean(found))


def read_prompts() -> list[PromptPoint]:
    """Return the public points."""
    text = files(__package__).joinpath("prompts.csv").read_text("utf-8")
    found = []
    for row in csv.DictReader(io.StringIO(text)):
        machine = machine_called(row["machine"])
        model = model_called(row["preset"], row["bits"])
        prompt, ubatch = int(row["prompt"]), int(row["ubatch"])
        setting = Setting(machine, model, row["runtime"], Context.at(prompt), ubatch=ubatch)
        tokens = min(prompt, ubatch)
        calls = Placement.of_blocks(setting, int(row["n_cpu_moe"])).host_calls(setting)
        rows, often = placed_rows(setting, tokens, prompt, calls)
        speed = number_in("tok_s", row["tok_s"])
        label = f"{row['machine']} {row['preset']} {row['bits']} {tokens}"
        found.append(
            PromptPoint(group_of(row["machine"]), label, rows, often, 1e6 * tokens / speed)
        )
    return found


def fit_prompts(points: Sequence[PromptPoint]) -> tuple[Vector, Vector]:
    """Return the logarithms of the most probable costs, and their covariance."""
    expected = np.log([term["expected"] for term in PROMPT_PRIOR.values()])
    spread = np.array([term["spread"] for term in PROMPT_PRIOR.values()])
    groups = list(dict.fromkeys(point.group for point in points))
    machine = np.array([groups.index(point.group) for point in points])

    @lru_cache(maxsize=2)
    def both(numbers: tuple[float, ...]) -> tuple[Vector, Vector]:
        x = np.array(numbers)
        costs, effects = np.exp(x[: len(expected)]), x[len(expected) :]
        made = [prompt_slopes(point.rows, point.often, costs) for point in points]
        log = np.array([np.log(us / p.us) for (us, _), p in zip(made, points, strict=True)])
        value, slope = soft((log + effects[machine]) / NOISE)
        jacobian = np.zeros((len(points) + len(x), len(x)))
        jacobian[: len(points), : len(expected)] = np.array([s for _, s in made])
        jacobian[np.arange(len(points)), len(expected) + machine] = 1.0
        jacobian[: len(points)] *= (slope / NOISE)[:, None]
        scale = np.concatenate([spread, np.full(len(groups), MACHINE)])
        jacobian[len(points) :] = np.diag(1.0 / scale)
        middle = np.concatenate([expected, np.zeros(len(groups))])
        return np.concatenate([value, (x - middle) / scale]), jacobian

    start = np.concatenate([expected, np.zeros(len(groups))])
    found = least_squares(
        lambda x: both(tuple(x))[0], start, jac=lambda x: both(tuple(x))[1], ftol=1e-6
    )
    covariance = np.linalg.inv(found.jac.T @ found.jac)
    count = len(expected)
    return found.x[:count], covariance[:count, :count]


def prompts(points: Sequence[PromptPoint]) -> Prompts:
    """Fit the costs to all points, and predict each machine by the others."""
    held = []
    for group in dict.fromkeys(point.group for point in points):
        log, covariance = fit_prompts([point for point in points if point.group != group])
        for point in points:
            if point.group == group:
                us, slopes = prompt_slopes(point.rows, point.often, np.exp(log))
                sd = np.sqrt(slopes @ covariance @ slopes + MACHINE**2 + NOISE**2)
                held.append(HeldPrompt(point, float(np.log(point.us / us)), float(sd)))
    log, covariance = fit_prompts(points)
    rows = covariance.tolist()
    costs = PromptCosts(
        costs=dict(zip(PROMPT_TERMS, (float(f"{x:.6g}") for x in np.exp(log)), strict=True)),
        covariance=tuple(
            tuple(float(f"{x:.3g}") for x in row[: n + 1]) for n, row in enumerate(rows)
        ),
        machine=MACHINE,
        noise=NOISE,
        scale=round(_scale(held), 3),
        points=len(points),
    )
    return Prompts(costs, held)


def _scale(held: Sequence[HeldPrompt]) -> float:
    """Return how many expected sizes hold 80 % of the errors."""
    sizes = np.sort([abs(one.log) / one.sd for one in held])
    return float(sizes[int(np.ceil(INSIDE * len(sizes) - 1e-9)) - 1])
