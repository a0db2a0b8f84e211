"""Plans that need no counts: whole layers, the KV cache's type and the ubatch, for llama.cpp.

Without counts nothing is known of which experts are hot: layers are alike, and what is left to
decide are the layers on the CPU, which follow from memory, and what of the memory the cache and the
buffers take. That is a handful of settings, each priced as `moeopt.predict` prices it.
"""

from dataclasses import dataclass, replace

import numpy as np

from moeopt.core.errors import InfeasibleError, InputError
from moeopt.core.logs import logger_of
from moeopt.sim.costs.runtime import priced
from moeopt.sim.costs.threads import threaded
from moeopt.sim.costs.token import decode_us
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.kv_types import KvType, kv_type_of
from moeopt.sim.machines.runtimes.memory import WITH_GRAPH
from moeopt.sim.machines.runtimes.predict import Prediction, check_fits, predict
from moeopt.sim.machines.runtimes.profile import get_runtime
from moeopt.sim.machines.runtimes.setting import UBATCH, Setting
from moeopt.sim.machines.runtimes.speeds import four_digits, speeds_in_words
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import at_bits
from moeopt.sim.plan import Plan, Times, times_of_step
from moeopt.sim.presets import find, names
from moeopt.sim.traces.synthetic import routing_trace
from moeopt.sim.traces.workload import Workload

from .asked import nearest
from .options import PlanOptions
from .request import ORDERLESS
from .simulate import RUNTIME_QUANTUM_NS

logger = logger_of(__name__)

CACHES: tuple[KvType, ...] = ("f16", "q8_0")
"""Types of the cache that are tried where none is asked for; q8_0 costs little."""

UBATCHES = (UBATCH, 2048)
"""Larger ones read prompts faster and take memory from experts."""

DRAWN, DRAWN_LAYERS = 1024, 4
"""Tokens and layers that are drawn of a law to see what its hottest experts get."""


@dataclass(frozen=True)
class LayerPlan:
    """The settings that fit, and which is taken.

    Attributes
    ----------
    settings
        Predictions; the first is the one taken: the fastest with the cache of most bits and the
        ubatch of least memory.
    counting
        Least and most tokens/s, by known laws of popularity, if single experts were placed by
        counts in the memory that whole layers have now; None where all experts are on the GPU.
    laws
        Whose laws they are.
    """

    machine: str
    model: ModelShape
    settings: tuple[Prediction, ...]
    counting: tuple[float, float] | None
    laws: tuple[str, ...]

    @property
    def chosen(self) -> Prediction:
        """The prediction of the setting that is taken."""
        return self.settings[0]

    @property
    def plan(self) -> Plan:
        """The residents as a plan file has them, with the times at the depth asked for."""
        blocks, every = self.chosen.n_cpu_moe or 0, tuple(range(self.model.routed_experts))
        rows = tuple(() if layer < blocks else every for layer in self.model.moe_layers)
        setting = self.chosen.setting
        machine, depth, times = setting.machine, setting.context.depth, Times()
        if machine.gpus and machine.nodes:
            costs = priced(machine, setting.shape, setting.runtime, depth).costs(setting.shape)
            times = times_of_step(costs, 1, depth, RUNTIME_QUANTUM_NS)
        return Plan(name="layers", resident=rows, times=times)

    def to_dict(self) -> dict[str, object]:
        """Return everything as JSON values."""
        return {
            "machine": self.machine,
            "model": self.model.name,
            "settings": [
                {"kv_bits": one.setting.shape.kv_widths[0], "ubatch": one.setting.ubatch}
                | one.to_dict()
                for one in self.settings
            ],
            "counting": self.counting,
            "laws": list(self.laws),
            "plan": self.plan.model_dump(mode="json"),
        }


def plan_layers(machine: Machine, model: ModelShape, options: PlanOptions) -> LayerPlan:
    """Plan whole layers for llama.cpp or ik_llama.cpp, from memory alone.

    Of the options bits, kv_bits, context and runtime count.

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
    numa = get_runtime(name).numa
    setting = threaded(Setting(machine, sized, name, options.cache, numa=numa))
    found, missing = list[Prediction](), ""
    for kind in CACHES if asked is None else (asked,):
        for ubatch in UBATCHES:
            setting = replace(setting, kv=(kind, kind), ubatch=ubatch)
            try:
                found.append(predict(setting))
            except InfeasibleError as error:
                missing = str(error)
    logger.info("plan for %s on %s: %d settings fit", sized.name, machine.name, len(found))
    if not found:

        def with_bits(width: str) -> None:
            check_fits(replace(setting, model=at_bits(model, width)), None)

        raise InfeasibleError(f"{missing}; {nearest(model, bits, name, with_bits)}")
    counting: tuple[float, float] | None = None
    laws: tuple[str, ...] = ()
    if found[0].n_cpu_moe and machine.gpus:
        counting, laws = _counting(machine, sized, found[0])
    return LayerPlan(machine.name, sized, tuple(found), counting, laws)


def _counting(
    machine: Machine, model: ModelShape, taken: Prediction
) -> tuple[tuple[float, float], tuple[str, ...]]:
    """Return least and most tokens/s of ktransformers by known laws, and their names.

    The share of experts on the GPU stays; each layer has as many, the hottest ones.
    """
    off = sum(layer < (taken.n_cpu_moe or 0) for layer in model.moe_layers)
    share = 1.0 - off / len(model.moe_layers)
    speeds, laws = list[float](), list[str]()
    kt = "ktransformers"
    setting = Setting(machine, model, kt, taken.setting.context, numa=get_runtime(kt).numa)
    for name in names("workloads"):
        law = find("workloads", Workload, name)
        law = law.model_copy(update=ORDERLESS)
        made = routing_trace(law, model.routed_experts, model.top_k, DRAWN_LAYERS, DRAWN, 0)
        seen, later = made.step_counts(DRAWN // 2, experts=model.routed_experts).counts
        kept = round(share * model.routed_experts)
        hot = np.argsort(-seen, axis=1, kind="stable")[:, :kept]
        calls = float(1.0 - np.take_along_axis(later, hot, axis=1).sum() / later.sum())
        spent_us = decode_us(setting, (calls,) * len(model.moe_layers))
        speeds.append(four_digits(1e6 / spent_us))
        laws.append(name)
    return (min(speeds), max(speeds)), tuple(laws)


def page(found: LayerPlan) -> str:
    """Return a plan of whole layers for people."""
    taken = found.chosen
    lines = [
        f"{found.model.name} on {found.machine}, {taken.setting.runtime},"
        f" {taken.setting.context.in_words()}: no counts, so whole layers",
        "  KV bits ubatch on CPU  tokens/s            80 %  prompt/s",
    ]
    for one in found.settings:
        bits, ubatch = one.setting.shape.kv_widths[0], one.setting.ubatch
        within = f"{one.low:g} to {one.high:g}"
        lines.append(
            f"  {bits:7g} {ubatch:6} {one.n_cpu_moe or 0:6} {one.tokens_per_s:9g} {within:>15}"
            f" {one.prompt_tokens_per_s or 0:9g}"
        )
    lines += speeds_in_words(taken.speeds)
    lines += [f"  {taken.expect}", *(f"  {use}" for use in taken.memory.values())]
    lines.append(f"  {taken.command}")
    if found.counting is not None:
        low, high = found.counting
        most = max(0.0, high / taken.tokens_per_s - 1.0)
        least = max(0.0, low / taken.tokens_per_s - 1.0)
        lines.append(
            f"counting which experts are hot could bring {100 * least:+.0f} to {100 * most:+.0f} %"
            f" by known laws ({', '.join(found.laws)}), in a runtime that places single experts"
            " (ktransformers): llama-imatrix -m MODEL.gguf -f TEXT -o counts.gguf, then"
            " moeopt plan ... --counts counts.gguf"
        )
    return "\n".join(lines)
