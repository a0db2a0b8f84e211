"""What an instance's provenance says of it as evidence: whose loads, and which assumptions.

Two instances from one layer of one trace are two looks at one thing, however their batches are cut.
So tables count independent samples, *cells*, beside instances: a layer of a trace, or a draw of a
law (model, seed and layer), or a machine and a model where no loads take part. Intervals are
bootstrapped over *clusters*: traces, and cells of laws. Provenance is untrusted: what is not
understood makes an instance a cell of its own.
"""

from collections.abc import Mapping

from moeopt.core.envelope import InstanceEnvelope
from moeopt.problems.registry import get_problem

from .campaign import repeats

DEFAULTS = ""
"""What `tags_of` says of an instance that is made under every assumption's default."""

NO_LOADS = "none: "
"""How the name of a trace begins that is none."""

LAW = "workload "
"""How the name of a trace begins that is drawn by a law, and that of its cells."""


def tags_of(instance: InstanceEnvelope) -> dict[str, str]:
    """Return ``cell``, ``cluster`` and ``settled``; ``repeats`` where it repeats another one.

    ``settled`` are the assumptions of instances that are not at their default, ``name=value``.
    ``batch`` is there where the instance has one: rules change places over it.
    """
    provenance = instance.provenance or {}
    options = provenance.get("options")
    options = options if isinstance(options, Mapping) else {}
    cell, cluster = place(instance.name, provenance)
    original = repeats(instance)
    again = {} if original is None else {"repeats": original}
    assumed = _assumed(instance.problem, options)
    batch = options.get("batch")
    sizes = {"batch": str(batch)} if isinstance(batch, int) else {}
    return {"cell": cell, "cluster": cluster, "settled": assumed} | sizes | again


def place(instance: str, provenance: Mapping[str, object]) -> tuple[str, str]:
    """Return the cell and the cluster of an instance, by its name and its provenance."""
    options = provenance.get("options")
    options = options if isinstance(options, Mapping) else {}
    model = provenance.get("same_experiment_as", provenance.get("model"))
    trace = provenance.get("trace")
    if not isinstance(model, str):
        return instance, instance
    name = trace.get("name") if isinstance(trace, Mapping) else None
    layer = options.get("layer")
    where = f" layer {layer}" if isinstance(layer, int) else ""
    if not isinstance(trace, Mapping) or not isinstance(name, str) or name.startswith(NO_LOADS):
        cell = f"{model} on {provenance.get('machine')}"
        return cell, cell
    if "workload" in trace:
        cell = f"{name} {model} seed {provenance.get('seed')}{where}"
        return cell, cell
    return f"{name}{where}", name


def _assumed(problem: str, options: Mapping[str, object]) -> str:
    if not options:
        return DEFAULTS
    readings = [one for one in get_problem(problem).assumptions() if not one.is_setting]
    values = {one.name: one.not_default(options) for one in readings}
    return ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)
