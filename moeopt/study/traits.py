"""What tables and figures need of an instance beside its solves, so that they need not read it."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import FiniteFloat

from moeopt.core.envelope import InstanceEnvelope
from moeopt.problems.registry import get_problem
from moeopt.problems.twins import Moment, moment_of

OPTIONS = {
    "batch": "batch",
    "dimms": "DIMMs",
    "ndp_units": "NDP units",
    "threads": "CPU threads",
    "cores": "CPU cores",
    "cpu_scale": "CPU scale",
}
"""Field of the instance, or option of its generator -> what it is called."""

SKEW = "skew"

LARGEST = 1e300
"""Larger numbers are nonsense, and no floats."""


@dataclass(frozen=True)
class Restriction:
    """A restriction in words, empty where there is none; `rest` is the hash of all else."""

    words: str
    rest: str


@dataclass(frozen=True)
class Traits:
    """What is read off an instance once, when it comes into a store.

    Attributes
    ----------
    numbers
        Its size and machine, as far as they are known: see `OPTIONS`; and the loads' skew.
    restrictions
        By the field that restricts. Twins in all but one field have the same `rest` there.
    moment
        Where its loads lie in time, if they can be held against later ones.
    """

    numbers: Mapping[str, FiniteFloat]
    restrictions: Mapping[str, Restriction]
    moment: Moment | None


def traits_of(instance: InstanceEnvelope) -> Traits:
    """Return the traits of an instance."""
    restrictions = get_problem(instance.problem).restrictions
    return Traits(
        dict(_numbers(instance)),
        {name: _restriction(instance, name, free) for name, free in restrictions.items()},
        moment_of(instance),
    )


def _numbers(instance: InstanceEnvelope) -> Iterator[tuple[str, float]]:
    """Yield names and values; provenance is untrusted: what is not a number is left out."""
    options = (instance.provenance or {}).get("options")
    for key, name in OPTIONS.items():
        value: Any = getattr(instance, key, options.get(key) if isinstance(options, dict) else None)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and -LARGEST <= value <= LARGEST:  # NaN is not
            yield name, float(value)
    if (found := skew(instance)) is not None:
        yield SKEW, found


def skew(instance: InstanceEnvelope) -> float | None:
    """Return most tokens over mean tokens of the experts that have any; None without tokens."""
    tokens = [count for count in _tokens(instance) if count > 0]
    return max(tokens) / (sum(tokens) / len(tokens)) if tokens else None


def _tokens(instance: object) -> list[int]:
    """Return the tokens of every expert of a layer, added up over trace windows."""
    if hasattr(instance, "scenarios"):
        return [sum(of) for of in zip(*(s.tokens for s in instance.scenarios), strict=True)]
    experts = getattr(instance, "experts", ())
    if not isinstance(experts, Sequence):  # a number where experts have no data of their own
        return []
    return [expert.tokens for expert in experts if hasattr(expert, "tokens")]


def _restriction(instance: InstanceEnvelope, name: str, free: object) -> Restriction:
    """Return a restriction; what an instance is called and where it is from makes no other rest."""
    rest = instance.model_dump_json(exclude={"name", "provenance", name})
    value = getattr(instance, name)
    words = "" if value == free else f"{name.replace('_', ' ')} = {_plain(value)}"
    return Restriction(words, hashlib.sha256(rest.encode()).hexdigest())


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {of}" for key, of in value.items())
    return value if isinstance(value, str) else json.dumps(value)
