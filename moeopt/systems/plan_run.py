"""Running decode steps: decide, time, tally.

What a simulation found out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.sim.engine.critical_path import critical_path
from moeopt.sim.engine.timeline import Timeline, Usage, usage
from moeopt.sim.plan import Extent, Plan, check_fits

from .clock import Begin, Clock, LayerWork
from .cost_table import CostTable
from .events import EventClock, resources
from .loads import Loads
from .migrations import link_names
from .plan_work import works
from .planned import Decider
from .walk import walk
from .work import Integers, LayerTimes, StepWork, joined, layer_times


@dataclass(frozen=True)
class Simulation:
    """Decode steps under a plan, as executed.

    Attributes
    ----------
    plan, machine, model
        Names.
    steps, layers, tokens
        Layers with experts that were executed; tokens of all steps together.
    model_layers
        How many layers with experts the model has: with fewer executed, latencies and rates are of
        these alone. The layers executed where no model is known.
    step_ns
        Latency of each step, shape (steps,): from its start until its last layer's output is
        complete, so that the next step may start.
    layer_ns
        Shape (steps, layers): from a layer's attention becoming ready to the next one's.
    makespan_ns
        When everything has ended; transfers may outlast the last step.
    usage
        Busy and idle time of every resource up to the makespan.
    experts_run
        Domain -> how many experts it ran, over all steps and layers.
    hits, misses, fetches
        Of the expert caches.
    migrations_done, migrations_missed, migrations_needless
        Made, left out because they did not fit their window, and asked for what was so already.
    timeline
        Every task, if asked for.
    """

    plan: str
    machine: str
    model: str
    steps: int
    layers: int
    model_layers: int
    tokens: int
    step_ns: NDArray[np.int64]
    layer_ns: NDArray[np.int64]
    makespan_ns: int
    usage: list[Usage]
    experts_run: dict[str, int]
    hits: int
    misses: int
    fetches: int
    migrations_done: int
    migrations_missed: int
    migrations_needless: int
    timeline: Timeline | None = None

    def __repr__(self) -> str:
        what = f"{self.plan} on {self.machine}, {self.model}"
        size = f"{self.steps} steps of {self.share}, {self.tokens} tokens"
        return f"<simulation of {what}: {size}; {self.makespan_ns} ns>"

    @property
    def share(self) -> str:
        """How much of the model was executed, in words."""
        whole = self.layers == self.model_layers
        return f"{self.layers} layers" if whole else f"{self.layers} of {self.model_layers} layers"

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens decoded per second of step latencies; None if the steps take no time.

        Of the layers executed alone, see `model_layers`.
        """
        total = int(self.step_ns.sum())
        return self.tokens * 1e9 / total if total else None

    def to_dict(self) -> dict[str, object]:
        """Return everything but the timeline as JSON values."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        del plain["timeline"]
        return plain | {
            "step_ns": self.step_ns.tolist(),
            "layer_ns": self.layer_ns.tolist(),
            "usage": [
                {name: getattr(used, name) for name in used.__dataclass_fields__}
                for used in self.usage
            ],
            "tokens_per_s": self.tokens_per_s,
        }


def usage_table(usage: Sequence[Usage]) -> str:
    """Return one line per resource: busy and idle time in ms, and the busy share."""
    width = max([len("resource"), *(len(used.resource) for used in usage)])
    lines = [f"{'resource':{width}} {'busy ms':>12} {'idle ms':>12} {'busy':>7}"]
    for used in usage:
        idle = "-" if used.idle_ns is None else f"{used.idle_ns / 1e6:.3f}"
        share = "-" if used.utilisation is None else f"{100 * used.utilisation:.1f} %"
        lines.append(f"{used.resource:{width}} {used.busy_ns / 1e6:12.3f} {idle:>12} {share:>7}")
    return "\n".join(lines)


def summary(found: Simulation) -> str:
    """Return what a simulation found, for people."""
    step = found.step_ns / 1e6
    rate = "-" if found.tokens_per_s is None else f"{found.tokens_per_s:,.1f} tokens/s"
    ran = ", ".join(f"{domain} {count}" for domain, count in found.experts_run.items())
    part = ""
    if found.layers < found.model_layers:
        part = f"; of {found.share} alone, so not the model's rate"
    spread = f"p95 {np.quantile(step, 0.95):.3f}, from {step.min():.3f} to {step.max():.3f}"
    lines = [
        f"{found.model} on {found.machine}: {found.plan}",
        f"  steps       {found.steps}, {found.share}, {found.tokens} tokens in all",
        f"  step        median {np.median(step):.3f} ms, {spread}; the first {step[0]:.3f}",
        f"  rate        {rate}, over all steps{part}",
        f"  experts     {ran}",
    ]
    if found.hits or found.misses:
        share = 100 * found.hits / (found.hits + found.misses)
        lines.append(
            f"  cache       {found.hits} hits ({share:.1f} %), {found.misses} misses,"
            f" {found.fetches} fetches"
        )
    if found.migrations_done or found.migrations_missed or found.migrations_needless:
        lines.append(
            f"  migrations  {found.migrations_done} done, {found.migrations_missed} did not fit,"
            f" {found.migrations_needless} needless"
        )
    return "\n".join([*lines, "", usage_table(found.usage)])


def path_by_kind(timeline: Timeline) -> dict[str, int]:
    """Return how much of the critical path each resource and kind of task has, in ns."""
    share: dict[str, int] = {}
    for task in critical_path(timeline):
        resource = timeline.resources[int(timeline.resource[task])].name
        kind = timeline.bundles[int(timeline.bundle[task])].kind
        length = int(timeline.end_ns[task] - timeline.start_ns[task])
        if length:
            name = f"{resource}: {kind}"
            share[name] = share.get(name, 0) + length
    return dict(sorted(share.items(), key=lambda item: -item[1]))


MAX_TASKS = 5_000_000
"""Most tasks that are kept with start and end."""


@dataclass
class _Tally:
    """What adds up over the steps."""

    edges: list[list[int]] = field(default_factory=list)
    experts: Integers = field(default_factory=lambda: np.zeros(3, dtype=np.int64))
    hits: int = 0
    misses: int = 0
    fetches: int = 0

    def add(self, work: StepWork, edges: list[int]) -> None:
        self.edges.append(edges)
        self.experts += np.bincount(work.domain.ravel() + 1, minlength=4)[1:]
        self.hits += work.hits
        self.misses += work.misses
        self.fetches += sum(map(len, work.copies))


def simulate_loads(
    plan: Plan,
    costs: CostTable,
    loads: Loads,
    dimms: int,
    times: LayerTimes | None = None,
    *,
    timeline: bool = False,
) -> Simulation:
    """Execute a plan with costs given as tables; `moeopt.planner.simulate` makes them.

    Parameters
    ----------
    costs
        With one row per width that the plan names, rising, or a single one.
    dimms
        Number of DIMMs.
    times
        By default the plan's, with shared experts that cost nothing unless it says otherwise.
    timeline
        Time the decided steps by events, too, and keep every task.

    Raises
    ------
    InputError
        If the plan does not fit, or `costs` lacks something that it uses.
    """
    steps, layers, experts = loads.counts.shape
    check_fits(plan, Extent(steps, layers, experts, dimms))
    times = times or layer_times(plan, layers)
    links = link_names(plan, dimms)
    decider = Decider(plan, costs, loads, dimms, times)
    clock, events = Clock(dimms), None
    if timeline:
        _check_size(loads, dimms)
        events = EventClock(dimms, times, links)
    tally = _Tally()
    for step in range(steps):
        planned = _PlannedStep(decider, step, times, dimms)
        at = walk(clock, planned).edges_ns
        work = joined(planned.decided)
        tally.add(work, at if events is None else events.run(work, step))
    edges = np.array(tally.edges, dtype=np.int64)
    kept = None if events is None else events.timeline()
    makespan, used = _usage(clock, dimms, links) if kept is None else _usage_of(kept)
    return Simulation(
        plan=plan.name,
        machine="",
        model="",
        steps=steps,
        layers=layers,
        model_layers=layers,
        tokens=int(loads.tokens.sum()),
        step_ns=np.diff(edges[:, -1], prepend=0),
        layer_ns=np.diff(edges, axis=1),
        makespan_ns=makespan,
        usage=used,
        experts_run=dict(zip(("gpu", "cpu", "ndp"), tally.experts.tolist(), strict=True)),
        hits=tally.hits,
        misses=tally.misses,
        fetches=tally.fetches,
        migrations_done=decider.migrations.done,
        migrations_missed=decider.migrations.missed,
        migrations_needless=decider.migrations.needless,
        timeline=kept,
    )


class _PlannedStep:
    """A step of a plan: decided as a whole, or layer by layer where there are caches."""

    def __init__(self, decider: Decider, step: int, times: LayerTimes, dimms: int) -> None:
        self._decider, self._times, self._dimms = decider, times, dimms
        self.outside_ns, self.layers = times.step_ns, decider.layers
        self.decided: list[StepWork] = []
        self._works: Iterator[LayerWork] = iter(())
        decider.begin(step)

    def begin(self, layer: int) -> Begin:
        return Begin(self._times.attention_ns[layer] + self._times.other_ns[layer])

    def work(self, layer: int, routed_ns: int, there_ns: Mapping[int, int]) -> LayerWork:
        by_layer = self._decider.by_layer
        if by_layer or not layer:
            rows = slice(layer, layer + 1 if by_layer else self.layers)
            made = self._decider.decide(rows, routed_ns)
            self.decided.append(made)
            self._works = works(made, self._dimms, self._times, layer)
        return next(self._works)

    def ran(self, layer: int, copies_ns: Mapping[int, int]) -> None:
        self._decider.copied(layer, copies_ns)


def _usage(clock: Clock, dimms: int, links: list[str]) -> tuple[int, list[Usage]]:
    busy = {"GPU": clock.gpu_busy_ns, "CPU": clock.cpu_busy_ns} | clock.link_busy_ns
    busy |= {f"DIMM {row}": ns for row, ns in enumerate(clock.dimm_busy_ns.tolist())}
    serial = resources(dimms, links)[:-1]
    end = clock.end_ns
    return end, [usage(r, None, busy.get(r.name, 0), end) for r in serial]


def _usage_of(timeline: Timeline) -> tuple[int, list[Usage]]:
    return timeline.makespan_ns, timeline.usage()[:-1]


def _check_size(loads: Loads, dimms: int) -> None:
    tasks = int(np.count_nonzero(loads.counts)) * (2 + dimms)
    if tasks > MAX_TASKS:
        steps = len(loads.counts)
        fit = steps * MAX_TASKS // tasks
        raise InputError(
            f"steps: a timeline of {steps} may have {tasks} tasks, above {MAX_TASKS};"
            f" about {fit} steps fit"
        )
