"""Calibrated runtimes: what a machine's file keeps of speeds that were measured on it."""

from typing import Annotated

from pydantic import Field

from moeopt.core.envelope import Frozen
from moeopt.sim.costs.terms import Costs
from moeopt.sim.machines.about import about

CALIBRATE = "`moeopt calibrate`"
Short = Annotated[str, Field(min_length=1, max_length=200)]


class CalibratedModel(Frozen):
    """A model whose speed was measured on the machine."""

    model: Short = about("name of the model", find=CALIBRATE)
    bits: Annotated[float, Field(strict=True, gt=0, le=64, allow_inf_nan=False)] = about(
        "width of its experts", unit="bits", find=CALIBRATE
    )
    costs: Costs = about("term -> cost, for this model", find=CALIBRATE)


class CalibratedRuntime(Frozen):
    """A runtime whose speed was measured on the machine."""

    runtime: Short = about("name of the runtime", find=CALIBRATE)
    costs: Costs = about("term -> cost, for any model", find=CALIBRATE)
    models: Annotated[tuple[CalibratedModel, ...], Field(max_length=100)] = about(
        "the models that were measured", find=CALIBRATE
    )
    points: Annotated[int, Field(strict=True, ge=1, le=10**6)] = about(
        "how many measurements there were", unit="points", find=CALIBRATE
    )
