"""Making a plan from beginning to end."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from moeopt.problems.placement.instance import Instance as Placement
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.applied import Priced, priced
from moeopt.sim.machines.runtimes.memory import (
    GIB,
    HOST_LEAST_GIB,
    buffer_bytes,
    host_reserved_bytes,
    kv_bits_of,
    kv_bytes,
    reserved_bytes,
)
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.plan.schema import Plan
from moeopt.sim.presets import get_machine, get_model
from moeopt.sim.traces.trace import Counts, Trace
from moeopt.sim.traces.workload import Workload
from moeopt.solvers.limits import Deadline

from .bits import Losses, losses, model_at
from .budget import HostMemory, host_memory
from .candidates import Candidate, Search, best_of
from .checks import check
from .comparison import Comparison, compared
from .defaults import Default, defaults
from .jointly import Jointly, jointly
from .predict import known_steps, loads_of
from .request import Request
from .residency import memory
from .routing import counts_known, notes, routing_of
from .verdict import Verdict, verdict


@dataclass(frozen=True)
class Planned:
    """A finished plan.

    Attributes
    ----------
    chosen
        The plan and its decisions.
    comparisons
        It, the best that defers nothing, the best without caches, that of decisions taken one after
        the other, and the runtimes' defaults: what each restriction costs.
    memory, host
        What the memory of the GPU and of the host goes to, in bytes.
    losses
        What the widths of single experts lose; None where all have the model's.
    removed_tokens
        Tokens that were left out of the trace, as they lie in runs that occurred before.
    known_steps
        Held-out steps that put the same load on every expert as one that was decided on.
    placement
        The placement instance with all of the room for residents.
    together
        The problem joint on the same steps, with a bound on every plan; None if that was not asked
        for.
    candidates
        How many plans the engine has executed to choose it.
    notes
        What must be known of steps that are no recording but drawn from counts or a workload.
    """

    request: Request
    chosen: Candidate
    comparisons: tuple[Comparison, ...]
    memory: dict[str, int]
    host: HostMemory
    losses: Losses | None
    removed_tokens: int
    known_steps: int
    placement: Placement
    together: Jointly | None
    candidates: int
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def average_bits(self) -> float | None:
        """Mean width of the experts, if each has one of its own."""
        widths = self.chosen.plan.bits
        if self.request.average_bits is not None or widths is None:
            return self.request.average_bits
        return sum(map(sum, widths)) / sum(map(len, widths))

    @property
    def verdict(self) -> Verdict | None:
        """What the plan is worth beside the defaults on held-out steps."""
        return verdict(self.comparisons)

    def __repr__(self) -> str:
        r = self.request
        chosen = f"{self.candidates} candidates, {len(self.comparisons)} plans compared"
        return f"<plan for {r.model.name} on {r.machine.name}: {chosen}, {self.seconds:.1f} s>"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values; `plan` is a plan file for ``moeopt simulate``."""
        r = self.request
        return {
            "machine": r.machine.name,
            "model": r.model.name,
            "trace": r.trace.name,
            "routing": type(r.trace).__name__.lower(),
            "notes": list(self.notes),
            "expect": r.expect,
            "batch": r.batch,
            "context": r.context,
            "average_bits": r.average_bits,
            "max_deferred": r.most_deferred,
            "removed_tokens": self.removed_tokens,
            "known_steps": self.known_steps,
            "gpu_memory_bytes": self.memory,
            "host_memory_bytes": self.host.to_dict(),
            "gpu_slots": self.placement.gpu_slots,
            "decisions": [decision.to_dict() for decision in self.chosen.decisions],
            "deferred": self.chosen.deferred,
            "bits": r.model.bits_in_words(experts=self.average_bits),
            "quality_loss": r.quality_loss,
            "losses": None if self.losses is None else self.losses.to_dict(),
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
            "joint": None if self.together is None else self.together.to_dict(self.chosen.kept),
            "candidates": self.candidates,
            "seconds": round(self.seconds, 3),
            "plan": self.chosen.plan.model_dump(mode="json"),
        }


def plan(
    machine: Machine | str | Path,
    model: ModelShape | str | Path,
    trace: Trace | Counts | Workload | str | Path | None = None,
    *,
    counts: Counts | str | Path | None = None,
    workload: Workload | str | Path | None = None,
    batch: int = 1,
    context: int = 512,
    steps: int | None = None,
    decide_steps: int | None = None,
    hold_out_steps: int | None = None,
    held_out: float | None = None,
    keep_repeats: bool = False,
    reserved_gib: float | None = None,
    host_reserved_gib: float | None = None,
    max_deferred: int | None = None,
    average_bits: float | None = None,
    bits: str | float | None = None,
    other_bits: float | None = None,
    kv_bits: str | float | None = None,
    loss_table: Path | None = None,
    runtime: str | None = None,
    quality_loss: float | None = None,
    joint_time_s: float | None = None,
    time_limit_s: float = 60.0,
    work_limit: float | None = None,
    workers: int = 1,
    seed: int = 0,
) -> Planned:
    """Decide residents, cache ways, deferral and bits, and predict what they are worth.

    The decisions are those of the problems placement, cache, deferral and bitwidth, solved exactly
    on the kept part of the trace; `candidates` says how they are combined. What comes of it is
    executed by the event engine on held-out steps, next to what runtimes do by default.

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
        drawn; with none of the three the model's default one. Its experts are made up, and so would
        be their order: caches are left out.
    batch, context
        Tokens in a step, and tokens in the KV cache of each of them.
    steps
        Most steps that are decided on, and most that are held out; None: 1000 and 500.
    decide_steps, hold_out_steps
        The one or the other alone; by default `steps`.
    held_out
        Share of the trace that is held out; None: 0.3. Counts and workloads have no trace to
        hold out from: their plans are executed on steps drawn anew.
    keep_repeats
        Whether runs of tokens that occurred before stay in the trace, see `moeopt.find_repeats`;
        held-out steps may then equal steps that were decided on.
    reserved_gib, host_reserved_gib
        Memory of the GPU, and of the host, that stays free; None: what `moeopt.predict` counts for
        the runtime's context and buffers, and for the host's system.
    max_deferred
        Most experts of a layer that may be deferred, which changes the model's output; None: none.
        Never more than all but two of the model's top-k, the least that KTransformers keeps
        immediate (4.2).
    bits
        Bits per weight of the whole model, one number such as 4.5, or a quantisation by name such
        as "Q4_K_M" (``moeopt list quantisations``). With `average_bits`: the widths to choose from
        for each expert, comma-separated, by default "2,4,8,16".
    average_bits
        Bits per weight of the routed experts on average, and of everything else.
    other_bits
        Bits per weight of everything but the routed experts: attention, shared experts, dense
        layers, routers, embedding and head.
    kv_bits
        Bits of a number in the KV cache, or q8_0 and the like; the others leave it as it is.
    loss_table
        Measured losses at these widths (``moeopt losses``); without one those of random experts.
    runtime
        Whose times (``moeopt list runtimes``), as `moeopt.predict` has them; "machine": those that
        the machine's file states. None: a runtime that the machine was calibrated for, else what
        its file states, else llama.cpp.
    quality_loss
        Share of the layers' outputs that widths of experts and deferral together may lose, from 0
        to 1; `bits` are then the widths to choose from. Only what is decided at once has them.
    joint_time_s
        Of the time limit, what deciding everything at once may take (problem joint), which also
        proves how far ahead any plan could be; None: half of it; 0: nothing.
    time_limit_s, workers, seed
        For all solving together; threads; seed of everything random.
    work_limit
        In place of the time limit, units of work for all solving together: with it the same plan on
        every machine, busy or not.

    Returns
    -------
    Planned
        `chosen` with its plan, the other candidates and the runtimes' defaults, each with step
        latencies in ns on the steps decided on and on held-out ones.

    Raises
    ------
    MoeoptError
        If it cannot be done: exit code 2 if trace, model and machine do not fit each other or an
        option is wrong; 3 if something does not fit into the memory of GPU and host, whatever is
        decided: the message says how much is missing, and which options would make it fit. Both
        are checked before anything is solved.

    Examples
    --------
    >>> import moeopt
    >>> from moeopt.sim.presets import find
    >>> from moeopt.sim.traces.synthetic import routing_trace
    >>> from moeopt.sim.traces.workload import Workload
    >>> workload = find("workloads", Workload, "hdmoe-mixtral")
    >>> trace = routing_trace(workload, experts=8, top_k=2, layers=32, tokens=8, seed=3)
    >>> planned = moeopt.plan("rtx4090-7960x", "mixtral-8x7b", trace, steps=2, joint_time_s=0)
    >>> len(planned.chosen.plan.resident)  # one entry per layer
    32
    """
    known = machine if isinstance(machine, Machine) else get_machine(machine)
    shape = model if isinstance(model, ModelShape) else get_model(model)
    chosen_from = average_bits is not None or quality_loss is not None
    width = None if quality_loss is not None else bits
    cache = None if kv_bits is None else kv_bits_of(kv_bits)
    sized = model_at(shape, width, average_bits, other_bits, cache)
    timed = priced(known, sized, runtime)
    if reserved_gib is None:
        reserved_gib = _reserved_gib(timed, sized, batch, context)
    if host_reserved_gib is None:
        host_reserved_gib = _host_reserved_gib(known)
    routing, default = routing_of(trace, counts, workload, shape)
    request = Request(
        machine=timed.machine,
        model=sized,
        trace=routing,
        batch=batch,
        context=context,
        steps=steps,
        decide_steps=decide_steps,
        hold_out_steps=hold_out_steps,
        held_out=held_out,
        keep_repeats=keep_repeats,
        reserved_gib=_reserved_gib(timed, sized, batch, context)
        if reserved_gib is None
        else reserved_gib,
        host_reserved_gib=_host_reserved_gib(known)
        if host_reserved_gib is None
        else host_reserved_gib,
        max_deferred=max_deferred or 0,
        average_bits=average_bits,
        bits=str(bits) if chosen_from and bits is not None else None,
        other_bits=other_bits,
        loss_table=loss_table,
        expect=timed.expect,
        quality_loss=quality_loss,
        joint_time_s=joint_time_s,
        time_limit_s=time_limit_s,
        work_limit=work_limit,
        workers=workers,
        seed=seed,
    )
    return carried_out(request, default)


def _reserved_gib(timed: Priced, model: ModelShape, batch: int, context: int) -> float:
    """Return what the GPU keeps free, so that its sum is that of `moeopt.predict`.

    Context and buffers of the runtime and the least cache, less the embedding, which runtimes keep
    in host memory and the problems count among what is dense.
    """
    own = model.layers * batch * (model.kv_bytes(context) if context else 0)
    extra = max(0, kv_bytes(model, context) - own)
    buffers = buffer_bytes(model, timed.runtime)
    kept = reserved_bytes(timed.machine, timed.runtime) + buffers + extra
    return max(0.0, (kept - model.bytes_of("embedding")) / GIB)


def _host_reserved_gib(machine: Machine) -> float:
    """Return what the host's system keeps."""
    held = machine.dram.capacity_gb
    return HOST_LEAST_GIB if held is None else host_reserved_bytes(int(held * GIB)) / GIB


def carried_out(request: Request, default: str | None = None) -> Planned:
    """Return the plan of a request.

    Parameters
    ----------
    default
        Where its routing comes from, if that was not asked for.

    Raises
    ------
    MoeoptError
        As `plan`.
    """
    check(request)
    deadline = Deadline(request.time_limit_s)
    kept, rest = request.parts()
    loads, later = loads_of(request, kept), loads_of(request, rest, request.most_held_out)
    removed = (kept.facts or {}).get("deduped", {}).get("removed", 0)
    joint_s = request.joint_limit_s
    left_s = request.time_limit_s - joint_s
    separately = replace(request, time_limit_s=left_s, joint_time_s=None)
    if request.work_limit is not None:
        left = 1.0 - joint_s / request.time_limit_s
        separately = replace(separately, work_limit=left * request.work_limit)
    search = Search(separately, kept, loads)
    found = []
    for candidate in search.candidates():
        found.append(candidate)
        late = deadline.elapsed_s > search.request.time_limit_s  # executing them takes time, too
        if late and request.work_limit is None:
            break
    in_turn = found[0]
    together = None
    if joint_s > 0:
        together = jointly(request, kept, loads, search.times, search.widths)
        found += [together.candidate] if together.candidate is not None else []
    chosen = best_of(found)
    widths = next((one for one in chosen.decisions if one.name == "bits"), search.widths)
    whole = _placement(chosen, search)
    ours = [chosen.plan]
    if chosen.deferred:
        exact = [candidate for candidate in found if candidate.deferred == 0]
        ours += [_named(best_of(exact).plan, "nothing deferred")] if exact else []
    if any(chosen.plan.cache_ways):
        free = [candidate for candidate in found if not any(candidate.plan.cache_ways)]
        ours += [_named(best_of(free).plan, "without caches")] if free else []
    if in_turn is not chosen:
        ours.append(_named(in_turn.plan, "one decision after the other"))
    used = counts_known(request.trace, kept, request.model.routed_experts)
    plans: list[tuple[Plan, Default | None]] = [(one, None) for one in ours]
    plans += [(one.plan, one) for one in defaults(whole, chosen.plan, request.model, used)]
    return Planned(
        request=request,
        chosen=chosen,
        comparisons=tuple(compared(request, one, of, loads, later) for one, of in plans),
        memory=memory(request),
        host=host_memory(request),
        losses=None if widths is None else losses(request, widths, rest),
        removed_tokens=removed,
        known_steps=known_steps(loads, later),
        placement=whole,
        together=together,
        candidates=len(found),
        seconds=deadline.elapsed_s,
        notes=notes(request.trace, request.batch, default),
    )


def _placement(chosen: Candidate, search: Search) -> Placement:
    """Return the placement instance of the plan's own widths."""
    made = {decision.name: decision.instance for decision in chosen.decisions}
    own = made.get("residency") if "jointly" in made else None
    return own if isinstance(own, Placement) else search.whole


def _named(plan: Plan, name: str) -> Plan:
    return plan.model_copy(update={"name": name})
