"""Model shapes: how many layers and experts, and how large an expert is."""

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from moeopt.problems.envelope import Frozen, field_error

Size = Annotated[int, Field(strict=True, ge=1, le=2**24)]
Number = Annotated[int, Field(strict=True, ge=0, le=2**16)]


class ModelShape(Frozen):
    """The shape of a Mixture-of-Experts model.

    Parameters
    ----------
    layers, dense_layers
        Transformer layers in all, and how many of the first have no experts.
    routed_experts, shared_experts, top_k
        Experts of a layer that the router chooses from, that every token uses, and that a token
        gets.
    hidden_size, expert_intermediate_size
        An expert is three matrices of these two sizes (gate, up and down).
    bytes_per_weight
        2 for BF16.
    source
        Where the numbers stand.
    """

    name: str
    layers: Size
    dense_layers: Number
    routed_experts: Annotated[int, Field(strict=True, ge=1, le=4096)]
    shared_experts: Number
    top_k: Annotated[int, Field(strict=True, ge=1, le=4096)]
    hidden_size: Size
    expert_intermediate_size: Size
    bytes_per_weight: Annotated[int, Field(strict=True, ge=1, le=8)]
    source: str

    @field_validator("top_k")
    @classmethod
    def _experts_suffice(cls, top_k: int, info: ValidationInfo) -> int:
        experts = info.data.get("routed_experts")
        if experts is not None and top_k > experts:
            raise field_error([], f"must be at most routed_experts = {experts}, not {top_k}")
        return top_k

    @property
    def expert_weights(self) -> int:
        """Weights of one expert."""
        return 3 * self.hidden_size * self.expert_intermediate_size

    @property
    def expert_bytes(self) -> int:
        """Bytes of one expert."""
        return self.expert_weights * self.bytes_per_weight

    @property
    def flops_per_token(self) -> int:
        """Operations of one expert for one token: a multiplication and an addition per weight."""
        return 2 * self.expert_weights
