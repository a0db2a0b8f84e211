"""Calibration: the costs of a runtime's terms from speeds measured on the machine at hand."""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from moeopt.core.errors import InputError, expect
from moeopt.sim.costs.terms import Vector, prior, term_times, token_us
from moeopt.sim.costs.token import amounts
from moeopt.sim.machines.cores import cores_of
from moeopt.sim.machines.machine import Machine

from .calibrated import CalibratedModel, CalibratedRuntime
from .measurements import Measurement
from .profile import as_costs, as_vector, get_runtime

Rows = NDArray[np.float64]


def fit_costs(
    rows: Rows, measured_us: Vector, expected_log: Vector, spread: Vector, noise: float | Vector
) -> Vector:
    """Return the most probable costs of the terms on one machine.

    Parameters
    ----------
    rows
        (points, terms): what each point needs of each term (`amounts`).
    measured_us
        (points,): measured time of a token.
    expected_log, spread
        (terms,): logarithms of the expected costs, and how uncertain they are.
    noise
        Relative error of a point that is not to be explained, or one of each.

    Returns
    -------
    (terms,) array
        Costs c with measured ~ `token_us` (rows, c).

    Notes
    -----
    A posterior mode: normal in the logarithms of the costs, and in the logarithms of the times with
    a soft absolute loss (2 (sqrt(1 + r^2) - 1) of the scaled residual r), so that no single point
    decides. What the points say nothing about stays as expected.
    """
    target = np.log(measured_us)

    def both(log_costs: Vector) -> tuple[Vector, Rows]:
        times = term_times(rows, np.exp(log_costs))
        total = times.sum(axis=1)
        value, slope = soft((np.log(total) - target) / noise)
        shares = times / total[:, None] * (slope / noise)[:, None]
        residuals = np.concatenate([value, (log_costs - expected_log) / spread])
        return residuals, np.vstack([shares, np.diag(1.0 / spread)])

    def residuals(x: Vector) -> Vector:
        return both(x)[0]

    def jacobian(x: Vector) -> Rows:
        return both(x)[1]

    found = least_squares(residuals, expected_log, jac=jacobian, method="trf", x_scale=spread)
    return np.asarray(np.exp(found.x))


def soft(scaled: Vector) -> tuple[Vector, Vector]:
    """Return residuals whose squares are the soft absolute loss, and their derivatives."""
    root = np.sqrt(1.0 + scaled**2)
    value = np.sign(scaled) * np.sqrt(2.0 * (root - 1.0))
    steep = np.abs(scaled) > 1e-6
    slope = np.where(steep, np.abs(scaled) / root / np.where(steep, np.abs(value), 1.0), 1.0)
    return value, slope


NOISE = 0.04
"""Relative error of a measured speed: repetitions differ by up to 3 %, and no term explains all."""

MODELS = 0.1
"""Relative error that a model's points share and no other model has: the terms' own error.

So all points of a model together say as much of the machine as one point with this error would.
Machines' points, whichever machine is left out, give 0.06 to 0.13 (docs/measured.md)."""

BETWEEN_MACHINES = 0.5
"""A machine's costs differ from the profile's by this much of what was uncertain beforehand."""

CLOSE = 0.02
"""A model's own points are met this closely, if need be by costs of its own."""


@dataclass(frozen=True)
class Residual:
    """A measured point and what the calibrated machine predicts of it, in tokens/s."""

    measurement: Measurement
    predicted: float

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted / self.measurement.tokens_per_s - 1.0


@dataclass(frozen=True)
class Calibrated:
    """A calibrated machine, and how well it meets the points it was calibrated on."""

    machine: Machine
    residuals: tuple[Residual, ...]


def machine_costs(
    profile: Vector,
    rows: NDArray[np.float64],
    times_us: Vector,
    models: Sequence[Hashable],
    factor: float,
) -> Vector:
    """Return the costs of the terms on a machine, for models that were not measured there.

    Parameters
    ----------
    profile
        (terms,): costs of the runtime elsewhere, which what the points say nothing about keeps.
    rows, times_us
        (points, terms) and (points,): what each point needs (`amounts`), and what it took.
    models
        (points,): whose point each is; `MODELS` is an error that a model's points share.
    factor
        Within which the profile holds most machines and models. Points that are there, by their
        median, may be so by their models' own error: the profile stays.
    """
    if np.median(np.abs(np.log(token_us(rows, profile) / times_us))) <= np.log(factor):
        return profile
    _, spread = prior()
    alike = Counter(models)
    noise = MODELS * np.sqrt([alike[model] for model in models])
    return fit_costs(rows, times_us, np.log(profile), BETWEEN_MACHINES * spread, noise)


def model_costs(machine: Vector, rows: NDArray[np.float64], times_us: Vector) -> Vector:
    """Return the costs of the terms for one model on a machine.

    They leave those of the machine only as far as that model's points ask for.
    """
    costs = start = machine
    _, spread = prior()
    for looser, noise in ((BETWEEN_MACHINES, MODELS), (0.5, NOISE), (1.0, NOISE), (2.0, NOISE)):
        if np.abs(np.log(token_us(rows, costs) / times_us)).max() <= CLOSE:
            break
        costs = fit_costs(rows, times_us, np.log(start), looser * spread, noise)
        start = costs if noise == MODELS else start
    return costs


def calibrate(machine: Machine, points: Sequence[Measurement]) -> Calibrated:
    r"""Fit the overheads of runtimes to speeds measured on a machine.

    Parameters
    ----------
    machine
        What was measured on; an earlier calibration of the same runtimes is replaced.
    points
        Measured speeds (`moeopt.sim.machines.runtimes.measurements.read_measurements`); two of one
        model, with many and with few experts on the CPU, are enough.

    Returns
    -------
    Calibrated
        The machine with ``runtimes``, which `predict` uses, and a residual per point.

    Raises
    ------
    InputError
        If there are fewer than two points of a runtime, or they have several numbers of threads,
        none of them the machine's.

    Notes
    -----
    Posterior modes (`fit_costs`): the profile of the runtime, fitted to other machines, is what is
    expected; first the machine's costs from all its points, then those of each model from its own.

    Examples
    --------
    >>> import moeopt, pathlib
    >>> head = "model,bits,runtime,n_cpu_moe,context,tokens_per_s"
    >>> rows = ["mixtral-8x7b,Q4_K_M,llama.cpp,16,0,27.5", "mixtral-8x7b,Q4_K_M,llama.cpp,32,0,16"]
    >>> _ = pathlib.Path("points.csv").write_text("\n".join([head, *rows]))
    >>> points = moeopt.read_measurements("points.csv")
    >>> found = moeopt.calibrate(moeopt.get_machine("rtx4090+epyc-9004"), points)
    >>> all(abs(residual.error) < 0.03 for residual in found.residuals)
    True
    >>> moeopt.predict(found.machine, "mixtral-8x7b", bits="Q4_K_M", n_cpu_moe=24).certainty
    'calibrated on this model'
    """
    expect("machine", machine, Machine, what="a machine")
    expect("points", points, list, tuple, what="a list of measurements")
    for number, point in enumerate(points):
        expect(f"points[{number}]", point, Measurement, what="a measurement")
    points = _of_one_number_of_threads(machine, points)
    found, residuals = [], []
    for runtime in dict.fromkeys(point.runtime for point in points):
        own = [point for point in points if point.runtime == runtime]
        if len(own) < 2:
            raise InputError(
                f"at least two of a runtime are needed, {runtime} has one", field="points"
            )
        known = get_runtime(runtime)
        costs = machine_costs(
            as_vector(known.costs),
            _rows(machine, own),
            _times(own),
            [point.model.name for point in own],
            known.interval("not calibrated").factor,
        )
        models = []
        for name, bits in dict.fromkeys((p.model.name, p.model.bits) for p in own):
            group = [p for p in own if (p.model.name, p.model.bits) == (name, bits)]
            rows = _rows(machine, group)
            special = model_costs(costs, rows, _times(group))
            models.append(CalibratedModel(model=name, bits=bits, costs=as_costs(special)))
            speeds = 1e6 / token_us(rows, special)
            residuals += [Residual(p, float(v)) for p, v in zip(group, speeds, strict=True)]
        found.append(
            CalibratedRuntime(
                runtime=runtime, costs=as_costs(costs), models=tuple(models), points=len(own)
            )
        )
    if not found:
        raise InputError("there are none", field="points")
    anew = {one.runtime for one in found}
    kept = tuple(one for one in machine.runtimes if one.runtime not in anew)
    said = f"fitted to {len(points)} measured speeds (moeopt calibrate)"
    changed = machine.model_copy(
        update={"runtimes": kept + tuple(found), "sources": machine.sources | {"runtimes": said}}
    )
    return Calibrated(changed, tuple(residuals))


def _of_one_number_of_threads(
    machine: Machine, points: Sequence[Measurement]
) -> Sequence[Measurement]:
    """Return the points with the machine's number of threads, if they have several."""
    measured = {point.threads for point in points if point.threads is not None}
    if len(measured) < 2:
        return points
    own = cores_of(machine, "interleaved").threads if machine.nodes else None
    if own not in measured:
        said = ", ".join(map(str, sorted(measured)))
        raise InputError(
            f"measured with {said} threads, machine {machine.name} has"
            f" {'no number of them' if own is None else own} (cpu.cores)",
            field="points",
        )
    return [point for point in points if point.threads in (own, None)]


def _rows(machine: Machine, points: Sequence[Measurement]) -> NDArray[np.float64]:
    placed = (point.on(machine) for point in points)
    return np.array([amounts(setting, at.host_calls(setting)) for setting, at in placed])


def _times(points: Sequence[Measurement]) -> Vector:
    return np.array([1e6 / point.tokens_per_s for point in points])
