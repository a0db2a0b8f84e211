"""What a machine file keeps of a calibration: the costs of a runtime's terms on that machine."""

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from moeopt.core.envelope import Frozen, field_error
from moeopt.sim.machines.fields import about
from moeopt.sim.machines.runtimes.terms import PRIOR, TERMS

Cost = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]
Costs = dict[str, Cost]
Short = Annotated[str, Field(min_length=1, max_length=200)]

LATER = ("gpu_scores",)
"""Terms that files written before them do not have."""


def every_term(costs: Costs) -> Costs:
    """Return the costs if there is one of each term, else raise what validators raise.

    Terms of `LATER` are as expected where a file does not have them.
    """
    costs = {term: PRIOR[term].expected for term in LATER} | costs
    if set(costs) != set(TERMS):
        raise field_error([], f"must have exactly {', '.join(TERMS)}")
    return costs


class CalibratedModel(Frozen):
    """A model whose speed was measured on the machine."""

    model: Annotated[Short, about("name of the model", find="`moeopt calibrate`")]
    bits: Annotated[
        Annotated[float, Field(strict=True, gt=0, le=64, allow_inf_nan=False)],
        about("width of its experts", "bits", "`moeopt calibrate`"),
    ]
    costs: Annotated[Costs, about("term -> cost, for this model", find="`moeopt calibrate`")]

    @field_validator("costs")
    @classmethod
    def _every_term(cls, costs: Costs, info: ValidationInfo) -> Costs:
        return every_term(costs)


class CalibratedRuntime(Frozen):
    """A runtime whose speed was measured on the machine."""

    runtime: Annotated[Short, about("name of the runtime", find="`moeopt calibrate`")]
    costs: Annotated[Costs, about("term -> cost, for any model", find="`moeopt calibrate`")]
    models: Annotated[
        tuple[CalibratedModel, ...],
        Field(max_length=100),
        about("the models that were measured", find="`moeopt calibrate`"),
    ]
    points: Annotated[
        Annotated[int, Field(strict=True, ge=1, le=10**6)],
        about("how many measurements there were", "points", find="`moeopt calibrate`"),
    ]

    @field_validator("costs")
    @classmethod
    def _every_term(cls, costs: Costs, info: ValidationInfo) -> Costs:
        return every_term(costs)
