"""Small random instances of every problem, and solutions of them."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import moeopt
from tests.problems.balance import balance_random_instances as balance
from tests.problems.bitwidth import bitwidth_random_instances as bitwidth
from tests.problems.cache import cache_random_instances as cache
from tests.problems.deferral import random_schedules as deferral
from tests.problems.joint import joint_random_instances as joint
from tests.problems.layout import layout_random_instances as layout
from tests.problems.placement import placement_random_instances as placement
from tests.problems.relayout import relayout_random_instances as relayout
from tests.problems.replication import replication_random_instances as replication
from tests.problems.split import split_random_instances as split
from tests.problems.threads import threads_random_instances as threads
from tests.problems.tri_domain import random_instances as tri_domain
from tests.rooms.problems import get_problem

RANDOM: dict[str, list[Callable[[int], Any]]] = {
    "tri_domain": [tri_domain.random_instance, tri_domain.random_schema_2],
    "relayout": [relayout.random_instance],
    "layout": [
        layout.random_instance,
        lambda seed: layout.with_schema_2(layout.random_instance(seed), seed),
    ],
    "deferral": [deferral.random_instance],
    "balance": [balance.random_instance],
    "cache": [cache.random_instance],
    "bitwidth": [bitwidth.random_instance],
    "placement": [placement.random_instance],
    "joint": [joint.random_instance],
    "split": [split.random_instance],
    "replication": [
        replication.random_instance,
        lambda seed: replication.random_instance(seed, split="free"),
        replication.hard_instance,
    ],
    "threads": [threads.random_instance],
}


def decisions(problem: str, instance: Any, seed: int) -> Iterator[Any]:
    """Yield solutions of two heuristics, or of layout, whose take long to compile, a random one."""
    rng = random.Random(seed)
    if problem == "layout":
        rows = range(instance.experts)
        lies = [rng.randrange(instance.dimms) if rng.random() < 0.6 else None for _ in rows]
        yield moeopt.layout.Solution(
            instance=instance.name,
            resident=[False] * instance.experts,
            dimm=lies,
            assignment=[
                [
                    rng.choice(["gpu", "cpu", "cpu" if lies[row] is None else "ndp"])
                    if scenario.tokens[row]
                    else None
                    for row in rows
                ]
                for scenario in instance.scenarios
            ],
        )
        return
    rules = get_problem(problem).functions()
    for name in rng.sample(sorted(rules), min(2, len(rules))):
        if (solution := rules[name](instance)) is not None:
            yield solution
