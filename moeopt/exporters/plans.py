"""A job's plan: whose layers its layers are, and the best one of the form that a runtime takes."""

from dataclasses import dataclass
from pathlib import Path

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import ContradictionError, InfeasibleError, InputError, LimitError
from moeopt.core.objective import Objective
from moeopt.exporters.exported import Job, Loss
from moeopt.problems.placement.check import objective
from moeopt.problems.placement.instance import Instance as Placement
from moeopt.problems.placement.instance import Solution as Residents
from moeopt.problems.registry import get_problem
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.presets import get_model, names
from moeopt.solvers.result import check
from moeopt.solvers.run import solve


def shape_of(
    instance: InstanceEnvelope, model: ModelShape | str | Path | None
) -> ModelShape | None:
    """Return the shape of the model that was named, or of the preset in the provenance, or None.

    The provenance is untrusted text: it is taken for a preset's name, never for a file's.
    """
    if isinstance(model, ModelShape):
        return model
    if model is not None:
        return get_model(model)
    named = (instance.provenance or {}).get("model")
    return get_model(named) if isinstance(named, str) and named in names("models") else None


def known_shape(job: Job) -> ModelShape:
    """Return the model's shape.

    Raises
    ------
    InputError
        If it is not known.
    """
    if job.shape is None:
        raise InputError(
            "is missing, and the instance's provenance names no preset", field="--model"
        )
    return job.shape


def hidden_layers(job: Job, layers: int, experts: int) -> tuple[int, ...]:
    """Return the model's number of each layer of the plan, counted from 0 over all its layers.

    The plan's layers are the model's layers with experts, in their order; layers without experts
    (`first_k_dense_replace`, `moe_layer_freq` and whatever else moves them) have none in the plan.

    Parameters
    ----------
    job
        Says which model.
    layers, experts
        Layers of the plan, and experts of each.

    Raises
    ------
    InputError
        If the model is not known, or has another number of such layers or of experts.
    """
    shape = known_shape(job)
    found = shape.moe_layers
    if len(found) != layers:
        reason = f"{shape.name} has {len(found)} layers with experts, the plan {layers}"
        raise InputError(f"{reason}", field="--model")
    if shape.routed_experts != experts:
        reason = f"{shape.name} has {shape.routed_experts} experts per layer, the plan {experts}"
        raise InputError(f"{reason}", field="--model")
    return found


def checked_objective(instance: InstanceEnvelope, solution: SolutionEnvelope) -> Objective:
    """Return the objective of a solution, or raise InputError if it is invalid."""
    verdict = check(instance, solution)
    if verdict.objective is None:
        constraint, sentence = verdict.violations[0]
        raise InputError(f"the solution is invalid: {constraint}: {sentence}")
    return verdict.objective


def compared(
    job: Job, instance: InstanceEnvelope, solution: SolutionEnvelope, form: str, proven: bool
) -> Loss:
    """Return what a solution of another form costs against the job's own.

    Parameters
    ----------
    instance
        The job's, or one that differs in which solutions it allows, not in what they cost.

    Raises
    ------
    ContradictionError
        If the checker does not take it for a solution of that instance.
    """
    exported = check(instance, solution).objective
    if exported is None or job.objective is None:
        raise ContradictionError(f"{job.instance.name}: {form}: the checker rejects the plan")
    return Loss(job.instance.problem, form, job.objective, exported, proven)


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

    @property
    def per_layer(self) -> list[int]:
        """How many experts each of the model's layers has on the GPU; all where it has none."""
        counts = [self.experts] * self.all_layers
        for layer, own in zip(self.hidden, self.gpu, strict=True):
            counts[layer] = len(own)
        return counts

    def notes(self) -> dict[str, object]:
        """Return what belongs into the side file: how many experts each layer has on the GPU."""
        notes: dict[str, object] = {"moe_layers": list(self.hidden), "per_layer": self.per_layer}
        notes |= {"gpu_experts": self.count}
        return notes if self.resident_ns is None else notes | {"resident_ns": self.resident_ns}


def placed(job: Job, other: Residents | None = None) -> Placed:
    """Return the placement of a job, or that of another solution of its instance."""
    instance, plan = job.given(Placement), other or job.plan(Residents)
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
    return restricted(job, "whole-layers", WHOLE_LAYERS)


def restricted(job: Job, restriction: str, form: str) -> tuple[Placed, Loss]:
    """Return the best placement under another restriction, solved exactly, and what that costs.

    Parameters
    ----------
    job
        With a placement and its objective.
    restriction
        A value of the instance's field of that name.
    form
        What the restriction says, in words.

    Raises
    ------
    InfeasibleError
        If there is no such plan.
    LimitError
        If none was found within the limit.
    """
    instance = job.given(Placement).model_dump() | {"restriction": restriction}
    changed = Placement.model_validate(instance)
    method = get_problem("placement").exact[0].name
    result = solve(changed, method, **job.limits.asked)
    solution = result.solution
    if not isinstance(solution, Residents):
        said = f"{changed.name}: {form}"
        if result.status == "infeasible":
            raise InfeasibleError(f"{said}: infeasible")
        raise LimitError(f"{said}: none found within the limit")
    loss = compared(job, changed, solution, form, result.status == "optimal")
    return placed(job, solution), loss
