"""What an instance says of its making: enough to make it again under another settlement."""

from typing import Any, Protocol

from pydantic import Field, ValidationError

from moeopt.problems.envelope import Count, Frozen
from moeopt.sim.presets import get_machine, get_model, names
from moeopt.sim.source import Source


class Made(Protocol):
    """An instance of any problem."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def provenance(self) -> dict[str, Any] | None:
        """What it was made from."""

    @property
    def quantum_ns(self) -> int | None:
        """What its times are multiples of."""


class Record(Frozen, extra="ignore"):
    """The parts of a provenance that are needed.

    Parameters
    ----------
    layout_loads
        What a layout may be decided from, by `moeopt.sim.windows.LayoutFrom`: tokens of every
        expert.
    """

    machine: str
    model: str
    seed: int = Field(strict=True, ge=0)
    options: dict[str, Any]
    layout_loads: dict[str, tuple[Count, ...]]

    @classmethod
    def of(cls, instance: Made) -> "Record | None":
        """Return the record of an instance, None if it lacks a part."""
        try:
            return cls.model_validate(instance.provenance or {})
        except ValidationError:
            return None

    def source(self, instance: Made) -> Source | None:
        """Return what the instance was made of; None if machine or model is no preset."""
        if self.machine not in names("machines") or self.model not in names("models"):
            return None
        return Source(
            machine=get_machine(self.machine),
            model=get_model(self.model),
            seed=self.seed,
            quantum_ns=instance.quantum_ns or 1,
            name=instance.name,
        )

    def loads(self, experts: int) -> dict[str, list[int]]:
        """Return those of `layout_loads` that have an entry for every expert."""
        return {key: list(of) for key, of in self.layout_loads.items() if len(of) == experts}
