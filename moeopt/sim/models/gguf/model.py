"""Model shapes from GGUF files: sizes from metadata and the tensors, widths from their types."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from moeopt.core.errors import InputError
from moeopt.core.wording import input_error
from moeopt.sim.models.gguf.attention import attention
from moeopt.sim.models.gguf.file import SHARD, Tensor, read_gguf
from moeopt.sim.models.gguf.reader import Reader
from moeopt.sim.models.model_shape import KINDS, ModelShape, TensorKind


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
    return _GgufModel(path, read_gguf(path, weights=False)).shape()


MATRICES = {
    frozenset({"gate", "up", "down"}): 3,
    frozenset({"gate_up", "down"}): 3,
    frozenset({"up", "down"}): 2,
}
"""Parts of an expert -> how many matrices those are; some have no gate (Nemotron-H)."""


@dataclass(frozen=True)
class _Expert:
    """Sizes of a layer's experts, as its tensors have them."""

    experts: int
    hidden: int
    width: int
    matrices: int


class _GgufModel(Reader):
    """The model's shape from metadata and tensors."""

    def shape(self) -> ModelShape:
        """Return the model's shape."""
        layers = self._expert_layers()
        if not layers:
            raise InputError(f"{self.path}: holds no experts; a model without has nothing to place")
        sizes = sorted(set(layers.values()), key=str)
        if len(sizes) > 1:
            raise InputError(f"{self.path}: its layers have experts of several sizes or numbers")
        expert = sizes[0]
        hidden = self.number("embedding_length")
        latent = any(name.startswith("ffn_latent") for _, name, _ in self.parts("shared"))
        stated = {"expert_count": expert.experts}
        if not latent:
            stated["embedding_length"] = expert.hidden
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
                hidden_size=hidden,
                expert_intermediate_size=expert.width,
                bytes_per_weight=2,
                source=f"GGUF file {self._name()}, architecture {self.architecture}",
                dense_layer_ids=None if leading else dense,
                shared_intermediate_size=shared_size,
                dense_intermediate_size=self._dense_width(dense),
                vocab_size=embedding[0].shape[1] if embedding else None,
                attention=attention(self),
                expert_bits=self._bits("experts"),
                kv_bits=16.0,
                tied_embedding="head" not in self.kinds,
                nextn=self.nextn,
                context_length=self.optional("context_length"),
                expert_matrices=2 if expert.matrices == 2 else None,
                expert_hidden_size=expert.hidden if latent else None,
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

    def _dense_width(self, dense: tuple[int, ...]) -> int | None:
        """Return the width of layers without experts, 0 if they have no feed-forward part."""
        having = {layer for layer, _, _ in self.parts("dense")}
        if dense and not having:
            return 0
        if having and having != set(dense):
            reason = "feed-forward parts must be in all layers without experts, or in none"
            raise InputError(f"{self.path}: {reason}")
        return self.width("dense", r"ffn_(up|gate)")

    def _shared(self) -> tuple[int, int | None]:
        """Return the number of shared experts, and their size together."""
        size = self.width("shared", r"ffn_up(_shexp)?|ffn_gate")
        if size is None:
            return 0, None
        return self.optional("expert_shared_count", 0) or 1, size

    def _expert_layers(self) -> dict[int, _Expert]:
        """Return the sizes of the experts of each layer that has some."""
        by_layer: dict[int, dict[str, list[Tensor]]] = defaultdict(lambda: defaultdict(list))
        for layer, name, tensor in self.parts("experts"):
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
            width = outer // 2 if part == "gate_up" else outer
            found.add(_Expert(count, inner, width, MATRICES.get(frozenset(parts), 0)))
        if frozenset(parts) not in MATRICES or len(found) > 1:
            reason = "experts must have a gate, an up and a down matrix of the same sizes"
            raise InputError(f"{self.path}: layer {layer}: {reason}")
        return found.pop()
