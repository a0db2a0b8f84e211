"""The steps to serve: which experts have tokens, and the routing weights that came with them."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from moeopt.core.envelope import Count, field_error

from .known import MAX_EXPERTS, MAX_LAYERS

MAX_STEPS = 2**20

Active = tuple[Count, Count]
"""An expert and its tokens."""

Layer = Annotated[tuple[Active, ...], Field(max_length=MAX_EXPERTS, fail_fast=True)]
"""The experts of a layer with tokens in one step."""

Step = Annotated[tuple[Layer, ...], Field(max_length=MAX_LAYERS, fail_fast=True)]

LayerScores = Annotated[tuple[Count, ...], Field(max_length=MAX_EXPERTS, fail_fast=True)]
"""A number for each expert that a layer has in `Step`."""

StepScores = Annotated[tuple[LayerScores, ...], Field(max_length=MAX_LAYERS, fail_fast=True)]


def check_scores(
    scores: Sequence[StepScores] | None, scale: int | None, steps: Sequence[Step]
) -> None:
    """Refuse scores that are not one for each expert of each step and layer, or without unit."""
    if (scores is None) != (scale is None):
        raise field_error(["score_scale"], "must be given with step_scores, and only then")
    if scores is None:
        return
    if len(scores) != len(steps):
        reason = f"must have one list per step, {len(steps)}, not {len(scores)}"
        raise field_error(["step_scores"], reason)
    for row, (of_step, step) in enumerate(zip(scores, steps, strict=True)):
        wanted, found = list(map(len, step)), list(map(len, of_step))
        if found != wanted:
            reason = f"must have {wanted} numbers in its layers, as in steps, not {found}"
            raise field_error(["step_scores", row], reason)


def check_active(at: list[str | int], active: Layer, experts: int) -> None:
    """Refuse experts that do not exist, stand twice or have no tokens."""
    seen: set[int] = set()
    for place, (expert, tokens) in enumerate(active):
        if expert >= experts:
            reason = f"must be below experts = {experts}, not {expert}"
            raise field_error([*at, place, 0], reason)
        if expert in seen:
            raise field_error([*at, place, 0], f"expert {expert} stands twice")
        if tokens < 1:
            raise field_error([*at, place, 1], "must be at least 1: others are left out")
        seen.add(expert)
