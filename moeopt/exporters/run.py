"""`moeopt.export`: one code path for all targets: check the plan, name the model, write."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import NoneType

from moeopt.core.envelope import SolutionEnvelope
from moeopt.core.errors import InputError, expect
from moeopt.exporters.exported import Exported, Job, OptionValue
from moeopt.exporters.plans import checked_objective, shape_of
from moeopt.exporters.target import Target
from moeopt.exporters.targets import get_target
from moeopt.problems.files import InstanceLike, as_instance
from moeopt.sim.models.model_shape import ModelShape
from moeopt.solvers import arguments


def export(
    source: SolutionEnvelope | InstanceLike,
    instance: InstanceLike | None = None,
    *,
    to: str,
    model: ModelShape | str | Path | None = None,
    options: Mapping[str, OptionValue] | None = None,
    time_limit_s: float | None = None,
    work_limit: float | None = None,
) -> Exported:
    """Bring a plan into the format of a runtime, or an instance into that of another tool.

    Parameters
    ----------
    source
        A solution; or an instance, or its file, for targets that hold no plan.
    instance
        The solution's instance.
    to
        One of `moeopt list targets`.
    model
        The model whose layers the plan is for: a shape, a preset's name or a file; by default the
        preset that the instance's provenance names.
    options
        What the target asks for besides, e.g. ``{"ep_size": 8}``; `moeopt list targets` has the
        options of each.
    time_limit_s, work_limit
        For finding the best plan of the runtime's form, where `source` has another; as in
        `moeopt.solve`.

    Returns
    -------
    Exported
        The file's content, the flags for the runtime, notes, and what the form costs; `save`
        writes it. Its `warnings` say why the runtime would ignore or change the plan.

    Raises
    ------
    InputError
        If the target does not take the problem or an option, the plan is invalid, or the model is
        unknown.
    InfeasibleError
        If there is no plan of the runtime's form.
    LimitError
        If none was found within the limit.

    Examples
    --------
    >>> import moeopt
    >>> folder = "instances/balance/decode"
    >>> instance = moeopt.load(f"{folder}/decode-mixtral-8x7b-edge-gpu-ndp-4-slices1.json")
    >>> moeopt.export(instance, to="mps").text.splitlines()[0]
    '*SENSE:Minimize'
    """
    limits = arguments.limits(time_limit_s, work_limit)
    solution = source if isinstance(source, SolutionEnvelope) else None
    if solution is None:
        instance = as_instance(source, "source")
    elif instance is None:
        raise InputError("is missing", field="instance")
    else:
        instance = as_instance(instance)
    expect("to", to, str, what="the name of a target")
    expect("options", options, Mapping, NoneType, what="a mapping from options to values")
    target = get_target(to, instance.problem)
    if target.plan and solution is None:
        raise InputError(f"{to} holds a plan: give a solution, not an instance", field="--to")
    job = Job(
        instance,
        solution,
        None if solution is None else checked_objective(instance, solution),
        shape_of(instance, model),
        target.resolved(options or {}),
        limits,
    )
    found = target.export(job)
    return replace(
        found,
        notes=_common(target, job) | dict(found.notes),
        warnings=(*target.warn(job), *found.warnings),
        script=target.script(found.flags),
        name=instance.name,
        suffix=target.suffix,
        strict_suffix=target.strict_suffix,
    )


def _common(target: Target, job: Job) -> dict[str, object]:
    """Return the notes that every target has."""
    return {
        "made_by": f"moeopt {version('moeopt')}",
        "target": target.name,
        "problem": job.instance.problem,
        "instance": job.instance.name,
        "objective": job.objective,
        "model": None if job.shape is None else job.shape.name,
        "holds": target.holds,
        "loses": target.loses,
        "honoured": target.honoured(job),
    }
