"""Predictions and plans for any machine: with one GPU and one memory node, or with several.

`moeopt.predict` and `moeopt.plan`, and the commands of these names: what the command prints is what
the function returns.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING

from moeopt.core.errors import InputError, expect
from moeopt.core.options import takes, with_given
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.memory import WITH_GRAPH
from moeopt.sim.machines.runtimes.options import PredictOptions
from moeopt.sim.machines.runtimes.predict import Prediction
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import published_as
from moeopt.sim.plan import Plan
from moeopt.sim.presets import get_machine, get_model
from moeopt.sim.traces.given import as_counts
from moeopt.sim.traces.trace import Counts
from moeopt.sim.traces.workload import Workload

from .asked import predict_asked
from .options import OF_ALL, OF_LAYERS, OF_LIMITS, OF_SEARCHES, PlanOptions, SeveralOptions
from .report import PlanReport, Strategy

if TYPE_CHECKING:
    from .routing import Routing
    from .split import SplitPrediction


OF_PROMPTS = ("counts", "where")
"""What is given of the routing that whole layers over several devices have a use for."""


def has_several(machine: Machine) -> bool:
    """Tell whether a machine has several GPUs or memory nodes."""
    return len(machine.gpus) > 1 or len(machine.nodes) > 1


@takes(PredictOptions)
def predict(
    machine: Machine | str | Path,
    model: ModelShape | str | Path,
    *,
    flags: str | Sequence[str] | None = None,
    options: PredictOptions | None = None,
    **given: object,
) -> "Prediction | SplitPrediction":
    """Predict the decode speed of a runtime on a machine, one sequence at a time.

    Parameters
    ----------
    machine, model
        Or their names or files (`get_machine`, `get_model`).
    flags
        A command line's flags, which say where layers and experts lie; by default the runtime's own
        fit.
    options
        What else may be said; `moeopt.sim.machines.runtimes.options.PredictOptions` explains it.
    **given
        Fields of these options by keyword, in place of `options` or changing some of them.

    Returns
    -------
    Prediction or SplitPrediction
        With an 80 % interval from points outside the fit. With several GPUs or memory nodes, or by
        flags, what lies where as well; both have `tokens_per_s`, `low`, `high`,
        `prompt_tokens_per_s`, `n_cpu_moe`, `bottleneck`, `command`, `notes` and `to_dict`.

    Raises
    ------
    InputError
        If a name is unknown, or the machine cannot run the setting.
    InfeasibleError
        If it does not fit: the message says how many MiB are missing, and the nearest quantisation
        that fits.

    Notes
    -----
    A token takes the sum of the terms in `moeopt.sim.costs.terms`: bytes over measured
    bandwidths, operations over rates, and fixed times per token, layer, layer with experts on the
    CPU and such expert. Costs of the terms: those of a calibration where the machine has one, else
    of the runtime's profile, fitted to public measurements (docs/measured.md).

    Examples
    --------
    >>> import moeopt
    >>> found = moeopt.predict("rtx4090+epyc-9004", "glm-4.5-air", bits="Q4_K_M", context=4096)
    >>> found.low < found.tokens_per_s < found.high, found.certainty
    (True, 'not calibrated')
    >>> moeopt.predict("2xrtx3090+epyc-9004", "glm-4.5-air", bits="Q4_K_M").solution.attention[0]
    0
    """
    wanted = with_given(PredictOptions, options, given)
    machine = get_machine(machine) if isinstance(machine, str | Path) else machine
    expect("machine", machine, Machine, what="a machine, its name or file")
    if isinstance(model, str | Path):
        if wanted.path is None and str(model).endswith(".gguf"):
            wanted = replace(wanted, path=str(model))
        model = get_model(model)
    expect("model", model, ModelShape, what="a model, its name or file")
    if wanted.bits is None and wanted.runtime in WITH_GRAPH and (known := published_as(model)):
        found = predict(machine, model, flags=flags, options=replace(wanted, bits=known))
        return replace(found, notes=(*found.notes, _as_published(model, known)))
    owned = machine if wanted.gpus is None else machine.with_gpus(wanted.gpus)
    by_experts = wanted.plan is not None or wanted.gpu_experts is not None
    if by_experts and flags is not None:
        raise InputError("not with --plan or --gpu-experts", field="--flags")
    if not isinstance(wanted.plan, Plan | None):  # whole layers over several devices
        from .by_flags import predict_wanted

        return predict_wanted(owned, model, wanted, None)
    if flags is None and (by_experts or not has_several(owned) or wanted.runtime not in WITH_GRAPH):
        return predict_asked(owned, model, wanted)
    expect("flags", flags, str, list, tuple, NoneType, what="text or words")
    words = _words(flags) if isinstance(flags, str) else flags
    for word in words or ():
        expect("flags", word, str, what="text or words")
    from .by_flags import predict_wanted

    return predict_wanted(owned, model, wanted, words)


def _words(flags: str) -> list[str]:
    """Return the words of a command line; a backslash ends a line that goes on."""
    try:
        return shlex.split(re.sub(r"\\\r?\n", " ", flags))
    except ValueError as error:
        raise InputError(f"{error}: {flags!r:.60}", field="--flags") from None


@takes(PlanOptions)
def plan(
    machine: Machine | str | Path,
    model: ModelShape | str | Path,
    trace: "Routing | str | Path | None" = None,
    *,
    counts: Counts | str | Path | None = None,
    workload: Workload | str | Path | None = None,
    options: PlanOptions | None = None,
    several: SeveralOptions | None = None,
    strategy: Strategy | None = None,
    **given: object,
) -> PlanReport:
    """Plan where a model lies on a machine, and predict how fast it runs.

    By one of three strategies, which follows from what is given:

    - ``devices``, on a machine with several GPUs or memory nodes: which layers' attention and
      experts lie where, by the runtime's times alone, without a trace; `counts` say which experts
      a prompt activates, layer by layer;
    - ``layers``, where nothing is known of the routing: how many layers' experts the CPU computes,
      the KV cache's type and the ubatch, of llama.cpp;
    - ``experts``, with a trace, counts or a workload: residents, cache ways, deferral and bits of
      single experts. The decisions are those of the problems placement, cache, deferral and
      bitwidth, solved exactly on the kept part of the trace; `candidates` says how they are
      combined. What comes of it is executed by the event engine on held-out steps, next to what
      runtimes do by default.

    Parameters
    ----------
    machine, model
        Objects, names of presets (``moeopt list machines``) or JSON files.
    trace
        A trace or its file; counts, a workload or their file instead.
    counts
        How often each expert was used, or the file, in any format of `moeopt.load_counts`. Steps
        are drawn from them. Caches, deferral and hold-outs need more than counts and are left out.
    workload
        A preset (``moeopt list workloads``) or a JSON file, from whose popularities steps are
        drawn. Its experts are made up, and so would be their order: caches are left out.
    options
        What else may be said; `moeopt.planner.options.PlanOptions` explains every field. One of
        single experts, such as `batch`, asks for that strategy.
    several
        What may be said of several GPUs or memory nodes; `moeopt.planner.options.SeveralOptions`.
    strategy
        In place of the one that follows; ``experts`` without any routing takes the model's default
        workload.
    **given
        Fields of `options` by keyword, in its place or changing some of them.

    Returns
    -------
    PlanReport
        Candidates, the best by the goal first, with speeds at several depths; what the runtimes do
        by themselves; what other memories would bring; the command that runs it. Of single experts,
        `experts` has all decisions, executed on the steps decided on and on held-out ones.

    Raises
    ------
    InputError
        If trace, model and machine do not fit each other, or an option is wrong or would change
        nothing.
    InfeasibleError
        If something does not fit into the memory of GPU and host, whatever is decided: the message
        says how much is missing, and which options would make it fit. Both are checked before
        anything is solved.
    LimitError
        If nothing was found within the limit.

    Examples
    --------
    >>> import moeopt
    >>> from moeopt.sim.presets import find
    >>> from moeopt.sim.traces.synthetic import routing_trace
    >>> from moeopt.sim.traces.workload import Workload
    >>> workload = find("workloads", Workload, "hdmoe-mixtral")
    >>> trace = routing_trace(workload, experts=8, top_k=2, layers=32, tokens=8, seed=3)
    >>> report = moeopt.plan("rtx4090-7960x", "mixtral-8x7b", trace, steps=2, joint_time_s=0)
    >>> len(report.best.decision.resident)  # one entry per layer
    32
    >>> moeopt.plan("rtx4090-7960x", "mixtral-8x7b", bits="Q4_K_M")
    <plan by layers: --n-cpu-moe 8, cache q8_0, ubatch 512, 4 candidates>
    """
    expect("strategy", strategy, str, NoneType, what="the name of a strategy")
    owned, asked = get_machine(machine), with_given(PlanOptions, options, given)
    more = with_given(SeveralOptions, several, {})
    loads = {"trace": trace, "counts": counts, "workload": workload}
    said = [name for name, value in loads.items() if value is not None]
    chosen = strategy_for(owned, asked, more, said, strategy)
    shape = get_model(model)
    if chosen != "experts" and asked.bits is None and (known := published_as(shape)):
        again = replace(asked, bits=known)
        report = plan(owned, shape, options=again, several=more, strategy=chosen)
        return replace(report, notes=(*report.notes, _as_published(shape, known)))
    if chosen == "layers":  # imported when it is their turn: launchers wait for it
        from .layers import plan_layers

        return plan_layers(owned, shape, asked, more)
    if chosen == "experts":
        from .experts import report_of
        from .planned import carried_out, request_of
        from .routing import routing_of

        routing, default = routing_of(trace, counts, workload, shape)
        return report_of(carried_out(request_of(owned, shape, routing, asked), default))
    from .devices import WORK, plan_devices, wished

    expect("counts", counts, str, Path, Counts, NoneType, what="counts or a file")
    setting, wish = wished(owned, shape, asked, more, as_counts(counts))
    return plan_devices(setting, wish, asked.limits_or(WORK), path=more.path, backend=more.backend)


def _as_published(model: ModelShape, bits: str) -> str:
    return f"{model.name}: no bits are asked for: as its files are published, --bits {bits}"


def strategy_for(
    machine: Machine,
    options: PlanOptions,
    several: SeveralOptions,
    said: Sequence[str] = (),
    asked: Strategy | None = None,
    called: Callable[[str], str] = str,
) -> Strategy:
    """Return how a plan is made, from what is given.

    Parameters
    ----------
    said
        What was given that is of single experts, such as a trace.
    asked
        The strategy that is asked for.
    called
        How an option is called, from its name here.

    Raises
    ------
    InputError
        If the strategy asked for does not go with the machine, or an option changes nothing.
    """

    def refuse(names: Iterable[str], reason: str) -> None:
        for name in names:
            raise InputError(reason, field=called(name))

    many, name = has_several(machine), machine.name
    single = [*said, *(one for one in options.given if one not in OF_ALL)]
    if many:
        have = f"{name} has several, over which whole layers are split"
        others = (one for one in single if one not in OF_PROMPTS)
        refuse(others, f"needs one GPU and one node; {have}")
    else:
        others = (one for one in several.given if one not in OF_LAYERS)
        refuse(others, f"needs several GPUs or nodes; {name} has one each")
    found: Strategy = "devices" if many else "experts"
    if not (many or single) and options.runtime in (None, *WITH_GRAPH):
        found = "experts" if asked == "experts" else "layers"
    if asked not in (None, found):
        what = "several GPUs or nodes" if many else "one GPU and one node"
        more = f" and {', '.join(single)}" if single else ""
        raise InputError(f"must be {found} for {what}{more}, not {asked!r:.40}", field="strategy")
    limits, searches = (
        [one for one in options.given if one in of] for of in (OF_LIMITS, OF_SEARCHES)
    )
    if found == "layers":
        refuse(limits, "has no effect: nothing is searched for")
    if found == "experts":
        refuse(several.given, "has no effect on plans of single experts")
    else:
        one_way = "which one exact method places from times alone"
        refuse(searches, f"has no effect on whole layers, {one_way}")
    return found
