"""The compiled device loads against the checker; `test_heuristics` holds the refinement."""

import random
from collections.abc import Iterator

import numpy as np

from tests.problems.tri_domain.random_instances import KINDS, random_instance
from tests.rooms.problems import (
    IDLE,
    NDP,
    Ints,
    device_loads,
    loads_of,
    makespan_of,
    refine,
    table_of,
)
from tests.rooms.tri_domain import DOMAINS, STRIPED, Instance, Solution, loads


def table(instance: Instance) -> Ints:
    """Return the kernel's table of an instance."""
    c = instance.columns
    return table_of(c.gpu_ns, c.cpu_ns, c.ndp_ns, c.gpu_dram_ns, c.cpu_dram_ns, c.dimm)


def schedules() -> Iterator[tuple[Instance, Ints]]:
    """Yield random instances with random schedules, in which some experts are idle."""
    for kind in KINDS:
        for seed in range(10):
            instance, rng = random_instance(seed, kind), random.Random(f"{kind}{seed}")
            able = [
                (IDLE, 0, 1) if dimm == STRIPED else (IDLE, 0, 1, NDP)
                for dimm in instance.columns.dimm
            ]
            yield instance, np.array([rng.choice(domains) for domains in able])


def test_device_loads_are_the_checkers() -> None:
    """Eq. 5-7, device by device; an idle expert loads none."""
    for instance, domain in schedules():
        assignment = tuple(None if d == IDLE else DOMAINS[d] for d in domain)
        judged = loads(instance, Solution(instance=instance.name, assignment=assignment))
        expected = [judged.gpu_ns, judged.cpu_ns, *judged.dimm_ns]
        assert device_loads(table(instance), domain, instance.dimms).tolist() == expected
        load = loads_of(table(instance), domain, instance.dimms)
        assert makespan_of(load, instance.dimms) == judged.makespan_ns


def test_the_refinement_takes_no_notice_of_idle_experts() -> None:
    """It makes the decisions that it makes without them, and returns its schedule's makespan."""
    for number, (instance, domain) in enumerate(schedules()):
        every, growth = number % 2 == 1, number % 3 > 0
        experts, runs = table(instance), domain != IDLE
        without = domain[runs]
        running = np.ascontiguousarray(experts[:, runs])
        makespan = refine(running, without, instance.dimms, every, growth)
        assert refine(experts, domain, instance.dimms, every, growth) == makespan
        assert (domain[runs] == without).all()
        assert (domain[~runs] == IDLE).all()
        assert makespan == makespan_of(loads_of(experts, domain, instance.dimms), instance.dimms)
