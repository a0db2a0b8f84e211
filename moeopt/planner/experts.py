"""Reports of plans of single experts, as of all other strategies."""

from moeopt.core.units import MIB
from moeopt.sim.costs.interval import within
from moeopt.sim.costs.runtime import priced
from moeopt.sim.machines.runtimes.profile import get_runtime
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.machines.runtimes.speeds import Speed, depths_of, four_digits
from moeopt.sim.plan import times_of_step

from .executed import Comparison
from .goal import DECODING
from .page import page
from .planned import Planned
from .report import Bracket, PlanReport, Row
from .request import Request


def report_of(planned: Planned) -> PlanReport:
    """Return the report of a finished plan: scores are ms of a step that was not decided on."""
    request = planned.request
    setting = Setting(request.machine, request.model, request.runtime or "llama.cpp", request.cache)
    mine = [one for one in planned.comparisons if one.default is None]
    theirs = [one for one in planned.comparisons if one.default is not None]
    rows = [_row(planned, one, setting) for one in mine]
    rows[1:] = sorted(rows[1:], key=lambda row: row.score)
    result = planned.chosen.decisions[0].result if planned.chosen.decisions else None
    return PlanReport(
        "experts",
        DECODING,
        tuple(rows),
        None if result is None else Bracket.of(result, f"of {result.problem}"),
        tuple(_row(planned, one, setting) for one in theirs),
        notes=planned.notes,
        instance=planned.placement,
        more=planned.to_dict(),
        lines=tuple(page(planned).splitlines()),
        experts=planned,
    )


def _row(planned: Planned, one: Comparison, setting: Setting) -> Row:
    """Return a plan that was executed as a candidate."""
    memory = {name: size / MIB for name, size in planned.memory.items() if name != "total"}
    host = planned.host
    kept = {"GPU memory": memory}
    if not host.shared:
        kept["host memory"] = {"experts": host.experts / MIB, "reserved": host.reserved / MIB}
    note = "" if one.default is None else one.default.flags
    return Row(
        one.plan.name, setting, one.plan, one.later.mean_ms, _speeds(planned, one), kept, note=note
    )


def _speeds(planned: Planned, one: Comparison) -> tuple[Speed, ...]:
    """Return the speeds at several depths; other depths change nothing but attention."""
    request = planned.request
    if one.default is not None:
        request = request.timed_as(one.default.runtime)
    found, batch = list[Speed](), request.batch
    runtime, ways = request.runtime, 1.0
    if runtime is not None:
        profile = get_runtime(runtime)
        known = Setting(request.machine, request.model, runtime, request.cache, numa=profile.numa)
        rows = one.plan.resident or ((),) * len(request.model.moe_layers)
        shares = [1.0 - len(row) / request.model.routed_experts for row in rows]
        ways = within(known, shares).factor
    base = _attention_ns(request, request.cache.depth)
    for depth in depths_of(request.cache):
        more_ms = (_attention_ns(request, depth) - base) / 1e6
        speed = batch * 1e3 / (one.later.mean_ms + more_ms)
        low, high = (None, None) if runtime is None else (speed / ways, speed * ways)
        found.append(
            Speed(
                depth,
                four_digits(speed),
                None if low is None else four_digits(low),
                None if high is None else four_digits(high),
            )
        )
    return tuple(found)


def _attention_ns(request: Request, depth: int) -> int:
    """Return what of a step is no routed expert, with so many tokens in the cache."""
    costs, model = request.costs, request.model
    if request.by_file is not None and request.runtime is not None:
        costs = priced(request.by_file, model, request.runtime, depth).costs(model)
    times = times_of_step(costs, request.batch, depth, request.quantum_ns)
    return times.step_ns + len(model.moe_layers) * (times.attention_ns[0] + times.other_ns[0])
