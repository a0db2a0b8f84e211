"""Steps drawn from counts, where it is known how often each expert was used and nothing else.

The expected time of a layer at one token per step depends, but for what its tokens use together,
on how often each expert is asked for; so counts are enough to decide what stays on the GPU. What
they cannot say is in `UNKNOWN`, and nothing that needs it is decided on such steps.

Each layer is a 0/1 matrix of tokens and experts: every row has `top_k` ones, and expert e has as
many as its share of the counts says, rounded to a whole number by largest remainders. So in the
drawn steps an expert is used as often as in the counts, to within one token, not merely in
expectation. A first such matrix is laid out by systematic sampling (Madow, Annals of Mathematical
Statistics 20, 1949): each expert's tokens stand side by side and are dealt to the rows in turn.
It is then mixed by trades between pairs of rows, which keep all sums and lead to the uniform
distribution over the matrices that have them: the Curveball algorithm (Strona et al., Nature
Communications 5:4114, 2014; uniformity: Carstens, Physical Review E 91:042812, 2015).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.trace import Counts, Trace

Ints = NDArray[np.int64]

UNKNOWN = "counts only: order, prompts, scores and what is used together are not known"
"""What counts do not tell, in one line."""

SAMPLED = "sampled from counts"
"""Mark of drawn steps in a trace's facts, and so in an instance's provenance."""

MAX_TOTAL = 2**48
"""Most uses of all experts of a layer; products with tokens and top-k then fit into 64 bits."""

MAX_IDS = 2**25
"""Most entries of a sample: a quarter of a GiB, drawn in a few seconds."""

ROUNDS = 16
"""Times that every row trades; five trades per row are what Strona et al. found to be enough."""

ALL_EXPERTS = ("imatrix-gguf", "sglang-pt", "count-array", "count-json", "count-jsonl")
"""Formats that have a number for every expert of the model; others may leave out those never used.
"""


def counts_of_model(counts: Counts, model: ModelShape) -> Counts:
    """Return counts in one step with a column for every expert of a model, if they can be its.

    Parameters
    ----------
    counts
        Their facts may have the model's numbers of the layers, "layers".
    model
        Gives layers with experts, experts per layer and experts per token.

    Returns
    -------
    Counts
        Shape (1, layers with experts, experts), in tokens.

    Raises
    ------
    InputError
        If layers or experts are not those of the model, a layer has no counts, or an expert has
        more tokens than there were: a token uses an expert once.
    """
    facts = counts.facts or {}
    there = list(model.moe_layers)
    numbers = facts.get("layers", list(range(counts.layers)))
    if numbers != there and numbers != list(range(len(there))):
        found = f"{len(numbers)} layers, {numbers[0]} to {numbers[-1]}"
        wanted = f"{len(there)} with experts, {there[0]} to {there[-1]}"
        raise InputError(f"{counts.name}: count: {found}; {model.name} has {wanted}")
    if facts.get("format") in ALL_EXPERTS and counts.experts != model.routed_experts:
        wrong = f"{counts.experts} experts in a model of {model.routed_experts} experts"
        raise InputError(f"{counts.name}: count: {wrong}")
    whole = counts.padded(model.routed_experts)
    total = whole.total()
    for number, layer in zip(numbers, total, strict=True):
        check_layer(f"{counts.name}: count: layer {number}", layer, model.top_k)
    return replace(whole, counts=total[None])


def check_layer(place: str, counts: Ints, top_k: int) -> None:
    """Raise InputError, beginning with `place`, unless tokens of `top_k` experts give the counts.

    Parameters
    ----------
    counts
        Shape (experts,), in tokens.
    """
    total, most = int(counts.sum()), int(counts.max())
    if total == 0:
        raise InputError(f"{place}: is zero for every expert")
    if total > MAX_TOTAL:
        raise InputError(f"{place}: {total} uses are more than 2**48")
    if most * top_k > total:
        expert = int(counts.argmax())
        tokens = f"the layer's {total} uses at top-{top_k} are {total / top_k:.2f} tokens"
        raise InputError(
            f"{place}: expert {expert} is used {most} times, but {tokens}, and none uses it twice"
        )


def sample_trace(counts: Counts, top_k: int, tokens: int, seed: int) -> Trace:
    """Draw tokens that use every expert as often as the counts say.

    Parameters
    ----------
    counts
        Of all steps together; each layer must pass `check_layer`.
    top_k
        Experts per token.
    tokens
        How many are drawn; a token of one layer is independent of it in the others.
    seed
        The same seed gives the same tokens.

    Returns
    -------
    Trace
        Shape (tokens, layers, top_k), experts by rising number and without weights: the router's
        order is not known. In every layer expert e of share p_e is used by tokens * top_k * p_e
        tokens, rounded down or up. Its facts have the mark `SAMPLED`.

    Raises
    ------
    InputError
        If a number is out of range, or the sample would be too large.
    """
    if tokens < 1:
        raise InputError(f"tokens: must be at least 1, not {tokens}")
    total = counts.total()
    if tokens * total.shape[0] * top_k > MAX_IDS:
        shape = f"{tokens} tokens of {total.shape[0]} layers and top-{top_k}"
        raise InputError(f"{counts.name}: {shape} are too many to draw")
    rng = np.random.default_rng(seed)
    ids = np.stack([_dealt(row, top_k, tokens, rng) for row in total], axis=1)
    for _ in range(ROUNDS if tokens > 1 else 0):
        ids = _traded(ids, rng)
    ids.sort(axis=2)
    how = {"method": "curveball", "tokens": tokens, "seed": seed, "unknown": UNKNOWN}
    return Trace(counts.name, ids, facts=(counts.facts or {}) | {SAMPLED: how})


def _dealt(counts: Ints, top_k: int, tokens: int, rng: np.random.Generator) -> Ints:
    """Return one layer's tokens, shape (tokens, top_k), before they are mixed.

    What is left beyond whole uses is drawn systematically: an expert with a share of 0.3 uses is
    used in 3 of 10 samples, and other experts in another sample.
    """
    experts = rng.permutation(len(counts))
    exact = counts[experts].astype(object) * tokens * top_k  # Python's integers: no overflow
    total = int(counts.sum())
    uses = (exact // total).astype(np.int64)
    begin = int(rng.integers(total))
    ends = (np.cumsum((exact % total).astype(np.int64)) + begin) // total
    uses += np.diff(ends, prepend=np.int64(0))
    return np.repeat(experts, uses).reshape(top_k, tokens).T


def _traded(ids: Ints, rng: np.random.Generator) -> Ints:
    """Return the tokens after each has traded with another one: what both use, both keep.

    What only one of the two uses is pooled and dealt anew, to each as many as it gave.
    """
    tokens, _, top_k = ids.shape
    order = rng.permutation(tokens)
    half = tokens // 2
    pool = np.concatenate([ids[order[:half]], ids[order[half : 2 * half]]], axis=2)
    pool.sort(axis=2)
    again = pool[..., 1:] == pool[..., :-1]
    key = rng.random(pool.shape)
    key[..., :-1][again] = -1.0  # the first of two equal ones: to the one token
    key[..., 1:][again] = 2.0  # the second: to the other
    dealt = np.take_along_axis(pool, np.argsort(key, axis=2), axis=2)
    mixed = ids.copy()
    mixed[order[:half]], mixed[order[half : 2 * half]] = dealt[..., :top_k], dealt[..., top_k:]
    return mixed
