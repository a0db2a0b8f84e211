"""Type that `moeopt.study` gets in version 2.0: one solve of a campaign."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import BaseModel

from moeopt.planner.contract import Limits
from moeopt.solvers.rules import Rule

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
