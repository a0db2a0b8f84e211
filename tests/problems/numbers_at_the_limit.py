"""Small random instances whose numbers are as large as a file may hold them.

`raised` multiplies some fields of an instance until a number, or a sum, is at its limit. Numbers
are spoilt so that they share no divisor, in a way that keeps their order: what had to be at most
something else still is.
"""

import random
from collections.abc import Callable
from typing import Any

from moeopt import InputError
from tests.rooms.core import MAX_NUMBER

TIMES = "times"
"""Stands for all fields that end in ``_ns``."""

GROUPS: dict[str, list[tuple[str, ...]]] = {
    "tri_domain": [(TIMES,), ("tokens",)],
    "relayout": [(TIMES,), ("tokens",)],
    "layout": [
        (TIMES,),
        (TIMES, "weight"),
        ("weight",),
        ("tokens", "forecast_tokens"),
        ("expert_bytes", "dimm_bytes", "reserved_bytes"),
    ],
    "deferral": [(TIMES,), ("penalty", "max_total_penalty"), (TIMES, "penalty")],
    "balance": [(TIMES,)],
    "cache": [(TIMES,)],
    "bitwidth": [("loss",), ("importance",), ("loss", "loss_error")],
    "placement": [
        (TIMES,),
        ("prefill_counts", "prefill_scores", "profile_counts"),
    ],
    "joint": [
        (TIMES,),
        ("width_loss", "max_loss", "kv_loss"),
        ("expert_bytes", "kv_bytes", "gpu_bytes", "host_bytes"),
    ],
    "replication": [
        ("loads",),
        ("weight",),
        ("loads", "weight"),
        ("move_cost",),
        ("loads", "weight", "move_cost"),
        ("read_ns", "token_ns", "pass_ns", "links", "slot_cost"),
        ("read_ns", "token_ns", "pass_ns", "links", "slot_cost", "loads", "weight"),
    ],
    "split": [
        (TIMES,),
        ("decode_weight", "prompt_weight"),
        (TIMES, "decode_weight", "prompt_weight"),
        ("capacity", "buffer", "attention_bytes", "experts_bytes"),
    ],
    "threads": [(TIMES,)],
}
"""By problem, fields that are raised together."""


def raised(instance: Any, fields: tuple[str, ...], seed: int) -> Any:
    """Return an instance whose `fields` are as large as it may state them, but for a factor of 2.

    Fields that it does not state stay away; if none is stated, or all are 0, it comes back as it
    is.
    """
    data = instance.model_dump(mode="json")
    most = max(_values(data, fields), default=0)
    if not most:
        return instance
    factor = MAX_NUMBER // most
    while factor > 1:
        spoil = random.Random(f"{seed} {factor}").randrange(1, 10**9)
        try:
            return type(instance).model_validate(_mapped(data, fields, _grown(factor, spoil)))
        except InputError:
            factor //= 2
    return instance


def _grown(factor: int, spoil: int) -> Callable[[int], int]:
    """Return a function that rises, and takes 0 to 0."""
    room = min(factor, 10**6)
    return lambda value: value * factor - (spoil * value) % room if value else 0


def _is_of(name: str, fields: tuple[str, ...]) -> bool:
    return name in fields or (TIMES in fields and name.endswith("_ns"))


def _values(data: Any, fields: tuple[str, ...], *, inside: bool = False) -> list[int]:
    if isinstance(data, dict):
        of = (_values(part, fields, inside=inside or _is_of(k, fields)) for k, part in data.items())
        return [value for values in of for value in values]
    if isinstance(data, list):
        return [value for part in data for value in _values(part, fields, inside=inside)]
    return [data] if inside and isinstance(data, int) and not isinstance(data, bool) else []


def _mapped(data: Any, fields: tuple[str, ...], grown: Callable[[int], int]) -> Any:
    def of(part: Any, inside: bool) -> Any:
        if isinstance(part, dict):
            return {key: of(value, inside or _is_of(key, fields)) for key, value in part.items()}
        if isinstance(part, list):
            return [of(value, inside) for value in part]
        whole = isinstance(part, int) and not isinstance(part, bool)
        return grown(part) if inside and whole else part

    return of(data, False)
