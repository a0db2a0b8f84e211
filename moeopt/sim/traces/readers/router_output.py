"""The routers of Hugging Face models: where they are, and which experts their output says."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError

NAMES = ("gate", "router")
"""What a router is called in the block that it shares with the experts."""

_LAYER = re.compile(r"\.?layers\.([0-9]+)\.")


def routers_of(model: Any) -> dict[int, tuple[Any, Any]]:
    """Return, for each layer with experts, its router and the block that owns it."""
    found: dict[int, tuple[Any, Any]] = {}
    for path, block in model.named_modules():
        number = _LAYER.search(f"{path}.")
        if number is None or not hasattr(block, "experts"):
            continue
        for name in NAMES:
            router = getattr(block, name, None)
            if hasattr(router, "register_forward_hook"):
                found[int(number.group(1))] = (router, block)
                break
    return dict(sorted(found.items()))


def chosen(output: Any, router: Any, owner: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return experts and gate weights, both of shape (tokens, k), from what a router returned.

    Routers return a tuple that has the experts as its only integers, and weights of the same shape;
    those of older releases return the logits, from which the block takes the top-k of the softmax.

    Raises
    ------
    InputError
        If the output is neither.
    """
    import torch  # type: ignore[import-not-found, unused-ignore]  # extra "hf"

    parts = output if isinstance(output, tuple | list) else (output,)
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    whole = [tensor for tensor in tensors if tensor.dtype in (torch.int32, torch.int64)]
    if len(whole) == 1:
        ids = whole[0]
        same = [t for t in tensors if t.is_floating_point() and t.shape == ids.shape]
        weights = same[-1] if same else None
    elif len(tensors) == 1 and tensors[0].is_floating_point():
        ids, weights = _top_k(tensors[0], router, owner)
    else:
        raise InputError(f"{type(router).__name__}: a router of a style that is not known")
    width = ids.shape[-1]
    if weights is None:
        raise InputError(f"{type(router).__name__}: returns no weights of the experts' shape")
    return (
        ids.reshape(-1, width).detach().cpu().numpy().astype(np.int64),
        weights.reshape(-1, width).detach().float().cpu().numpy(),
    )


def _top_k(logits: Any, router: Any, owner: Any) -> tuple[Any, Any]:
    width = getattr(router, "top_k", None) or getattr(owner, "top_k", None)
    if not isinstance(width, int) or not 1 <= width <= logits.shape[-1]:
        raise InputError(f"{type(owner).__name__}: does not say how many experts a token gets")
    scores = logits.float().softmax(dim=-1)
    weights, ids = scores.topk(width, dim=-1)
    if getattr(owner, "norm_topk_prob", True):
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return ids, weights
