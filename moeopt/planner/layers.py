"""Plans that need no counts: whole layers, the KV cache's type and the ubatch, for llama.cpp.

Without counts nothing is known of which experts are hot: layers are alike, and what is left to
decide are the layers on the CPU, which follow from memory, and what of the memory the cache and the
buffers take. That is a handful of settings, each priced as `moeopt.predict` prices it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from moeopt.core.errors import InfeasibleError, InputError
from moeopt.core.logs import logger_of
from moeopt.core.units import MIB
from moeopt.sim.costs.runtime import RUNTIME_QUANTUM_NS, priced
from moeopt.sim.costs.threads import threaded
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.kv_types import KvType, kv_type_of
from moeopt.sim.machines.runtimes.memory import WITH_GRAPH
from moeopt.sim.machines.runtimes.predict import Prediction, check_fits, predict
from moeopt.sim.machines.runtimes.profile import get_runtime
from moeopt.sim.machines.runtimes.setting import UBATCH, Setting
from moeopt.sim.machines.runtimes.speeds import speeds_in_words
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import at_bits
from moeopt.sim.plan import Plan, Times, times_of_step

from .asked import what_fits
from .goal import Goal
from .options import PlanOptions, SeveralOptions, depth_of
from .report import PlanReport, Row

logger = logger_of(__name__)

CACHES: tuple[KvType, ...] = ("f16", "q8_0")
"""Types of the cache that are tried where none is asked for; q8_0 costs little."""

UBATCHES = (UBATCH, 2048)
"""Larger ones read prompts faster and take memory from experts."""


def plan_layers(
    machine: Machine, model: ModelShape, options: PlanOptions, request: SeveralOptions
) -> PlanReport:
    """Plan whole layers for llama.cpp or ik_llama.cpp, from memory alone.

    The type of the cache, unless one is asked for, and the ubatch are those with which the request
    takes the least time; of equal ones those that read prompts fastest.

    Parameters
    ----------
    options
        Of which bits, kv_bits, context, depth and runtime count.
    request
        Of which prompt_tokens, reply_tokens, ubatch and path count.

    Raises
    ------
    InputError
        If an option is wrong.
    InfeasibleError
        If nothing fits.
    """
    name, bits = options.runtime or "llama.cpp", options.bits
    if name not in WITH_GRAPH:
        raise InputError(f"without counts plans are for {', '.join(WITH_GRAPH)}", field="runtime")
    sized = model if bits is None else at_bits(model, bits)
    asked = None if options.kv_bits is None else kv_type_of(options.kv_bits, name)
    numa, goal = get_runtime(name).numa, request.goal
    context = Context(depth_of(options, goal), options.context)
    setting = threaded(Setting(machine, sized, name, context, numa=numa))
    ubatches = UBATCHES if request.ubatch is None else (request.ubatch,)
    found, missing = list[Prediction](), ""
    for kind in CACHES if asked is None else (asked,):
        for ubatch in ubatches:
            setting = replace(setting, kv=(kind, kind), ubatch=ubatch)
            try:
                found.append(predict(setting, prompt=goal.prompt or None, path=request.path))
            except InfeasibleError as error:
                missing = str(error)
    logger.info("plan for %s on %s: %d settings fit", sized.name, machine.name, len(found))
    if not found:
        hint = what_fits(setting, model, bits, lambda other, _: check_fits(other, None))
        raise InfeasibleError(f"{missing}; {hint}")
    rows = [(_row(one, goal), one) for one in found]
    rows.sort(key=lambda pair: (pair[0].score, -(pair[1].prompt_tokens_per_s or 0.0)))
    taken = rows[0][1]
    notes = taken.notes
    if asked is None and taken.setting.kv != ("f16", "f16"):
        notes += ("the KV cache is in q8_0, which costs little; --kv-bits f16 keeps all bits",)
    best = rows[0][0]
    assert isinstance(best.decision, Plan)  # noqa: S101
    report = PlanReport(
        "layers",
        goal,
        tuple(row for row, _ in rows),
        notes=notes,
        command=taken.command,
        more=taken.first()
        | {
            "machine": machine.name,
            "model": sized.name,
            "certainty": taken.certainty,
            "plan": best.decision.model_dump(mode="json"),
        },
    )
    lines = _lines(report, [one for _, one in rows])
    return replace(report, lines=tuple(lines))


def _row(one: Prediction, goal: Goal) -> Row:
    """Return a prediction as a candidate, with its residents and times as a plan file has them."""
    setting, blocks = one.setting, one.n_cpu_moe or 0
    machine, model, depth, times = setting.machine, setting.shape, setting.context.depth, Times()
    every = tuple(range(model.routed_experts))
    if machine.gpus and machine.nodes:
        costs = priced(machine, model, setting.runtime, depth).costs(model)
        times = times_of_step(costs, 1, depth, RUNTIME_QUANTUM_NS)
    resident = tuple(() if layer < blocks else every for layer in model.moe_layers)
    plan = Plan(name="layers", resident=resident, times=times)
    kept = {use.name: {part: n / MIB for part, n in use.parts.items()} for use in one.uses}
    kind = "own" if setting.kv is None else setting.kv[0]
    name = f"--n-cpu-moe {blocks}, cache {kind}, ubatch {setting.ubatch}"
    tight = any(use.missing for use in one.uses)
    return Row(name, setting, plan, goal.seconds(one.speeds[0]), one.speeds, kept, not tight)


def _lines(report: PlanReport, found: Sequence[Prediction]) -> Iterator[str]:
    """Yield the page: the candidates, and of the first one speeds, memory and command."""
    taken = found[0]
    setting = taken.setting
    yield (
        f"{setting.model.name} on {setting.machine.name}, {setting.runtime},"
        f" {setting.context.in_words()}: no counts, so whole layers"
    )
    yield f"the best first, for {report.goal.in_words()}:"
    yield "  KV bits ubatch on CPU  tokens/s              80 %  prompt/s"
    for one in found:
        bits, ubatch = one.setting.shape.kv_widths[0], one.setting.ubatch
        speed, off = one.speeds[0], one.n_cpu_moe or 0
        yield (
            f"  {bits:7g} {ubatch:6} {off:6} {speed.decode:9g} {speed.within:>17}"
            f" {speed.prompt or 0:9g}"
        )
    yield "the first one:"
    yield from speeds_in_words(taken.speeds)
    yield f"  {taken.expect}"
    for use in taken.memory.values():
        yield f"  {use}"
    if taken.command is not None:
        yield f"  {taken.command}"
    if taken.n_cpu_moe and setting.machine.gpus:
        yield (
            "a runtime that places single experts (ktransformers) gains by counting which are hot:"
            " llama-imatrix -m MODEL.gguf -f TEXT -o counts.gguf, then"
            " moeopt plan ... --counts counts.gguf"
        )
