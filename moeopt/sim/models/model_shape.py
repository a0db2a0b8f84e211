"""Model shapes: how many layers and experts, and how many bytes each kind of tensor has."""

import math
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, ValidationInfo, field_validator

from moeopt.core.envelope import Frozen, absent, field_error
from moeopt.core.errors import InputError
from moeopt.sim.models.attention import Attention, AttentionByLayer, Rank, Size

Number = Annotated[int, Field(strict=True, ge=0, le=2**16)]
Bits = Annotated[float, Field(strict=True, ge=0.5, le=64, allow_inf_nan=False)]

ClassName = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=200)]

TensorKind = Literal["experts", "shared", "attention", "dense", "router", "embedding", "head"]
"""Routed experts, shared experts, attention, feed-forward parts of layers without experts, routers,
the embedding and the matrix to the vocabulary; norms and biases are left out."""

KINDS: tuple[TensorKind, ...] = get_args(TensorKind)

DEFAULT_KV_BITS = 16.0
"""Bits of a number in the KV cache of a model whose weights are of no whole number of bytes: the
default of llama.cpp (``--cache-type-k f16``), vLLM and SGLang (the model's 16-bit type)."""


class ModelShape(Frozen):
    """The shape of a Mixture-of-Experts model.

    Parameters
    ----------
    layers, dense_layers
        Transformer layers in all, and how many of them have no experts: the first ones, if
        `dense_layer_ids` does not say otherwise.
    routed_experts, shared_experts, top_k
        Experts of a layer that the router chooses from, that every token uses, and that a token
        gets.
    hidden_size, expert_intermediate_size
        An expert is three matrices of these two sizes (gate, up and down).
    expert_matrices
        2 if experts and other feed-forward parts have no gate (Nemotron-H); otherwise absent.
    expert_hidden_size
        Width that routed experts work on, where it is not the hidden size (Kimi-K3, Nemotron-3
        Super): two matrices of each layer, which count as shared, lead to it and back.
    bytes_per_weight
        Of the weights that no width below names: 2 for BF16, 0.5625 for 4.5 bits.
    source
        Where the numbers stand.
    dense_layer_ids
        The layers without experts, rising, counted from 0.
    shared_intermediate_size
        Intermediate size of the shared experts of a layer together; by default
        `shared_experts` times that of a routed one.
    dense_intermediate_size, vocab_size, attention
        Of the layers without experts (0 if they have no feed-forward part), the vocabulary and the
        attention; costs beyond the experts need them.
    expert_bits, other_bits
        Bits per weight of the routed experts, and of everything else, where they are quantized;
        by default 8 x `bytes_per_weight`. Scales and zero points count in, if they are to count:
        3-bit weights with a 16-bit scale per 64 are 3.25.
    shared_bits, attention_bits, dense_bits, router_bits, embedding_bits, head_bits
        Bits per weight of these tensors; by default `other_bits`.
    kv_bits
        Bits of a number in the KV cache; by default 8 x `bytes_per_weight` if that is a whole
        number of bytes, else 16.
    kv_value_bits
        Bits of the values in the KV cache, where they differ from those of the keys.
    tied_embedding
        Whether the embedding is the matrix to the vocabulary, so that it is there once.
    model_class
        The model's class, as the first of ``architectures`` in its ``config.json`` names it.
    quantisation
        Name of the format of its experts (Q4_K_M, IQ3_XXS), which says what unpacking them costs.
    nextn
        Blocks of its file that predict further tokens: not among `layers`, nor loaded. None: no
        file was read, and converters differ.
    context_length
        Tokens that it was made for at most: what ``-c 0`` means.
    """

    name: str
    layers: Size
    dense_layers: Number
    routed_experts: Annotated[int, Field(strict=True, ge=1, le=4096)]
    shared_experts: Number
    top_k: Annotated[int, Field(strict=True, ge=1, le=4096)]
    hidden_size: Size
    expert_intermediate_size: Size
    bytes_per_weight: Annotated[float, Field(strict=True, ge=1 / 16, le=8, allow_inf_nan=False)]
    source: str
    dense_layer_ids: Annotated[tuple[Number, ...], Field(max_length=2**16)] | None = None
    shared_intermediate_size: Size | None = None
    dense_intermediate_size: Rank | None = None
    vocab_size: Size | None = None
    attention: Attention | None = None
    expert_bits: Bits | None = None
    other_bits: Bits | None = None
    shared_bits: Bits | None = None
    attention_bits: Bits | None = None
    dense_bits: Bits | None = None
    router_bits: Bits | None = None
    embedding_bits: Bits | None = None
    head_bits: Bits | None = None
    kv_bits: Bits | None = None
    tied_embedding: bool = False
    model_class: Annotated[ClassName | None, Field(exclude_if=absent)] = None
    quantisation: Annotated[ClassName | None, Field(exclude_if=absent)] = None
    nextn: Annotated[Number | None, Field(exclude_if=absent)] = None
    expert_matrices: Annotated[Literal[2] | None, Field(exclude_if=absent)] = None
    expert_hidden_size: Annotated[Size | None, Field(exclude_if=absent)] = None
    kv_value_bits: Annotated[Bits | None, Field(exclude_if=absent)] = None
    context_length: Annotated[Size | None, Field(exclude_if=absent)] = None

    @field_validator("top_k")
    @classmethod
    def _experts_suffice(cls, top_k: int, info: ValidationInfo) -> int:
        experts = info.data.get("routed_experts")
        if experts is not None and top_k > experts:
            raise field_error([], f"must be at most routed_experts = {experts}, not {top_k}")
        return top_k

    @field_validator("dense_layers")
    @classmethod
    def _some_layer_has_experts(cls, dense: int, info: ValidationInfo) -> int:
        layers = info.data.get("layers")
        if layers is not None and dense >= layers:
            raise field_error([], f"must be below layers = {layers}, not {dense}")
        return dense

    @field_validator("dense_layer_ids")
    @classmethod
    def _ids_are_the_dense_layers(
        cls, ids: tuple[int, ...] | None, info: ValidationInfo
    ) -> tuple[int, ...] | None:
        layers, dense = info.data.get("layers"), info.data.get("dense_layers")
        if ids is None or layers is None or dense is None:
            return ids
        if list(ids) != sorted(set(ids)) or (ids and ids[-1] >= layers):
            raise field_error([], f"must rise and be below layers = {layers}")
        if len(ids) != dense:
            raise field_error([], f"must be as many as dense_layers = {dense}, not {len(ids)}")
        return ids

    @field_validator("attention")
    @classmethod
    def _attention_is_of_all_layers(
        cls, attention: Attention | None, info: ValidationInfo
    ) -> Attention | None:
        layers = info.data.get("layers")
        if isinstance(attention, AttentionByLayer) and layers not in (None, attention.layers):
            raise field_error([], f"must have layers = {layers} layers, not {attention.layers}")
        return attention

    @property
    def matrices(self) -> int:
        """Matrices of an expert, or of another feed-forward part."""
        return self.expert_matrices or 3

    @property
    def moe_layers(self) -> tuple[int, ...]:
        """The layers that have experts, rising, counted from 0."""
        dense = range(self.dense_layers) if self.dense_layer_ids is None else self.dense_layer_ids
        without = set(dense)
        return tuple(layer for layer in range(self.layers) if layer not in without)

    @property
    def expert_weights(self) -> int:
        """Weights of one expert."""
        width = self.expert_hidden_size or self.hidden_size
        return self.matrices * width * self.expert_intermediate_size

    @property
    def expert_bytes(self) -> int:
        """Bytes of one expert, rounded up to whole ones."""
        return math.ceil(self.expert_weights * self.bits / 8)

    @property
    def bits(self) -> float:
        """Bits per weight of a routed expert."""
        return self._native_bits if self.expert_bits is None else self.expert_bits

    @property
    def flops_per_token(self) -> int:
        """Operations of one expert for one token: a multiplication and an addition per weight."""
        return 2 * self.expert_weights

    @property
    def with_shared_width(self) -> Self:
        """The model with the width of its shared experts stated, if it has any.

        Where it is not, a model with narrower routed experts has narrower shared ones.
        """
        if self.shared_intermediate_size is not None or not self.shared_experts:
            return self
        width = self.shared_experts * self.expert_intermediate_size
        return self.model_copy(update={"shared_intermediate_size": width})

    @property
    def shared_weights(self) -> int:
        """Weights of a layer's shared experts together, and of the way to a narrower width."""
        width = self.with_shared_width.shared_intermediate_size or 0
        there_and_back = 2 * self.hidden_size * (self.expert_hidden_size or 0)
        return self.matrices * self.hidden_size * width + there_and_back

    @property
    def dense_weights(self) -> int:
        """Weights of the feed-forward part of one layer without experts.

        Raises
        ------
        InputError
            If there are such layers and their size is not known.
        """
        if self.dense_layers and self.dense_intermediate_size is None:
            raise InputError(f"model {self.name}: dense_intermediate_size: is missing")
        return self.matrices * self.hidden_size * (self.dense_intermediate_size or 0)

    @property
    def attention_weights(self) -> int:
        """Weights of one layer's attention; norms and biases are left out.

        Raises
        ------
        InputError
            If the shape has no `attention`.
        """
        return self._known_attention().weights(self.hidden_size)

    def kv_bytes(self, context: int) -> int:
        """Bytes of one layer's KV cache after `context` tokens, the mean over the layers.

        Raises
        ------
        InputError
            If the shape has no `attention`.
        """
        return math.ceil(self._known_attention().kv_values(context) * self._kv_mean(context) / 8)

    def cache_bytes(self, context: int) -> int:
        """Bytes of the KV cache of all layers after `context` tokens.

        Raises
        ------
        InputError
            If the shape has no `attention`.
        """
        if isinstance(self.attention, AttentionByLayer):
            return math.ceil(self.attention.all_kv_values(context) * self._kv_mean(context) / 8)
        return self.layers * self.kv_bytes(context)

    @property
    def kv_widths(self) -> tuple[float, float]:
        """Bits of a number in the KV cache: of keys, of values."""
        keys = self.kv_bits
        if keys is None:
            keys = self._native_bits if self._native_bits % 8 == 0 else DEFAULT_KV_BITS
        return keys, keys if self.kv_value_bits is None else self.kv_value_bits

    def _kv_mean(self, context: int) -> float:
        """Return the bits of a number in the KV cache, the mean over keys and values."""
        keys, values = self.kv_widths
        if keys == values:
            return keys
        return self.kv_mean(self._known_attention().value_share(context))

    def kv_mean(self, share: float) -> float:
        """Return the bits of a number in the KV cache, of which a share are values."""
        keys, values = self.kv_widths
        return keys if keys == values else (1 - share) * keys + share * values

    def with_kv_bits(self, keys: float, values: float | None = None) -> Self:
        """Return this shape with another width of the KV cache, maybe one of its own for values."""
        apart = None if values == keys else values
        return self.model_copy(update={"kv_bits": float(keys), "kv_value_bits": apart})

    def bits_of(self, kind: TensorKind | Literal["kv"]) -> float:
        """Return the bits per weight of a kind of tensor, or of a number in the KV cache.

        Of a cache whose keys and values differ it is the mean, as with a token in it.
        """
        if kind == "experts":
            return self.bits
        if kind == "kv":
            return self.kv_widths[0] if self.attention is None else self._kv_mean(1)
        own: float | None = getattr(self, f"{kind}_bits")
        if own is not None:
            return own
        return self._native_bits if self.other_bits is None else self.other_bits

    def weights_of(self, kind: TensorKind) -> int:
        """Return the weights of a kind of tensor in all layers together.

        Raises
        ------
        InputError
            If the shape lacks one of the sizes.
        """
        with_experts = self.layers - self.dense_layers
        if kind == "experts":
            return with_experts * self.routed_experts * self.expert_weights
        if kind == "shared":
            return with_experts * self.shared_weights
        if kind == "attention":
            return self.layers * self.attention_weights
        if kind == "router":
            return with_experts * self.hidden_size * self.routed_experts
        if kind == "dense":
            return self.dense_layers * self.dense_weights
        if self.vocab_size is None:
            raise InputError(f"model {self.name}: vocab_size: is missing")
        once = kind == "embedding" and self.tied_embedding
        return 0 if once else self.vocab_size * self.hidden_size

    def bytes_of(self, kind: TensorKind, weights: int | None = None) -> int:
        """Return the bytes of a kind of tensor, rounded up to whole ones.

        Parameters
        ----------
        weights
            How many weights of that kind; by default all of the model.
        """
        count = self.weights_of(kind) if weights is None else weights
        return math.ceil(count * self.bits_of(kind) / 8)

    @property
    def parameters(self) -> int:
        """Weights of the model; norms and biases are left out.

        Raises
        ------
        InputError
            If the shape lacks one of the sizes.
        """
        return sum(self.weights_of(kind) for kind in KINDS)

    @property
    def active_parameters(self) -> int:
        """Weights that one token uses: all but the experts that are not chosen for it."""
        idle = self.routed_experts - self.top_k
        return self.parameters - (self.layers - self.dense_layers) * idle * self.expert_weights

    @property
    def resident_weights(self) -> int:
        """Weights of all but the routed experts: what KTransformers keeps on the GPU (Table 1).

        Attention, shared experts, router, layers without experts, embedding and head (two
        matrices, as in all presets). Norms and biases are left out.

        Raises
        ------
        InputError
            If the shape lacks one of the sizes.
        """
        return sum(self.weights_of(kind) for kind in KINDS if kind != "experts")

    @property
    def resident_bytes(self) -> int:
        """Bytes of `resident_weights`, each kind at its own width; rounded up once."""
        others = (kind for kind in KINDS if kind != "experts")
        return math.ceil(sum(self.weights_of(kind) * self.bits_of(kind) for kind in others) / 8)

    def quantized(self, expert_bits: float, other_bits: float | None = None) -> Self:
        """Return this shape with its routed experts, and maybe the rest, at other widths.

        Parameters
        ----------
        expert_bits
            Bits per weight of the routed experts, e.g. 3 for the average of context-aware
            CXL-NDP 5.2.
        other_bits
            Bits per weight of every other kind of tensor; unchanged if absent. The KV cache keeps
            its width.

        Raises
        ------
        InputError
            If a width is below 0.5 or above 64 bits.
        """
        changes: dict[str, float | None] = {"expert_bits": expert_bits, "other_bits": other_bits}
        for name, bits in changes.items():
            if bits is not None and not 0.5 <= bits <= 64:
                raise InputError(f"{name}: must be from 0.5 to 64, not {bits:g}")
        update = {name: float(bits) for name, bits in changes.items() if bits is not None}
        own = [f"{kind}_bits" for kind in KINDS if kind != "experts" and other_bits is not None]
        return self.model_copy(update=dict.fromkeys([*own, "quantisation"]) | update)

    def bits_in_words(self, experts: float | None = None) -> str:
        """Return the width of every kind of tensor that the model has, on one line.

        Parameters
        ----------
        experts
            Width of the routed experts on average, if each has one of its own.
        """
        groups: dict[str, list[str]] = {}
        for kind in KINDS:
            if self.weights_of(kind):
                bits = experts if kind == "experts" and experts is not None else self.bits_of(kind)
                groups.setdefault(f"{bits:.4g}", []).append(kind)
        parts = [f"{bits} per weight of {', '.join(kinds)}" for bits, kinds in groups.items()]
        if len(groups) == 1:
            parts = [f"{next(iter(groups))} per weight"]
        return f"{'; '.join(parts)}; {self.bits_of('kv'):.4g} in the KV cache"

    @property
    def _native_bits(self) -> float:
        return 8.0 * self.bytes_per_weight

    def _known_attention(self) -> Attention:
        if self.attention is None:
            raise InputError(f"model {self.name}: attention: is missing; its cost is asked for")
        return self.attention
