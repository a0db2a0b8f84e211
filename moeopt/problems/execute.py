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
from moeopt.sim.engine.critical_path import Links, critical_path, links, slack_ns
from moeopt.sim.engine.timeline import Timeline

from .files import InstanceLike, SolutionLike, as_instance, as_solution
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
    judged = get_problem(instance.problem).objective(instance, solution)
    return Agreement(executed.timeline, executed.objective, judged)


def checked(instance: InstanceEnvelope, solution: SolutionEnvelope) -> None:
    """Raise an `InputError` if a solution is not one, not of this instance or not valid."""
    check_pair(instance, solution)
    if wrong := get_problem(instance.problem).violations(instance, solution):
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
    if reason := problem.absent.get("execute"):
        raise InputError(f"{instance.problem} cannot be executed: {reason}", field="problem")
    executed: Executed = problem.execute(instance, solution)
    return executed


@dataclass(frozen=True)
class Task:
    """What runs on a device; `of` has the numbers of its expert, layer, step and so on."""

    device: str
    kind: str
    name: str
    start_ns: int
    end_ns: int
    duration_ns: int
    weight: int
    slack_ns: int
    of: dict[str, int]


def tasks_of(executed: Executed) -> tuple[list[Task], list[int], Links]:
    """Return the tasks, the numbers of those on a critical path, and what waits for what."""
    timeline, found = executed.timeline, list[Task]()
    known = links(timeline)
    counts = executed.weights or (1,) * len(timeline.bundles)
    places = [_places(bundle.label) for bundle in timeline.bundles]
    columns = timeline.bundle, timeline.resource, timeline.start_ns, timeline.end_ns
    rows = zip(*(column.tolist() for column in (*columns, slack_ns(timeline, known))), strict=True)
    for task, (of, device, start, end, slack) in enumerate(rows):
        bundle = timeline.bundles[of]
        row, name = task - bundle.first, timeline.resources[device].name
        number = _number(executed.numbers, bundle.number, row)
        times = start, end, end - start, counts[of], slack
        found.append(Task(name, bundle.kind, bundle.name(row), *times, places[of] | number))
    return found, critical_path(timeline, known), known


START, END = "start", "end"
"""The two nodes that are no tasks: before and after everything."""


def event_graph(instance: InstanceLike, solution: SolutionLike) -> "nx.DiGraph":
    """Return a solution's schedule as an acyclic graph of tasks.

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
    threads                       loads, pulls and parts on the fullest thread
    ============================= ==========================================================

    Parameters
    ----------
    instance, solution
        Or their files. The solution must be valid for the instance.

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
    import networkx as nx

    instance, solution = as_instance(instance), as_solution(solution)
    checked(instance, solution)
    executed = execute(instance, solution)
    tasks, path, known = tasks_of(executed)
    graph: nx.DiGraph = nx.DiGraph(
        problem=instance.problem,
        instance=instance.name,
        objective=first_key(executed.objective),
        unit=instance.minimises()[0].rpartition("_")[2],
        critical_path=tuple(path),
    )
    graph.add_node(START, kind=START, start_ns=0, end_ns=0, duration_ns=0, slack_ns=0)
    for number, task in enumerate(tasks):
        facts = vars(task) | task.of
        del facts["of"]
        graph.add_node(number, **facts)
    last = executed.timeline.makespan_ns
    graph.add_node(END, kind=END, start_ns=last, end_ns=last, duration_ns=0, slack_ns=0)
    lets = [0] * len(tasks)
    kinds = {False: "precedence", True: "device"}
    pairs = zip(known.before.tolist(), known.after.tolist(), known.device.tolist(), strict=True)
    for before, after, device in pairs:
        lets[after] = max(lets[after], tasks[before].end_ns)
        if not (device and graph.has_edge(before, after)):
            length = tasks[before].weight * tasks[before].duration_ns
            graph.add_edge(before, after, kind=kinds[device], length=length)
    for number, task in enumerate(tasks):
        if not graph.in_degree(number) or task.start_ns > lets[number]:
            graph.add_edge(START, number, kind="release", length=task.start_ns)
        if not graph.out_degree(number):
            graph.add_edge(number, END, kind=END, length=task.weight * task.duration_ns)
    return graph


def on_path(tasks: Sequence[Task], path: Sequence[int], *by: str) -> dict[str, int]:
    """Return how much of the objective lies where on a critical path, most first.

    Parameters
    ----------
    by
        Attributes of the tasks that say where: "device", or "device" and "kind".
    """
    found: dict[str, int] = {}
    for task in (tasks[number] for number in path):
        if length := task.weight * task.duration_ns:
            where = ": ".join(getattr(task, name) for name in by)
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
    if not problem.has("lanes"):
        return None
    lanes = tuple(problem.lanes(instance, solution))
    tasks, path, _ = tasks_of(execute(instance, solution))
    caption = f"critical path: {_shares(on_path(tasks, path, 'device'))}"
    if problem.lanes_are_sums:
        return Drawn(lanes, f"{caption}; bars are sums over all steps")
    without_slack, begins = _spans(tasks)
    marked = []
    for lane in lanes:
        found = re.fullmatch(r"scenario (\d+): (.*)", lane.device)
        window, device = (int(found[1]), found[2]) if found else (None, lane.device)
        spans = without_slack.get((window, device), [])
        bars = tuple(_marked(bar, begins.get(window, 0), spans) for bar in lane.bars)
        marked.append(Lane(lane.device, bars))
    return Drawn(tuple(marked), caption)


def _spans(
    tasks: Sequence[Task],
) -> tuple[dict[tuple[int | None, str], list[Span]], dict[int | None, int]]:
    """Return when tasks without slack run, by window and device, and when each window begins."""
    spans: dict[tuple[int | None, str], list[Span]] = {}
    begins: dict[int | None, int] = {None: 0}
    for task in tasks:
        window = task.of.get("window")
        if window is not None:
            begins[window] = min(begins.get(window, task.start_ns), task.start_ns)
        if not task.slack_ns and task.duration_ns:
            spans.setdefault((window, task.device), []).append((task.start_ns, task.end_ns))
    return spans, begins


def _marked(bar: Bar, begin_ns: int, spans: Sequence[Span]) -> Bar:
    """Return a bar, marked if a task without slack runs within it."""
    start, end = bar.start_ns + begin_ns, bar.end_ns + begin_ns
    return replace(bar, critical=any(a < end and start < b for a, b in spans))


def _shares(on: dict[str, int]) -> str:
    """Return the devices on the critical path with their shares, the largest first."""
    whole = sum(on.values())
    shares = [
        f"{name} {100 * part / whole:.0f} %" if 200 * part >= whole else f"{name} below 1 %"
        for name, part in on.items()
    ]
    return ", ".join(shares) or "nothing takes time"
