"""What a rule may know before the steps are there: counts of the prompts and of an offline profile.

Exact methods ignore it.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from moeopt.core.envelope import Count, Data, field_error
from moeopt.core.host_memory import absent

MAX_LAYERS = 1024
MAX_EXPERTS = 4096
MAX_SCALE = 2**30

_Row = Annotated[tuple[Count, ...], Field(max_length=MAX_EXPERTS, fail_fast=True)]

PerExpert = Annotated[tuple[_Row, ...], Field(max_length=MAX_LAYERS, fail_fast=True)]
"""A number per expert, by layer."""

TABLES = ("prefill_counts", "prefill_scores", "profile_counts")


class Known(Data):
    """How much each expert was used before the steps, by layer and expert; each may be absent.

    Parameters
    ----------
    prefill_counts
        Tokens that chose each expert in the prompts of the sequences whose decoding the steps are:
        what context-aware CXL-NDP 4.1 and the edge GPU-NDP paper's pre-fetching collect.
    prefill_scores
        Routing weights that those tokens gave each expert, summed, in units of 1 / `score_scale`.
    score_scale
        What a routing weight of 1 is as an integer; given with `prefill_scores`, and only then.
    profile_counts
        Tokens that chose each expert in an offline profile, as of KTransformers and Fiddler: other
        sequences of the trace, or the steps before these.
    """

    prefill_counts: Annotated[PerExpert | None, Field(exclude_if=absent)] = None
    prefill_scores: Annotated[PerExpert | None, Field(exclude_if=absent)] = None
    score_scale: Annotated[
        int | None, Field(strict=True, ge=1, le=MAX_SCALE, exclude_if=absent)
    ] = None
    profile_counts: Annotated[PerExpert | None, Field(exclude_if=absent)] = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.prefill_counts is None and self.profile_counts is None:
            raise field_error([], "must have prefill_counts or profile_counts")
        if self.prefill_scores is not None and self.prefill_counts is None:
            raise field_error(["prefill_scores"], "needs prefill_counts")
        if (self.prefill_scores is None) != (self.score_scale is None):
            raise field_error(["score_scale"], "must be given with prefill_scores, and only then")
        return self

    def check_shape(self, layers: int, experts: int) -> None:
        """Refuse tables of another shape than the instance's."""
        for name in TABLES:
            table = getattr(self, name)
            if table is not None:
                check_per_expert([name], table, layers, experts)


def check_per_expert(at: list[str | int], table: PerExpert, layers: int, experts: int) -> None:
    """Refuse a table that has not one number for each expert of each layer."""
    if len(table) != layers:
        raise field_error(at, f"must have one list per layer, {layers}, not {len(table)}")
    for layer, row in enumerate(table):
        if len(row) != experts:
            reason = f"must have one entry per expert, {experts}, not {len(row)}"
            raise field_error([*at, layer], reason)
