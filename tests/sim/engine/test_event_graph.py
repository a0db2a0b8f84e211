"""Every problem's solutions as graphs: the longest path is the objective, slack is free."""

import json
import random
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import moeopt
from moeopt import InputError
from tests.problems.every_problem import RANDOM, decisions
from tests.problems.layout import layout_random_instances as layout
from tests.problems.tri_domain import random_instances as tri_domain
from tests.rooms.problems import PROBLEMS, get_problem
from tests.rooms.sim import (
    Bundle,
    Engine,
    Executed,
    Resource,
    Timeline,
    critical_path,
    links,
    slack_ns,
)


def first(objective: Any) -> int:
    """Return the entry of an objective that counts first."""
    return objective if isinstance(objective, int) else objective[0]


def assert_right(graph: nx.DiGraph, objective: Any) -> None:
    """Compare two computations of the longest path with the objective, and slacks with edges."""
    assert nx.is_directed_acyclic_graph(graph)
    assert graph.graph["objective"] == first(objective)
    assert nx.dag_longest_path_length(graph, weight="length") == first(objective)
    path = graph.graph["critical_path"]  # of nothing where nothing takes time
    chain = ["start", *path, "end"] if path else []
    assert sum(graph.edges[pair]["length"] for pair in nx.utils.pairwise(chain)) == first(objective)
    nodes = graph.nodes
    for before, after, edge in graph.edges(data=True):
        assert nodes[before]["end_ns"] <= nodes[after]["start_ns"]
        if edge["kind"] == "device":
            assert nodes[before]["device"] == nodes[after]["device"]
    latest = {"end": nodes["end"]["start_ns"]}
    for task in reversed(list(nx.topological_sort(graph))):
        if task != "end" and task != "start":
            latest[task] = min(latest[n] for n in graph[task]) - nodes[task]["duration_ns"]
            assert nodes[task]["slack_ns"] == latest[task] - nodes[task]["start_ns"] >= 0
    assert all(nodes[task]["slack_ns"] == 0 for task in chain)


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 60), marks=pytest.mark.slow)])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_longest_path_is_the_objective(problem: str, seeds: range) -> None:
    """For solutions of random instances of every problem."""
    check = get_problem(problem)
    done = 0
    for make in RANDOM[problem]:
        for seed in seeds:
            instance = make(seed)
            for solution in decisions(problem, instance, seed):
                if not check.violations(instance, solution):
                    graph = moeopt.event_graph(instance, solution)
                    assert_right(graph, check.objective(instance, solution))
                    done += 1
    assert done > len(seeds) // 2


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_library_has_graphs(problem: str, every: bool, root: Path) -> None:
    """The best known solutions; quickly, those of two small instances."""
    folder = root / "instances" / problem
    best = json.loads((folder / "best_known.json").read_text())
    files = sorted(best, key=lambda file: (folder / file).stat().st_size)
    small = [file for file in files[:2] if not file.endswith(".gz")]
    for file in files if every else small:
        solution = moeopt.load_solution(folder / best[file]["solution"])
        graph = moeopt.event_graph(moeopt.load(folder / file), solution)
        objective = best[file]["objective"]
        longest = nx.dag_longest_path_length(graph, weight="length")
        assert longest == (objective if isinstance(objective, int) else objective[0]), file


def test_a_start_that_the_solution_delays_is_on_the_path() -> None:
    """An edge from the start, which is as long as the waiting."""
    instance = moeopt.deferral.Instance.from_arrays(
        layers=2, attention_ns=4, shared_ns=1, expert_cpu_ns=3, sync_ns=1, top_k=2,
        penalty=[0, 1], min_immediate=1,
    )  # fmt: skip
    solution = moeopt.solve(instance).solution
    late = solution.start_ns.model_copy(update={"shared": (solution.start_ns.shared[0], 90)})
    graph = moeopt.event_graph(instance, solution.model_copy(update={"start_ns": late}))
    assert_right(graph, 91)
    (task,) = graph.graph["critical_path"]
    assert graph.edges["start", task] == {"kind": "release", "length": 90}
    assert (graph.nodes[task]["name"], graph.nodes[task]["layer"]) == ("shared 1", 1)


def test_labels_and_weights_of_windows() -> None:
    """A window that counts threefold does so on the path, and every task says where it belongs."""
    instance = moeopt.replication.Instance.from_arrays(
        loads=[[3, 1], [1, 5]], weight=[3, 1], devices=2, slots=1, max_copies=1, current=[[1], [0]],
        move_cost=7,
    )  # fmt: skip
    solution = moeopt.replication.Solution(instance=instance.name, copies=((0,), (1,)))
    graph = moeopt.event_graph(instance, solution)
    assert_right(graph, 2 * 7 + 3 * 3 + 5)
    assert (graph.graph["unit"], graph.graph["problem"]) == ("units", "replication")
    where = {
        (d["window"], d["expert"]): d
        for _, d in graph.nodes(data=True)
        if "window" in d and "expert" in d
    }
    assert {key: d["duration_ns"] for key, d in where.items()} == {
        (0, 0): 3, (0, 1): 1, (1, 0): 1, (1, 1): 5,
    }  # fmt: skip
    assert {key: d["slack_ns"] for key, d in where.items()} == {
        (0, 0): 0, (0, 1): 2, (1, 0): 4, (1, 1): 0,
    }  # fmt: skip
    assert {d["weight"] for (window, _), d in where.items() if window == 0} == {3}


def test_what_has_no_graph_is_refused_in_one_line(template_problem: str) -> None:
    """An invalid solution, another instance's, and a problem in which nothing runs."""
    from formulations.TEMPLATE.problem.instance import Instance

    instance = tri_domain.random_instance(3)
    nowhere = moeopt.tri_domain.Solution(instance=instance.name, assignment=())
    with pytest.raises(InputError, match="TD-C1: assignment has 0 entries"):
        moeopt.event_graph(instance, nowhere)
    with pytest.raises(InputError, match="instance: the solution is for"):
        moeopt.event_graph(tri_domain.random_instance(4), nowhere)
    rows = [{"size_bytes": 1, "miss_ns": 5}]
    plain = Instance(name="plain", capacity_bytes=10, min_kept=1, experts=rows)
    with pytest.raises(InputError, match=f"{template_problem} cannot be executed: the objective"):
        moeopt.event_graph(plain, moeopt.solve(plain, "cp-sat").solution)


def random_timeline(rng: random.Random) -> tuple[Timeline, list[Bundle]]:
    """Return bundles of several tasks that ran on resources of every kind."""
    engine = Engine([*map(Resource, "abc"), Resource("any", delay=True)])
    for row in range(8):
        after = [other for other in range(row) if rng.random() < 0.3]
        count = rng.randint(1, 3)
        lengths = np.array([rng.randint(0, 9) for _ in range(count)])
        where = np.array([rng.randrange(4) for _ in range(count)])
        engine.add_many(where, lengths, after=after, release_ns=rng.choice((0, 0, 7)))
    engine.run()
    timeline = engine.timeline()
    return timeline, list(timeline.bundles)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(40, 900), marks=pytest.mark.slow)])
def test_slack_is_what_can_be_added(seeds: range) -> None:
    """By the definition, on all pairs that wait: no link that is left out is needed."""
    for seed in seeds:
        timeline, bundles = random_timeline(random.Random(seed))
        known = links(timeline)
        assert (known.rank[known.before] < known.rank[known.after]).all()
        start, end = timeline.start_ns, timeline.end_ns
        pairs = [
            (before, after)
            for handle, bundle in enumerate(bundles)
            for other in bundle.after
            for before in np.flatnonzero(timeline.bundle == other).tolist()
            for after in np.flatnonzero(timeline.bundle == handle).tolist()
        ]
        for row in (0, 1, 2):
            mine = np.flatnonzero(timeline.resource == row)
            order = mine[known.rank[mine].argsort()].tolist()
            pairs += [(a, b) for k, a in enumerate(order) for b in order[k + 1 :]]
        slack = [int(timeline.makespan_ns - at) for at in end]
        for task in known.rank.argsort()[::-1].tolist():
            waiting = [b for a, b in pairs if a == task]
            slack[task] = min([slack[task], *(start[b] + slack[b] - end[task] for b in waiting)])
        assert slack_ns(timeline).tolist() == slack
        assert {slack[task] for task in critical_path(timeline)} <= {0}


def test_weights_are_those_of_the_windows() -> None:
    """As many as there are bundles."""
    from tests.rooms.layout import execute

    instance = layout.random_instance(1, "several scenarios")
    (solution,) = decisions("layout", instance, 1)
    executed: Executed = execute(instance, solution)
    assert executed.weights is not None
    assert len(executed.weights) == len(executed.timeline.bundles)
