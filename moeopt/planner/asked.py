"""Predictions as options ask for them: the setting, the placement, and what fits instead."""

from collections.abc import Callable
from dataclasses import replace

from moeopt.core.errors import InfeasibleError, InputError
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.kv_types import kv_pair
from moeopt.sim.machines.runtimes.options import PredictOptions
from moeopt.sim.machines.runtimes.placement import Placement
from moeopt.sim.machines.runtimes.predict import Prediction, check_fits, predict
from moeopt.sim.machines.runtimes.profile import get_runtime
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import at_bits, narrower
from moeopt.sim.plan import Plan

LEAST_POWER = 10
"""Of two: no smaller context is proposed."""


def predict_asked(machine: Machine, model: ModelShape, options: PredictOptions) -> Prediction:
    """Predict what options ask for, all GPUs taken as one and all nodes as one.

    Raises
    ------
    InputError
        If the machine cannot run the setting.
    InfeasibleError
        If it does not fit: with the nearest quantisation that fits.
    """
    if options.n_cpu_moe is not None and not machine.gpus:
        raise InputError(
            f"has no effect: {machine.name} has no GPU, its CPU computes all blocks",
            field="n_cpu_moe",
        )
    setting = Setting(
        machine,
        model if options.bits is None else at_bits(model, options.bits),
        options.runtime,
        options.cache,
        kv=kv_pair(options.kv_bits, options.runtime),
        ubatch=options.ubatch,
        threads=options.threads,
        numa=get_runtime(options.runtime).numa,
        runtime_date=options.runtime_date,
    )
    try:
        return predict(
            setting,
            _placement(setting, options),
            options.popularity,
            prompt=options.prompt,
            path=options.path,
            assumed=_assumed(options),
            measured=options.measured,
        )
    except InfeasibleError as error:

        def check(other: Setting, _: str | None) -> None:
            check_fits(other, _placement(other, options))

        hint = what_fits(setting, model, options.bits, check)
        raise InfeasibleError(f"{error}; {hint}") from None


def _placement(setting: Setting, options: PredictOptions) -> Placement | None:
    """Return where the options have the experts; None: as the runtime fits them."""
    if options.gpu_experts is not None:
        return Placement.of_number(setting, options.gpu_experts)
    if isinstance(options.plan, Plan):
        return Placement.of_plan(setting, options.plan)
    return None if options.n_cpu_moe is None else Placement.of_blocks(setting, options.n_cpu_moe)


def _assumed(options: PredictOptions) -> tuple[str, ...]:
    """Return what is assumed of a placement, in words."""
    equally = "experts are taken to be called equally often"
    if options.gpu_experts is not None:
        return (equally,)
    ways = sum(options.plan.cache_ways) if isinstance(options.plan, Plan) else 0
    alike = options.plan is not None and options.popularity is None
    notes: tuple[str, ...] = (equally,) if alike else ()
    if ways:
        notes += (f"{ways} places of caches in the plan are left out: no runtime has them here",)
    return notes


def what_fits(
    setting: Setting,
    model: ModelShape,
    bits: str | float | None,
    check: Callable[[Setting, str | None], object],
    *,
    contexts: bool = True,
) -> str:
    """Return in words with what it fits: the widest quantisation, else the largest context.

    Parameters
    ----------
    model, bits
        As asked for.
    check
        Raises InfeasibleError where a setting does not fit; takes its quantisation as well, None
        for that which was asked for.
    contexts
        Whether smaller contexts are tried, powers of two.
    """

    def fits(changed: Setting, name: str | None) -> bool:
        try:
            check(changed, name)
        except InfeasibleError:
            return False
        return True

    for name in narrower(model, bits, setting.runtime):
        if fits(replace(setting, model=at_bits(model, name)), name):
            return f"it fits with --bits {name}"
    asked = setting.context
    for power in range(asked.allocated.bit_length() - 1, LEAST_POWER - 1, -1):
        smaller = Context(min(asked.depth, tokens := 1 << power), tokens)
        if contexts and tokens < asked.allocated and fits(replace(setting, context=smaller), None):
            return f"no quantisation fits, but --context {tokens} does"
    return "no quantisation fits"
