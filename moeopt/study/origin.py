"""What an instance's provenance says of it as evidence: whose loads, and which readings.

Two instances from one layer of one trace are two looks at one thing, however their batches are cut.
So tables count *cells* beside instances: a layer of a trace, or a draw of a law (model, seed and
layer), or a machine and a model where no loads take part. Intervals are bootstrapped over
*clusters*: traces, and cells of laws. Provenance is untrusted: what is not understood makes an
instance a cell of its own.
"""

from collections.abc import Mapping

from moeopt.core.envelope import InstanceEnvelope
from moeopt.problems.registry import get_problem
from moeopt.study.campaign import repeats

DEFAULTS = ""
"""What `origin` says of an instance that is made under every settlement's default."""

NO_LOADS = "none: "
"""How the name of a trace begins that is none."""


def origin(instance: InstanceEnvelope) -> dict[str, str]:
    """Return ``cell``, ``cluster`` and ``settled``; ``repeats`` where it repeats another one.

    ``settled`` are the settlements of instances that are not at their default, ``name=value``.
    ``batch`` is there where the instance has one: rules change places over it.
    """
    provenance = instance.provenance or {}
    options = provenance.get("options")
    options = options if isinstance(options, Mapping) else {}
    cell, cluster = _place(instance, provenance, options)
    original = repeats(instance)
    again = {} if original is None else {"repeats": original}
    settled = _settled(instance.problem, options)
    batch = options.get("batch")
    sizes = {"batch": str(batch)} if isinstance(batch, int) else {}
    return {"cell": cell, "cluster": cluster, "settled": settled} | sizes | again


def _place(
    instance: InstanceEnvelope, provenance: Mapping[str, object], options: Mapping[str, object]
) -> tuple[str, str]:
    trace, model = provenance.get("trace"), repeats(instance) or provenance.get("model")
    if not isinstance(model, str):
        return instance.name, instance.name
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


def _settled(problem: str, options: Mapping[str, object]) -> str:
    if not options:
        return DEFAULTS
    readings = [one for one in get_problem(problem).settlements if not one.is_setting]
    values = {one.name: one.not_default(options) for one in readings}
    return ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)
