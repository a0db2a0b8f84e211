"""Model shapes from GGUF files: sizes from metadata and the tensors, widths from their types."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pydantic import ValidationError

from moeopt.core.errors import InputError
from moeopt.core.wording import input_error, shown
from moeopt.sim.models.attention import Attention, GroupedQuery, HybridAttention, LatentAttention
from moeopt.sim.models.gguf.file import SHARD, Gguf, Tensor, read_gguf
from moeopt.sim.models.model_shape import KINDS, ModelShape, TensorKind

MOST, MOST_LAYERS = 2**24, 2**12

ARCHITECTURE = re.compile(r"[A-Za-z0-9_.-]{1,64}")

BLOCK = re.compile(r"blk\.([0-9]{1,5})\.(.+?)(\.weight|\.bias)?", re.DOTALL)

PARTS: dict[str, TensorKind] = {
    r"ffn_(gate|up|down|gate_up)_exps|ffn_(gate|up|down)\.[0-9]{1,5}": "experts",
    r"ffn_(gate|up|down)_shexp|ffn_gate_inp_shexp": "shared",
    r"ffn_gate_inp|exp_probs_b": "router",
    r"ffn_(gate|up|down|gate_up)": "dense",
    r"(attn|ssm|indexer)[_.].+": "attention",
}
"""Names within a block (llama.cpp's ``gguf-py/gguf/constants.py``) -> what they are."""

OUTSIDE: dict[str, TensorKind] = {"token_embd.weight": "embedding", "output.weight": "head"}

WINDOW_EVERY = {"gpt-oss": 2}
"""Architecture -> every so-manieth layer sees the whole context: llama.cpp's own constants, as the
files do not say it."""

FULL_EVERY = 4
"""Layers for one with attention in Qwen3-Next, if a file has no `full_attention_interval`."""


def kind_of(tensor: str, layers: int) -> TensorKind | None:
    """Return what a tensor is by its name; None for norms and for blocks after the last layer."""
    block = BLOCK.fullmatch(tensor)
    if block is None:
        return OUTSIDE.get(tensor)
    if int(block[1]) >= layers:  # multi-token prediction
        return None
    return next((kind for part, kind in PARTS.items() if re.fullmatch(part, block[2])), None)


def model_from_gguf(path: str | Path) -> ModelShape:
    """Return the shape of the model in a GGUF file.

    Parameters
    ----------
    path
        The file, any of its shards, or its first megabytes: the header is enough. The model is
        called like it, without the shard's number.

    Raises
    ------
    InputError
        If it cannot be read, holds no model with routed experts, or its metadata contradict its
        tensors.

    Notes
    -----
    Widths are those of the tensors' types with their scales, the mean over all layers, by weights:
    the bytes of a kind of tensor are those of the file. Norms and biases are left out. A layer has
    experts if the file has experts for it. The KV cache has 16 bits, the default of llama.cpp.
    """
    path = Path(path)
    return _Reader(path, read_gguf(path, weights=False)).shape()


@dataclass(frozen=True)
class _Expert:
    """Sizes of a layer's experts, as its tensors have them."""

    experts: int
    hidden: int
    width: int


class _Reader:
    """Metadata by their key within the architecture, and the tensors by what they are."""

    def __init__(self, path: Path, gguf: Gguf) -> None:
        self.path, self.gguf = path, gguf
        kind = gguf.metadata.get("general.type", "model")
        if kind != "model":
            raise InputError(f"{path}: general.type: must be a model, not {shown(kind)}")
        architecture = gguf.metadata.get("general.architecture")
        if not isinstance(architecture, str) or not ARCHITECTURE.fullmatch(architecture):
            reason = f"must be a name, not {shown(architecture)}"
            raise InputError(f"{path}: general.architecture: {reason}")
        self.architecture = architecture
        self.nextn = self.optional("nextn_predict_layers", 0) or 0
        self.layers = self.number("block_count") - self.nextn
        if not 1 <= self.layers <= MOST_LAYERS:
            reason = f"must be from 1 to {MOST_LAYERS} without nextn_predict_layers"
            self.fail("block_count", f"{reason}, not {self.layers}")
        self.kinds: dict[TensorKind, list[Tensor]] = defaultdict(list)
        for tensor in gguf.tensors:
            found = kind_of(tensor.name, self.layers)
            # norms are vectors; the biases of all experts of a layer are together a matrix
            if found is None or tensor.name.endswith(".bias"):
                continue
            if sum(axis > 1 for axis in tensor.shape) > 1:
                self.kinds[found].append(tensor)

    def fail(self, key: str, reason: str) -> NoReturn:
        """Raise InputError for a key of the architecture."""
        raise InputError(f"{self.path}: {self.architecture}.{key}: {reason}")

    def optional(self, key: str, least: int = 1) -> int | None:
        """Return a whole number; a list counts as its only value besides 0."""
        value = self.gguf.metadata.get(f"{self.architecture}.{key}")
        if isinstance(value, tuple):
            several = sorted(set(value) - {0})
            if len(several) > 1:
                return None
            value = several[0] if several else 0
        if value is None:
            return None
        if type(value) is not int or not least <= value <= MOST:
            self.fail(key, f"must be an integer from {least} to {MOST}, not {shown(value)}")
        return value

    def number(self, key: str) -> int:
        """Return a whole number that must be there, above 0."""
        value = self.optional(key)
        if value is None:
            self.fail(key, "is missing, or differs between layers")
        return value

    def shape(self) -> ModelShape:
        """Return the model's shape."""
        layers = self._expert_layers()
        if not layers:
            raise InputError(f"{self.path}: holds no experts; a model without has nothing to place")
        sizes = sorted(set(layers.values()), key=str)
        if len(sizes) > 1:
            raise InputError(f"{self.path}: its layers have experts of several sizes or numbers")
        expert = sizes[0]
        stated = {"expert_count": expert.experts, "embedding_length": expert.hidden}
        for key, found in stated.items():
            if self.number(key) != found:
                self.fail(key, f"is {self.number(key)}, the experts' tensors say {found}")
        dense = tuple(layer for layer in range(self.layers) if layer not in layers)
        leading = dense == tuple(range(len(dense)))
        shared, shared_size = self._shared()
        embedding = self.kinds.get("embedding")
        try:
            return ModelShape(
                name=self._name(),
                layers=self.layers,
                dense_layers=len(dense),
                routed_experts=expert.experts,
                shared_experts=shared,
                top_k=self.number("expert_used_count"),
                hidden_size=expert.hidden,
                expert_intermediate_size=expert.width,
                bytes_per_weight=2,
                source=f"GGUF file {self._name()}, architecture {self.architecture}",
                dense_layer_ids=None if leading else dense,
                shared_intermediate_size=shared_size,
                dense_intermediate_size=self._width("dense", r"ffn_(up|gate)"),
                vocab_size=embedding[0].shape[1] if embedding else None,
                attention=self._attention(),
                expert_bits=self._bits("experts"),
                kv_bits=16.0,
                tied_embedding="head" not in self.kinds,
                nextn=self.nextn or None,
                **self._other_bits(),
            )
        except ValidationError as error:
            raise input_error(error, self.path) from None

    def _name(self) -> str:
        shard = SHARD.fullmatch(self.path.name)
        return shard[1] if shard else self.path.stem

    def _bits(self, kind: TensorKind) -> float | None:
        tensors = self.kinds.get(kind)
        if not tensors:
            return None
        size = sum(tensor.size for tensor in tensors)
        return 8 * size / sum(tensor.weights for tensor in tensors)

    def _other_bits(self) -> dict[str, float]:
        others = [kind for kind in KINDS if kind != "experts"]
        found = {f"{kind}_bits": self._bits(kind) for kind in others}
        if found["head_bits"] is None:  # a tied embedding is read once more, as the head
            found["head_bits"] = found["embedding_bits"]
        return {key: bits for key, bits in found.items() if bits is not None}

    def _parts(self, kind: TensorKind) -> Iterator[tuple[int, str, Tensor]]:
        """Yield layer, name within it and tensor."""
        for tensor in self.kinds.get(kind, []):
            if (block := BLOCK.fullmatch(tensor.name)) is not None:
                yield int(block[1]), block[2], tensor

    def _width(self, kind: TensorKind, part: str) -> int | None:
        """Return the number of rows that all matrices called so have."""
        found = {
            tensor.shape[1]
            for _, name, tensor in self._parts(kind)
            if len(tensor.shape) > 1 and re.fullmatch(part, name)
        }
        if len(found) > 1:
            reason = f"of {', '.join(map(str, sorted(found)[:4]))} rows, must be the same"
            raise InputError(f"{self.path}: {kind}: matrices {reason} in all layers")
        return found.pop() if found else None

    def _shared(self) -> tuple[int, int | None]:
        """Return the number of shared experts, and their size together."""
        size = self._width("shared", "ffn_up_shexp")
        if size is None:
            return 0, None
        return self.optional("expert_shared_count", 0) or 1, size

    def _expert_layers(self) -> dict[int, _Expert]:
        """Return the sizes of the experts of each layer that has some."""
        by_layer: dict[int, dict[str, list[Tensor]]] = defaultdict(lambda: defaultdict(list))
        for layer, name, tensor in self._parts("experts"):
            part = re.sub(r"\.[0-9]+|_exps", "", name).removeprefix("ffn_")
            by_layer[layer][part].append(tensor)
        return {layer: self._expert(layer, parts) for layer, parts in by_layer.items()}

    def _expert(self, layer: int, parts: Mapping[str, list[Tensor]]) -> _Expert:
        found = set()
        for part, tensors in parts.items():
            count = sum(tensor.shape[2] if len(tensor.shape) > 2 else 1 for tensor in tensors)
            inner, outer = tensors[0].shape[:2]
            if any(tensor.shape[:2] != (inner, outer) for tensor in tensors):
                raise InputError(f"{self.path}: layer {layer}: experts of several sizes")
            if part == "down":
                inner, outer = outer, inner
            found.add(_Expert(count, inner, outer // 2 if part == "gate_up" else outer))
        if set(parts) not in ({"gate", "up", "down"}, {"gate_up", "down"}) or len(found) > 1:
            reason = "experts must have a gate, an up and a down matrix of the same sizes"
            raise InputError(f"{self.path}: layer {layer}: {reason}")
        return found.pop()

    def _attention(self) -> Attention | None:
        """Return the attention's shape, or None if it is of a kind that is not known."""
        heads = self.optional("attention.head_count")
        if heads is None:
            return None
        rank = self.optional("attention.kv_lora_rank", 0)
        if rank:
            return self._latent(heads, rank)
        head_dim = self.optional("attention.key_length")
        hidden = self.number("embedding_length")
        if head_dim is None and hidden % heads:
            self.fail("attention.head_count", f"must divide embedding_length, not {heads}")
        width = head_dim or hidden // heads
        kv_heads = self.optional("attention.head_count_kv", 0) or heads
        if any(name.startswith("ssm_") for _, name, _ in self._parts("attention")):
            return self._hybrid(heads, kv_heads, width)
        every = WINDOW_EVERY.get(self.architecture, 1)
        window = self.optional("attention.sliding_window", 0) if every > 1 else None
        return GroupedQuery(
            heads=heads,
            kv_heads=kv_heads,
            head_dim=width,
            window=window or None,
            full_every=every if window else 1,
        )

    def _latent(self, heads: int, rank: int) -> LatentAttention:
        key = "attention.key_length"
        # newer files give the compressed widths there and those of the heads under _mla
        width = self.optional(f"{key}_mla") or self.number(key)
        value = self.optional("attention.value_length_mla") or self.number("attention.value_length")
        rope = self.number("rope.dimension_count")
        if rope >= width:
            self.fail("rope.dimension_count", f"must be below the key's {width}, not {rope}")
        return LatentAttention(
            heads=heads,
            query_rank=self.optional("attention.q_lora_rank", 0) or 0,
            kv_rank=rank,
            nope_dim=width - rope,
            rope_dim=rope,
            value_dim=value,
        )

    def _hybrid(self, heads: int, kv_heads: int, head_dim: int) -> HybridAttention | None:
        """Return attention beside Gated DeltaNet; None for other state-space models."""
        value_heads = self.optional("ssm.time_step_rank")
        key_heads, key_dim = self.optional("ssm.group_count"), self.optional("ssm.state_size")
        inner, conv = self.optional("ssm.inner_size"), self.optional("ssm.conv_kernel")
        known = self.architecture.startswith(("qwen3next", "qwen35"))
        if not (known and value_heads and key_heads and key_dim and inner and conv):
            return None
        if inner % value_heads:
            self.fail("ssm.inner_size", f"must be a multiple of {value_heads} heads, not {inner}")
        return HybridAttention(
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            full_every=self.optional("full_attention_interval") or FULL_EVERY,
            key_heads=key_heads,
            key_dim=key_dim,
            value_heads=value_heads,
            value_dim=inner // value_heads,
            conv_width=conv,
        )
