"""Counts of llama.cpp's ``llama-imatrix``: a GGUF file with how often each expert was used.

The file has two tensors for each matrix of the model: sums of squared activations, which are not
read, and ``<matrix>.counts``, one number per expert: the tokens that it got.
"""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.untrusted import reading
from moeopt.core.wording import shown
from moeopt.sim.models.gguf.file import Tensor, read_gguf
from moeopt.sim.traces.readers.checked import (
    MAX_COUNT,
    MAX_ENTRIES,
    MAX_EXPERT,
    MAX_LAYER,
    checked_counts,
    layer_facts,
)
from moeopt.sim.traces.trace import Counts

COUNTS = re.compile(r"blk\.([0-9]{1,5})\.ffn_(gate|up|down|gate_up)_exps\.weight\.counts")


def read_imatrix(path: Path) -> Counts:
    """Read an importance matrix as counts of one step.

    All matrices of an expert get the same tokens, so the first one of a layer is read, and the
    others must agree with it in the number of experts.

    Raises
    ------
    InputError
        If the file is no importance matrix, has no counts of experts, or they are no numbers of
        tokens.
    """
    gguf = read_gguf(path)
    kind = gguf.metadata.get("general.type")
    if kind != "imatrix":
        hint = "; a model is read with --model" if kind in (None, "model") else ""
        raise InputError(f'{path}: general.type: must be "imatrix", not {shown(kind)}{hint}')
    by_layer: dict[int, Tensor] = {}
    for tensor in gguf.tensors:
        if (match := COUNTS.fullmatch(tensor.name)) is None:
            continue
        layer = int(match[1])
        if layer > MAX_LAYER or tensor.weights > MAX_EXPERT + 1 or tensor.type.name != "F32":
            reason = f"{tensor.type.name} of {tensor.weights} experts in layer {layer}"
            raise InputError(f"{path}: {shown(tensor.name)}: cannot be read: {reason}")
        first = by_layer.setdefault(layer, tensor)
        if tensor.weights != first.weights:
            reason = f"{tensor.weights} experts, and {first.weights} in {shown(first.name)}"
            raise InputError(f"{path}: {shown(tensor.name)}: {reason}")
    if not by_layer:
        raise InputError(f"{path}: has no counts of experts; was the model one with experts?")
    sizes = {tensor.weights for tensor in by_layer.values()}
    experts = max(sizes)
    if len(sizes) > 1 or experts * len(by_layer) > MAX_ENTRIES:
        reason = f"{len(by_layer)} layers of {min(sizes)} to {experts} experts"
        raise InputError(f"{path}: {reason}: must be as many in all, {MAX_ENTRIES} in sum at most")
    layers = sorted(by_layer)
    counts = np.zeros((1, len(layers), experts), dtype=np.int64)
    for row, layer in enumerate(layers):
        counts[0, row] = _numbers(by_layer[layer])
    facts: dict[str, object] = {"format": "imatrix-gguf"} | layer_facts(layers)
    return checked_counts(path, counts, facts)


def _numbers(tensor: Tensor) -> NDArray[np.int64]:
    """Return a tensor of counts, which are whole numbers although stored as floats."""
    with reading(tensor.path), tensor.path.open("rb") as stream, np.errstate(invalid="ignore"):
        stream.seek(tensor.begin)
        found = np.frombuffer(stream.read(tensor.size), dtype="<f4").astype(np.float64)
    whole = np.isfinite(found) & (found >= 0) & (found <= MAX_COUNT) & (found == np.floor(found))
    if not whole.all():
        wrong = float(found[~whole][0])
        where = f"{tensor.path}: {shown(tensor.name)}"
        raise InputError(f"{where}: must be whole numbers of tokens, not {wrong:g}")
    return found.astype(np.int64)
