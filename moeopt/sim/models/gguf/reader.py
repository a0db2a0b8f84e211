"""Metadata of a GGUF file by their key within the architecture, its tensors by what they are."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from moeopt.core.errors import InputError
from moeopt.core.wording import shown
from moeopt.sim.models.gguf.file import Gguf, Tensor
from moeopt.sim.models.model_shape import TensorKind

MOST, MOST_LAYERS = 2**24, 2**12

ARCHITECTURE = re.compile(r"[A-Za-z0-9_.-]{1,64}")

BLOCK = re.compile(r"blk\.([0-9]{1,5})\.(.+?)(\.weight|\.bias)?", re.DOTALL)

PARTS: dict[str, TensorKind] = {
    r"ffn_(gate|up|down|gate_up)_exps|ffn_(gate|up|down)\.[0-9]{1,5}": "experts",
    r"ffn_(gate|up|down)_shexp|ffn_gate_inp_shexp|ffn_latent_(up|down)": "shared",
    r"ffn_gate_inp|exp_probs_b": "router",
    r"ffn_(gate|up|down|gate_up)": "dense",
    r"(attn|ssm|shortconv|indexer)[_.].+": "attention",
}
"""Names within a block (llama.cpp's ``gguf-py/gguf/constants.py``) -> what they are."""

OUTSIDE: dict[str, TensorKind] = {"token_embd.weight": "embedding", "output.weight": "head"}


def kind_of(tensor: str, layers: int) -> TensorKind | None:
    """Return what a tensor is by its name; None for norms and for blocks after the last layer."""
    block = BLOCK.fullmatch(tensor)
    if block is None:
        return OUTSIDE.get(tensor)
    if int(block[1]) >= layers:  # multi-token prediction
        return None
    return next((kind for part, kind in PARTS.items() if re.fullmatch(part, block[2])), None)


class Reader:
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
        with_experts = {layer for layer, _, _ in self.parts("experts")}
        beside = [t for layer, _, t in self.parts("dense") if layer in with_experts]
        if beside:  # a feed-forward part that runs beside the experts is one for every token
            self.kinds["shared"] += beside
            self.kinds["dense"] = [t for t in self.kinds["dense"] if t not in beside]

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

    def by_layer(self, key: str) -> tuple[int, ...] | None:
        """Return whole numbers, one for each layer; None without the key."""
        value = self.gguf.metadata.get(f"{self.architecture}.{key}")
        if value is None:
            return None
        given = value if isinstance(value, tuple) else (value,) * self.layers
        if len(given) < self.layers:
            self.fail(key, f"must have a number for each of {self.layers} layers")
        found = []
        for number in given[: self.layers]:
            if isinstance(number, float | str) or not 0 <= number <= MOST:
                self.fail(key, f"must be integers from 0 to {MOST}, not {shown(number)}")
            found.append(int(number))
        return tuple(found)

    def parts(self, kind: TensorKind) -> Iterator[tuple[int, str, Tensor]]:
        """Yield layer, name within it and tensor."""
        for tensor in self.kinds.get(kind, []):
            if (block := BLOCK.fullmatch(tensor.name)) is not None:
                yield int(block[1]), block[2], tensor

    def width(self, kind: TensorKind, part: str) -> int | None:
        """Return the number of rows that all matrices called so have."""
        found = {
            tensor.shape[1]
            for _, name, tensor in self.parts(kind)
            if len(tensor.shape) > 1 and re.fullmatch(part, name)
        }
        if len(found) > 1:
            reason = f"of {', '.join(map(str, sorted(found)[:4]))} rows, must be the same"
            raise InputError(f"{self.path}: {kind}: matrices {reason} in all layers")
        return found.pop() if found else None
