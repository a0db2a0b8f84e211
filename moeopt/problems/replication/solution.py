"""The decision: on which devices each expert has a copy, and which tokens each copy gets."""

from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from moeopt.core.envelope import Count, SolutionEnvelope

from .instance import Copies

Shares = tuple[tuple[tuple[Count, ...], ...], ...]
"""Tokens by window, expert and copy."""


class Solution(SolutionEnvelope):
    """The devices of each expert's copies, in the order of the instance's experts.

    With kernel times and a free split `shares` has the tokens of each copy by window and expert, in
    the order of `copies`; else it is None.
    """

    problem: Literal["replication"] = "replication"
    copies: Copies
    shares: Shares | None = None

    @model_serializer(mode="wrap")
    def _without_absent_shares(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = handler(self)
        if self.shares is None:
            del fields["shares"]
        return fields
