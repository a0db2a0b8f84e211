"""A placement as every target wants it: GPU experts of each layer, and the layers' numbers."""

from dataclasses import dataclass
from typing import Any

from moeopt.exporters.exported import Job, Loss
from moeopt.exporters.models import hidden_layers, known_shape
from moeopt.exporters.restricted import best_restricted
from moeopt.problems.placement.check import objective

WHOLE_LAYERS = "whole layers on the GPU or off it"


@dataclass(frozen=True)
class Placed:
    """Which experts of each layer with experts live on the GPU.

    Attributes
    ----------
    gpu
        Their ids, rising, layer by layer.
    experts
        Experts of each layer.
    hidden
        The model's number of each of these layers.
    all_layers
        How many layers the model has, those without experts included.
    resident_ns
        Where the plan lets others compute experts on the GPU, which no format can say: what it
        takes if the GPU computes them all, as runtimes do.
    """

    gpu: tuple[tuple[int, ...], ...]
    experts: int
    hidden: tuple[int, ...]
    all_layers: int
    resident_ns: int | None = None

    @property
    def count(self) -> int:
        """Experts on the GPU, over all layers."""
        return sum(map(len, self.gpu))

    @property
    def off_gpu(self) -> tuple[int, ...]:
        """The model's numbers of the layers that have experts off the GPU."""
        pairs = zip(self.hidden, self.gpu, strict=True)
        return tuple(layer for layer, own in pairs if len(own) < self.experts)

    @property
    def whole(self) -> bool:
        """Whether every layer is on the GPU as a whole or not at all."""
        return all(len(own) in (0, self.experts) for own in self.gpu)

    def notes(self) -> dict[str, Any]:
        """Return what belongs into the side file: how many experts each layer has on the GPU."""
        per_layer = [self.experts] * self.all_layers
        for layer, own in zip(self.hidden, self.gpu, strict=True):
            per_layer[layer] = len(own)
        notes = {"moe_layers": list(self.hidden), "per_layer": per_layer, "gpu_experts": self.count}
        return notes if self.resident_ns is None else notes | {"resident_ns": self.resident_ns}


def placed(job: Job, solution: Any = None) -> Placed:
    """Return the placement of a job, or that of another solution of its instance."""
    instance: Any = job.instance
    plan: Any = job.solution if solution is None else solution
    hidden = hidden_layers(job, instance.layers, instance.experts)
    gpu = tuple(tuple(sorted(row)) for row in plan.gpu)
    resident_ns = None
    if plan.computed_on_gpu is not None:
        resident_ns = objective(instance, plan.model_copy(update={"computed_on_gpu": None}))
    return Placed(gpu, instance.experts, hidden, known_shape(job).layers, resident_ns)


def placed_whole(job: Job) -> tuple[Placed, Loss | None]:
    """Return a placement of whole layers: the job's own if it is one, or else the best there is."""
    own = placed(job)
    if own.whole:
        return own, None
    solution, loss = best_restricted(job, {"restriction": "whole-layers"}, WHOLE_LAYERS)
    return placed(job, solution), loss
