"""Type that `moeopt.study` gets in version 2.0: one solve of a campaign."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import BaseModel

from moeopt.solvers.rules import Rule

class Limits(NamedTuple):
    """Seconds, units of work and threads of one solve."""

    time_s: float | None
    work: float | None
    workers: int

@dataclass(frozen=True)
class Job:
    """One solve, and the instances on which its decision is judged.

    `key` is the hash of what decides the answer: content of the instance, method, its source, seed,
    limits, engine, `judged_on` and scheduler; neither tags nor versions.
    """

    instance: BaseModel
    method: str | Rule
    seed: int
    limits: Limits
    engine: str | None
    judged_on: tuple[BaseModel, ...] = ()
    scheduler: str | None = None
    tags: Mapping[str, str] = ...

    @property
    def key(self) -> str: ...
