"""`moeopt.export`: one code path for all targets: check the plan, name the model, write."""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from moeopt.errors import InputError
from moeopt.exporters.exported import Exported, Job, Loss
from moeopt.exporters.models import class_of, shape_of
from moeopt.exporters.targets import Target, get_target
from moeopt.problems.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.problems.objective import Objective
from moeopt.sim.model_shape import ModelShape
from moeopt.solvers.verdict import check

MAX_EP_SIZE = 4096


def export(
    source: SolutionEnvelope | InstanceEnvelope,
    instance: InstanceEnvelope | None = None,
    *,
    to: str,
    model: ModelShape | str | Path | None = None,
    model_class: str | None = None,
    ep_size: int = 1,
    deferral: tuple[SolutionEnvelope, InstanceEnvelope] | None = None,
    time_limit_s: float = 60.0,
) -> Exported:
    """Bring a plan into the format of a runtime, or an instance into that of another tool.

    Parameters
    ----------
    source
        A solution, or an instance for targets that hold no plan.
    instance
        The solution's instance.
    to
        One of `moeopt list targets`.
    model
        The model whose layers the plan is for: a shape, a preset's name or a file; by default the
        preset that the instance's provenance names.
    model_class
        Its class in the runtime; by default what its ``config.json`` names.
    ep_size
        Devices over which the experts of a layer are spread.
    deferral
        A deferral plan and its instance, whose flag goes along with ``ktransformers``.
    time_limit_s
        Seconds for finding the best plan of the runtime's form, where `source` has another.

    Returns
    -------
    Exported
        The file's content, the flags for the runtime, notes, and what the form costs; `save`
        writes it.

    Raises
    ------
    InputError
        If the target does not take the problem, the plan is invalid, or the model is unknown.
    MoeoptError
        With exit code 3 or 4 if there is no plan of the runtime's form, or none was found.

    Examples
    --------
    >>> import moeopt
    >>> folder = "instances/balance/decode"
    >>> instance = moeopt.load(f"{folder}/decode-mixtral-8x7b-edge-gpu-ndp-4-slices1.json")
    >>> moeopt.export(instance, to="mps").text.splitlines()[0]
    '*SENSE:Minimize'
    """
    solution = source if isinstance(source, SolutionEnvelope) else None
    if isinstance(source, InstanceEnvelope):
        instance = source
    if instance is None:
        raise InputError("instance: is missing")
    target = get_target(to, instance.problem)
    if target.plan and solution is None:
        raise InputError(f"--to: {to} holds a plan: give a solution, not an instance")
    if not 1 <= ep_size <= MAX_EP_SIZE:
        raise InputError(f"--ep-size: must be from 1 to {MAX_EP_SIZE}, not {ep_size}")
    job = Job(
        instance,
        solution,
        None if solution is None else checked_objective(instance, solution),
        shape_of(instance, model),
        class_of(model) if model_class is None else model_class,
        ep_size,
        *_deferred(to, deferral, time_limit_s),
        time_limit_s,
    )
    found = target.run(job)
    return replace(
        found,
        notes=_common(target, job) | found.notes,
        name=instance.name,
        suffix=target.suffix,
        strict_suffix=target.strict_suffix,
    )


def checked_objective(instance: InstanceEnvelope, solution: SolutionEnvelope) -> Objective:
    """Return the objective of a solution, or raise InputError if it is invalid."""
    verdict = check(instance, solution)
    if verdict.objective is None:
        constraint, sentence = verdict.violations[0]
        raise InputError(f"the solution is invalid: {constraint}: {sentence}")
    return verdict.objective


def _deferred(
    to: str, deferral: tuple[SolutionEnvelope, InstanceEnvelope] | None, time_limit_s: float
) -> tuple[int | None, Loss | None]:
    """Return the count that a deferral plan gives each layer, and what uniformity costs."""
    if deferral is None:
        return None, None
    if to != "ktransformers":
        raise InputError(f"--deferral: goes with --to ktransformers only, not with {to}")
    from moeopt.exporters.ktransformers_deferral import uniform_count

    solution, instance = deferral
    if solution.problem != "deferral":
        raise InputError(f"--deferral: must be a solution of deferral, not of {solution.problem}")
    job = Job(instance, solution, checked_objective(instance, solution), time_limit_s=time_limit_s)
    return uniform_count(job)


def _common(target: Target, job: Job) -> dict[str, Any]:
    """Return the notes that every target has."""
    return {
        "made_by": f"moeopt {version('moeopt')}",
        "target": target.name,
        "problem": job.instance.problem,
        "instance": job.instance.name,
        "objective": job.objective,
        "model": None if job.shape is None else job.shape.name,
    }
