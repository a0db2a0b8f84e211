"""Arrays of numbers without a format of their own: experts of tokens, or counts.

They stand in npy files, in npz files under any name, and in JSON lists of lists. What an array is,
its name in the npz file says. Where none does, shape and content decide:

- Two axes are counts [layer, expert]. Tokens are read of them only where the format says so.
- Three axes are tokens [token, layer, k] where some number is -1 (no expert), where k is 1, or
  where no row has a number twice although counts so small would have `SURE_TIES` such pairs.
- Three axes are counts [step, layer, expert] where rows are longer than `MOST_TOP_K`, a number is
  `MOST_EXPERTS` or more, or all layers of a step have as many tokens, at least `SURE_SUMS` times.

All else is refused, with both readings and the option that decides. Matrices with two axes are
refused like that where they have more rows than models have layers, a -1, or rows as of tokens.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.wording import shown
from moeopt.sim.traces.readers.checked import (
    MOST_LAYERS,
    checked_counts,
    checked_trace,
    first_tie,
    layer_facts,
    smallest,
    without_empty_layers,
)
from moeopt.sim.traces.readers.topk_npz import npz_arrays, read_npy, read_npz
from moeopt.sim.traces.trace import NO_EXPERT, Counts, Trace

Array = NDArray[np.generic]
Kind = Literal["token-array", "count-array"]

MOST_TOP_K = 32
"""Most experts that a token uses in one layer."""

MOST_EXPERTS = 4096
"""Most experts of a layer."""

SURE_TIES = 10
"""Of so many expected pairs of equal counts one occurs, but for one file in twenty thousand."""

SURE_SUMS = 8
"""So many equal sums of layers are no accident."""

TOKEN_NAMES = (
    *("indices", "topk_indices", "routed_indices", "expert_ids", "expert_indices"),
    *("selected_experts", "topk_experts", "routed_experts", "topk_ids"),
)
"""What arrays of tokens' experts are called in npz files."""

COUNT_NAMES = (
    *("counts", "count", "logical_count", "expert_counts", "expert_count", "expert_load"),
    *("expert_usage", "usage", "loads", "load", "weight"),
)
"""What arrays of counts are called, in npz files and in JSON objects."""

DECIDE = "format token-array or count-array decides, or the name topk_ids or counts in an npz file"


def array_kind(path: Path) -> Kind:
    """Return which of the two an npy or npz file holds.

    Raises
    ------
    InputError
        If the file cannot be read, or its array may be either, or neither.
    """
    name, array = read_array(path)
    if name in TOKEN_NAMES:
        return "token-array"
    return "count-array" if name in COUNT_NAMES else kind_of_array(path, array)


def read_token_array(path: Path, top_k: int | None = None) -> Trace:
    """Read an array [token, layer, k]; with two axes, what `top_k` says of the second one."""
    _, array = read_array(path)
    if array.ndim == 2:
        array = _of_two_axes(path, array, top_k)
    if array.ndim != 3 or 0 in array.shape or array.dtype.kind not in "iu":
        raise InputError(f"holds {seen(array)}, no experts [token, layer, k]", where=path)
    ids, layers = without_empty_layers(array)
    facts: dict[str, object] = {"format": "token-array"}
    return checked_trace(path, smallest(ids), facts=facts | layer_facts(layers))


def _of_two_axes(path: Path, array: Array, top_k: int | None) -> Array:
    if top_k == 1:
        return array[:, :, None]
    if top_k == array.shape[1]:
        return array[:, None, :]
    columns = array.shape[1]
    raise InputError(
        f"holds {seen(array)}: say whether a token has one expert in {columns} layers (top_k 1) or"
        f" {columns} in one layer (top_k {columns})",
        where=path,
    )


def read_count_array(path: Path) -> Counts:
    """Read an array [layer, expert] or [step, layer, expert]; layers of zeros are left out."""
    _, array = read_array(path)
    return counts_of(path, array, "count-array")


def counts_of(path: Path, array: Array, form: str, numbers: Sequence[int] | None = None) -> Counts:
    """Return an array of counts as such, in the name of a format; empty layers are left out.

    `numbers` are the layers' own, by default from 0 on.
    """
    if array.ndim not in (2, 3) or 0 in array.shape or array.dtype.kind not in "iuf":
        what = "counts [layer, expert] or [step, layer, expert]"
        raise InputError(f"holds {seen(array)}, no {what}", where=path)
    steps = whole_numbers(path, array if array.ndim == 3 else array[None])
    stay = np.flatnonzero(steps.any(axis=(0, 2)))
    if not stay.size:
        raise InputError("count: is zero for every expert", where=path)
    kept = steps if len(stay) == steps.shape[1] else steps[:, stay]
    layers = [at if numbers is None else numbers[at] for at in stay.tolist()]
    return checked_counts(path, kept, {"format": form} | layer_facts(layers))


def of_slots(loads: Array, slots: NDArray[np.integer], experts: int) -> NDArray[np.int64]:
    """Return the counts [layer, expert] of loads [layer, slot]: slots of -1 hold no expert."""
    counts = np.zeros((len(loads), experts), dtype=np.int64)
    layer, slot = np.nonzero(slots >= 0)
    np.add.at(counts, (layer, slots[layer, slot]), loads[layer, slot])
    return counts


def whole_numbers(path: Path, array: Array) -> Array:
    """Return whole numbers that are stored as floats as integers."""
    if array.dtype.kind != "f":
        return array
    whole = array.astype(np.float64)
    usable = np.isfinite(whole) & (whole == np.floor(whole)) & (np.abs(whole) < 2**53)
    if not usable.all():
        wrong = float(whole[~usable][0])
        raise InputError(f"count: must be whole numbers of tokens, not {wrong:g}", where=path)
    return whole.astype(np.int64)


def read_array(path: Path) -> tuple[str | None, Array]:
    """Return the array of an npy file, or the one array of an npz file that can be meant."""
    if path.suffix.lower() == ".npz":
        return _of_archive(path)
    return None, read_npy(path)


def _of_archive(path: Path) -> tuple[str, Array]:
    arrays = npz_arrays(path)
    named = [name for name in (*TOKEN_NAMES, *COUNT_NAMES) if name in arrays]
    fitting = [name for name, (shape, kind) in arrays.items() if _may_be(shape, kind)]
    if not named and len(fitting) != 1:
        listed = [f"{shown(n)} ({k} of shape {s})" for n, (s, k) in [*arrays.items()][:5]]
        more = f" and {len(arrays) - 5} more" if len(arrays) > 5 else ""
        there = ", ".join(listed) or "no array"
        raise InputError(
            f"holds {there}{more}: which one is meant? name it topk_ids or counts", where=path
        )
    name = (named or fitting)[0]
    return name, read_npz(path, [name])[name]


def _may_be(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> bool:
    return len(shape) in (2, 3) and dtype.kind in "iuf" and math.prod(shape) > 0


def kind_of_array(path: Path, array: Array) -> Kind:
    """Return what an array without a name is; see this module's rules."""
    if array.ndim not in (2, 3) or 0 in array.shape or array.dtype.kind not in "iuf":
        raise InputError(
            f"holds {seen(array)}: neither experts [token, layer, k] nor counts [layer, expert] or"
            " [step, layer, expert]",
            where=path,
        )
    if not array.any():
        raise InputError(f"holds {seen(array)}, all of it zeros", where=path)
    if array.dtype.kind == "f":
        return "count-array"
    low, high, width = int(array.min()), int(array.max()), array.shape[-1]
    rows = array.reshape(-1, width)
    used = rows.any(axis=1)  # rows of dense layers are zeros
    rows = rows if used.all() else rows[used]
    likely = len(rows) * width * (width - 1) / (2 * (high + 1)) if high >= 0 else 0.0
    few = width <= MOST_TOP_K and high < MOST_EXPERTS
    ties = few and first_tie(rows) is not None
    as_tokens = few and not ties and likely >= SURE_TIES
    if array.ndim == 2:
        if low < 0 or len(array) > MOST_LAYERS or as_tokens:
            raise _either(path, array, "token and layer or k", "layer, expert", low, ties)
        return "count-array"
    if low == NO_EXPERT or (width == 1 and few) or as_tokens:
        return "token-array"
    if low >= 0 and (not few or _equal_sums(array)):
        return "count-array"
    raise _either(path, array, "token, layer, k", "step, layer, expert", low, ties)


def _either(path: Path, array: Array, tokens: str, counts: str, low: int, ties: bool) -> InputError:
    why = f", least {low}" if low < 0 else ", in some rows a number twice" if ties else ""
    return InputError(
        f"holds {seen(array)}{why}: may be experts of tokens [{tokens}] or counts [{counts}]:"
        f" {DECIDE}",
        where=path,
        field="format",
    )


def _equal_sums(array: Array) -> bool:
    """Tell whether all layers with tokens of each step have as many, in enough cases."""
    sums = array.sum(axis=2, dtype=np.float64)
    highest = sums.max(axis=1, keepdims=True)
    used = (sums > 0).sum() - (highest > 0).sum()
    return bool(used >= SURE_SUMS and ((sums == highest) | (sums == 0)).all())


def seen(array: Array) -> str:
    """Return type and shape of an array in words."""
    return f"an array of {array.dtype} of shape {array.shape}"
