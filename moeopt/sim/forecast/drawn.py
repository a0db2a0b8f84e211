"""Instances whose loads were drawn."""

from typing import Any, TypeVar

from moeopt.problems.envelope import InstanceEnvelope

Observed = TypeVar("Observed", bound=InstanceEnvelope)

LONGEST_NAME = 150


def drawn_from(observed: Observed, which: str, seed: int, stream: int, **loads: Any) -> Observed:
    """Return the observed instance with other loads, named after the draw, of no provenance."""
    name = f"{observed.name[:LONGEST_NAME]}-{which}-seed{seed}-stream{stream}"
    return observed.model_copy(update={"name": name, "provenance": None, **loads})
