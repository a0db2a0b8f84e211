"""Making a plan from beginning to end: what is checked before anything is solved comes first."""

from dataclasses import asdict, dataclass, replace

from moeopt.core.logs import logger_of
from moeopt.core.units import GIB
from moeopt.problems.placement.instance import Instance as Placement
from moeopt.sim.costs.runtime import Priced, priced
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.kv_types import kv_bits_of
from moeopt.sim.machines.runtimes.memory import (
    HOST_LEAST_GIB,
    buffer_bytes,
    host_gib,
    host_reserved_bytes,
    is_stated,
    reserved_bytes,
)
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.plan import Plan
from moeopt.sim.traces.of_model import check_trace
from moeopt.sim.traces.trace import Trace
from moeopt.solvers.limits import Deadline

from .bits import Losses, check_average, losses, model_at
from .budget import HostMemory, check_memory, host_memory, memory
from .candidates import Candidate, Search, best_of
from .defaults import Default, defaults
from .executed import Comparison, compared, known_steps, loads_of
from .jointly import Jointly, jointly
from .options import PlanOptions
from .request import Request
from .routing import Routing, counts_known, notes
from .verdict import Verdict, verdict

logger = logger_of(__name__)


def check(request: Request) -> None:
    """Raise unless a plan can be made at all.

    Raises
    ------
    InputError
        If the trace is of another model, or options contradict each other.
    InfeasibleError
        If something does not fit into memory, whatever is decided.
    """
    check_average(
        request.average_bits,
        request.bits,
        request.loss_table,
        budget=request.quality_loss is not None,
    )
    if isinstance(request.trace, Trace):
        check_trace(request.trace, request.model)
    check_memory(request)


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
        return verdict(self.comparisons, self.request.runtime)

    def __repr__(self) -> str:
        r = self.request
        chosen = f"{self.candidates} candidates, {len(self.comparisons)} plans compared"
        return f"<plan for {r.model.name} on {r.machine.name}: {chosen}, {self.seconds:.1f} s>"

    def to_dict(self) -> dict[str, object]:
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
            "context": r.cache.allocated,
            "depth": r.cache.depth,
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
            "losses": None if self.losses is None else asdict(self.losses),
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
            "joint": None if self.together is None else self.together.to_dict(self.chosen.kept),
            "candidates": self.candidates,
            "seconds": round(self.seconds, 3),
            "plan": self.chosen.plan.model_dump(mode="json"),
        }


def request_of(
    machine: Machine, shape: ModelShape, routing: Routing, asked: PlanOptions
) -> Request:
    """Return the options with what machine, model and runtime say where they do not."""
    chosen_from = asked.average_bits is not None or asked.quality_loss is not None
    width = None if asked.quality_loss is not None else asked.bits
    cache = None if asked.kv_bits is None else kv_bits_of(asked.kv_bits)
    model = model_at(shape, width, asked.average_bits, asked.other_bits, cache)
    timed = priced(machine, model, asked.runtime, asked.cache.depth)
    room, host = asked.reserved_gib, asked.host_reserved_gib
    known = vars(asked) | {
        "reserved_gib": _reserved_gib(timed, model) if room is None else room,
        "host_reserved_gib": _host_reserved_gib(machine) if host is None else host,
        "bits": asked.bits if chosen_from else None,
    }
    known |= {"runtime": timed.runtime, "expect": timed.expect, "by_file": machine}
    known |= {"overheads": timed.overheads}
    return Request(machine=timed.machine, model=model, trace=routing, **known)


def _reserved_gib(timed: Priced, model: ModelShape) -> float:
    """Return what the GPU keeps free, so that its sum is that of `moeopt.predict`.

    What the runtime takes for itself and its buffers, less the embedding, which runtimes keep in
    host memory and the problems count among what is dense.
    """
    kept = reserved_bytes(timed.machine, timed.runtime) + buffer_bytes(model, timed.runtime)
    return max(0.0, (kept - model.bytes_of("embedding")) / GIB)


def _host_reserved_gib(machine: Machine) -> float:
    """Return what the host's system keeps."""
    if not is_stated(machine):
        return HOST_LEAST_GIB
    return host_reserved_bytes(int(host_gib(machine) * GIB)) / GIB


def carried_out(request: Request, default: str | None = None) -> Planned:
    """Return the plan of a request.

    Parameters
    ----------
    default
        Where its routing comes from, if that was not asked for.

    Raises
    ------
    MoeoptError
        As `moeopt.plan`.
    """
    check(request)
    name = f"plan for {request.model.name} on {request.machine.name}"
    logger.info("%s: it can fit; %s tells the routing", name, request.trace.name)
    deadline = Deadline(request.seconds)
    kept, rest = request.parts()
    loads, later = loads_of(request, kept), loads_of(request, rest, request.most_held_out)
    removed = (kept.facts or {}).get("deduped", {}).get("removed", 0)
    joint_s = request.joint_limit_s if request.runs.single_experts else 0.0
    left = 1.0 - joint_s / request.seconds
    work = request.work_limit
    separately = replace(
        request,
        time_limit_s=request.seconds - joint_s,
        work_limit=None if work is None else left * work,
        joint_time_s=None,
    )
    search = Search(separately, kept, loads)
    found = []
    for candidate in search.candidates():
        found.append(candidate)
        late = deadline.elapsed_s > search.request.seconds  # executing them takes time, too
        if late and request.work_limit is None:
            break
    in_turn = found[0]
    best = best_of(found).kept.mean_ms
    logger.info("%s: %d candidates decided one by one, the best %.4g ms", name, len(found), best)
    together = None
    if joint_s > 0:
        together = jointly(request, kept, loads, search.times, search.widths)
        logger.info("%s: decided jointly: %s", name, together.decision.says)
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
    logger.info("%s: %d plans executed on held-out steps", name, len(plans))
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
        notes=notes(request.trace, request.batch, default) + _barred(request),
    )


def _barred(request: Request) -> tuple[str, ...]:
    """Return what of the machine is left out, and what the runtime cannot run, as notes."""
    said: tuple[str, ...] = ()
    if request.machine.taken_as_one is not None:
        said += (f"{request.machine.taken_as_one}; moeopt.plan has all",)
    if request.runtime is not None and (
        request.average_bits is not None or request.quality_loss is not None
    ):
        said += (f"{request.runtime} has no widths of single experts: times are as if it had",)
    return said


def _placement(chosen: Candidate, search: Search) -> Placement:
    """Return the placement instance of the plan's own widths."""
    made = {decision.name: decision.instance for decision in chosen.decisions}
    own = made.get("residency") if "jointly" in made else None
    return own if isinstance(own, Placement) else search.whole


def _named(plan: Plan, name: str) -> Plan:
    return plan.model_copy(update={"name": name})
