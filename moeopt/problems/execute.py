"""Executing a solution of any problem, and comparing with its checker.

A solution becomes a graph of events: what runs where and when, what waits for what. Its critical
path lies on the lanes of a problem's view.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope, check_pair
from moeopt.core.errors import InputError
from moeopt.core.objective import Objective, first_key
from moeopt.core.view import Bar, Lane
from moeopt.sim.engine.core import Executed
from moeopt.sim.engine.critical_path import critical_path, links, slack_ns
from moeopt.sim.engine.timeline import Timeline

from .registry import get_problem

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class Agreement:
    """A solution's objective as executed and as the problem's checker computes it."""

    timeline: Timeline
    measured: Objective
    judged: Objective

    @property
    def agree(self) -> bool:
        """Whether the two are the same."""
        return bool(self.measured == self.judged)


def compare(instance: InstanceEnvelope, solution: SolutionEnvelope) -> Agreement:
    """Execute a solution and check it.

    Raises
    ------
    InputError
        If the solution is not one of this instance or not valid, or no executor for the problem
        exists.
    """
    checked(instance, solution)
    executed = execute(instance, solution)
    judged = get_problem(instance.problem).check.objective(instance, solution)
    return Agreement(executed.timeline, executed.objective, judged)


def checked(instance: InstanceEnvelope, solution: SolutionEnvelope) -> None:
    """Raise an `InputError` if a solution is not one, not of this instance or not valid."""
    check_pair(instance, solution)
    if wrong := get_problem(instance.problem).check.violations(instance, solution):
        constraint, sentence = wrong[0]
        raise InputError(f"{constraint}: {sentence}")


def execute(instance: InstanceEnvelope, solution: SolutionEnvelope) -> Executed:
    """Execute a valid solution.

    Raises
    ------
    InputError
        If there is no executor for the problem.
    """
    problem = get_problem(instance.problem)
    if problem.executor is None:
        reason = problem.absent.get("executor", "there is no executor")
        raise InputError(f"problem: {instance.problem} cannot be executed: {reason}")
    executed: Executed = problem.executor()(instance, solution)
    return executed


START, END = "start", "end"
"""The two nodes that are no tasks: before and after everything."""


def event_graph(instance: InstanceEnvelope, solution: SolutionEnvelope) -> "nx.DiGraph":
    """Return what runs where and when, and what waits for what, as an acyclic graph.

    The solution is executed by the event engine. Nodes are its tasks, numbered from 0, and between
    two tasks is an edge if the one waits for the other: because it depends on it, or because both
    occupy the same device and this is their order (conjunctive arcs and selected disjunctive arcs;
    Roy and Sussmann 1964, Balas 1969). Edges that follow from others may be left out. The longest
    path from node ``"start"`` to node ``"end"`` by the edges' `length` is the objective, or where
    there are several the first one::

        networkx.dag_longest_path_length(graph, weight="length") == graph.graph["objective"]

    What the path is made of, by problem:

    ============================= ==========================================================
    tri_domain, relayout          the work and the reads of the busiest device; migrations
                                  are over before
    layout                        the same, window after window, times each window's weight
    deferral                      attention, experts and hand-overs, layer after layer
    balance                       slices through link and GPU, or over the fullest NDP unit
    cache                         token after token and layer after layer the later of GPU
                                  and CPU, or else all fetches
    placement                     step after step and layer after layer the later side
    joint                         the same with deferred experts, or else all copies
    replication                   moves, then window after window the copies on the fullest
                                  device; one unit of load is one ns
    bitwidth                      the losses of all experts, which are no times; one unit of
                                  loss is one ns
    split                         a token's parts and hops in order, then an ubatch's, times
                                  their weights
    ============================= ==========================================================

    Parameters
    ----------
    instance, solution
        The solution must be valid for the instance.

    Returns
    -------
    networkx.DiGraph
        Nodes have `device`, `kind`, `name`, `start_ns`, `end_ns`, `duration_ns`, `weight` (how
        often the duration counts in the objective), `slack_ns` (how much later the task could
        start while all orders stay and nothing else ends later) and, where they belong to one,
        `expert`, `layer`, `step`, `token`, `ubatch` or `window`; "start" and "end" have `kind` and
        times only. Edges have `kind`, "precedence", "device", "release" (from "start": it is the
        solution that lets the task start then) or "end" (to "end"), and `length`, how much of the
        objective lies between the starts of the two. The graph itself has `problem`, `instance`,
        `objective`, `unit` ("ns", "units", "loss") and `critical_path`, the tasks of one longest
        path.

    Raises
    ------
    InputError
        If the solution is not valid or not of this instance, or the problem's solutions cannot be
        executed; one line with the reason.

    Examples
    --------
    >>> import moeopt, networkx
    >>> instance = moeopt.tri_domain.Instance.from_arrays(
    ...     gpu_ns=[30, 40, 20], cpu_ns=[50, 20, 60], ndp_ns=[-1, 30, 25], dimm=[-1, 0, 1], dimms=2,
    ...     gpu_dram_ns=[10, 10, 10], cpu_dram_ns=[10, 10, 10],
    ... )
    >>> graph = moeopt.event_graph(instance, moeopt.solve(instance).solution)
    >>> networkx.dag_longest_path_length(graph, weight="length")
    35
    >>> [graph.nodes[task]["name"] for task in graph.graph["critical_path"]]
    ['read 0', 'expert 2']
    """
    checked(instance, solution)
    return graph_of(instance, execute(instance, solution))


def graph_of(instance: InstanceEnvelope, executed: Executed) -> "nx.DiGraph":
    """Return the graph of a solution that was executed already; as `event_graph`."""
    import networkx as nx

    timeline = executed.timeline
    start, end = timeline.start_ns.tolist(), timeline.end_ns.tolist()
    known = links(timeline)
    slack = slack_ns(timeline, known).tolist()
    counts = executed.weights or (1,) * len(timeline.bundles)
    places = [_places(bundle.label) for bundle in timeline.bundles]
    devices = [timeline.resources[row].name for row in timeline.resource.tolist()]
    of = timeline.bundle.tolist()
    weight = [counts[bundle] for bundle in of]
    graph: nx.DiGraph = nx.DiGraph(
        problem=instance.problem,
        instance=instance.name,
        objective=first_key(executed.objective),
        unit=instance.minimises()[0].rpartition("_")[2],
        critical_path=tuple(critical_path(timeline, known)),
    )
    graph.add_node(START, kind=START, start_ns=0, end_ns=0, duration_ns=0, slack_ns=0)
    for task in range(len(start)):
        bundle = timeline.bundles[of[task]]
        graph.add_node(
            task,
            device=devices[task],
            kind=bundle.kind,
            name=bundle.name(task - bundle.first),
            start_ns=start[task],
            end_ns=end[task],
            duration_ns=end[task] - start[task],
            weight=weight[task],
            slack_ns=slack[task],
            **places[of[task]],
            **_number(executed.numbers, bundle.number, task - bundle.first),
        )
    last = timeline.makespan_ns
    graph.add_node(END, kind=END, start_ns=last, end_ns=last, duration_ns=0, slack_ns=0)
    lets = [0] * len(start)
    kinds = {False: "precedence", True: "device"}
    pairs = zip(known.before.tolist(), known.after.tolist(), known.device.tolist(), strict=True)
    for before, after, device in pairs:
        lets[after] = max(lets[after], end[before])
        if not (device and graph.has_edge(before, after)):
            length = weight[before] * (end[before] - start[before])
            graph.add_edge(before, after, kind=kinds[device], length=length)
    for task in range(len(start)):
        if not graph.in_degree(task) or start[task] > lets[task]:
            graph.add_edge(START, task, kind="release", length=start[task])
        if not graph.out_degree(task):
            length = weight[task] * (end[task] - start[task])
            graph.add_edge(task, END, kind=END, length=length)
    return graph


def on_critical_path(graph: "nx.DiGraph", *by: str) -> dict[str, int]:
    """Return how much of the objective lies where on a graph's critical path, most first.

    Parameters
    ----------
    by
        Attributes of the tasks that say where: "device", or "device" and "kind".
    """
    found: dict[str, int] = {}
    for task in graph.graph["critical_path"]:
        data = graph.nodes[task]
        if length := data["weight"] * data["duration_ns"]:
            where = ": ".join(data[name] for name in by)
            found[where] = found.get(where, 0) + length
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _places(label: str) -> dict[str, int]:
    """Return where a task belongs: "step 2, layer 5" as ``{"step": 2, "layer": 5}``."""
    words = [part.split() for part in label.split(", ") if part]
    return {name: int(number) for name, number in words}


def _number(name: str, number: object, row: int) -> dict[str, int]:
    if number is None:
        return {}
    return {name: number if isinstance(number, int) else int(number[row])}  # type: ignore[index]


Span = tuple[int, int]
"""From when until when, in ns."""


@dataclass(frozen=True)
class Drawn:
    """A schedule to draw: its lanes, and in words where its critical path lies."""

    lanes: tuple[Lane, ...]
    caption: str


def critical_lanes(instance: InstanceEnvelope, solution: SolutionEnvelope) -> Drawn | None:
    """Return a valid solution's lanes with the bars marked that have no slack.

    Where bars are sums over many steps none is marked, and only the caption says how much of the
    critical path each device has. None if solutions of the problem are not schedules.
    """
    problem = get_problem(instance.problem)
    if problem.lanes is None:
        return None
    lanes = tuple(problem.lanes(instance, solution))
    graph = graph_of(instance, execute(instance, solution))
    caption = f"critical path: {_shares(graph)}"
    if problem.lanes_are_sums:
        return Drawn(lanes, f"{caption}; bars are sums over all steps")
    without_slack, begins = _spans(graph)
    marked = []
    for lane in lanes:
        found = re.fullmatch(r"scenario (\d+): (.*)", lane.device)
        window, device = (int(found[1]), found[2]) if found else (None, lane.device)
        spans = without_slack.get((window, device), [])
        bars = tuple(_marked(bar, begins.get(window, 0), spans) for bar in lane.bars)
        marked.append(Lane(lane.device, bars))
    return Drawn(tuple(marked), caption)


def _spans(
    graph: "nx.DiGraph",
) -> tuple[dict[tuple[int | None, str], list[Span]], dict[int | None, int]]:
    """Return when tasks without slack run, by window and device, and when each window begins."""
    spans: dict[tuple[int | None, str], list[Span]] = {}
    begins: dict[int | None, int] = {None: 0}
    for _, task in graph.nodes(data=True):
        window = task.get("window")
        if window is not None:
            begins[window] = min(begins.get(window, task["start_ns"]), task["start_ns"])
        if "device" in task and not task["slack_ns"] and task["duration_ns"]:
            span = task["start_ns"], task["end_ns"]
            spans.setdefault((window, task["device"]), []).append(span)
    return spans, begins


def _marked(bar: Bar, begin_ns: int, spans: Sequence[Span]) -> Bar:
    """Return a bar, marked if a task without slack runs within it."""
    start, end = bar.start_ns + begin_ns, bar.end_ns + begin_ns
    return replace(bar, critical=any(a < end and start < b for a, b in spans))


def _shares(graph: "nx.DiGraph") -> str:
    """Return the devices on the critical path with their shares, the largest first."""
    on = on_critical_path(graph, "device")
    whole = sum(on.values())
    shares = [
        f"{name} {100 * part / whole:.0f} %" if 200 * part >= whole else f"{name} below 1 %"
        for name, part in on.items()
    ]
    return ", ".join(shares) or "nothing takes time"
