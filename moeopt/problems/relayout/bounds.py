"""Lower bounds on the makespan that need no solver, each with its proof.

An option of an expert is a migration or none, and a domain. Each option keeps the GPU, the CPU and
every DIMM busy for known times (`moeopt.problems.relayout.check.loads`).
"""

from math import gcd

from .average import average_load_ns
from .evictions import eviction_bound_ns
from .instance import Instance
from .options import active, costs_ns, link_moves_allowed, prefetch_allowed


def lower_bound(instance: Instance) -> int:
    """Return the best of this package's bounds."""
    return max(longest_expert_ns(instance), average_load_ns(instance), eviction_bound_ns(instance))


def objective_grid(instance: Instance) -> int:
    """Return a number that every makespan is a multiple of: the costs' greatest common divisor."""
    costs = [cost for expert in active(instance) for cost in costs_ns(expert)]
    return gcd(instance.dram_striped_ns, instance.dram_localized_ns, *costs) or 1


def longest_expert_ns(instance: Instance) -> int:
    """Return the bound by the expert that is long whatever is done with it.

    Proof. In each of its options an expert alone keeps some device busy for the longest of its
    times, and the makespan is at least that. It takes one of its options, and none that needs a
    migration which does not fit into its window even alone. So the makespan is at least the least
    of them.
    """
    relayout, _ = link_moves_allowed(instance)
    prefetch = prefetch_allowed(instance)
    floors = []
    for expert in active(instance):
        options = []
        if expert.resident or prefetch:
            options.append(expert.gpu_hit_ns)
        if expert.dimm is None or relayout:
            host = expert.cpu_striped_ns
            if not expert.resident:
                host = min(host, expert.gpu_miss_striped_ns)
            options.append(max(host, instance.dram_striped_ns))
        if expert.dimm is not None or relayout:
            host = expert.cpu_localized_ns
            if not expert.resident:
                host = min(host, expert.gpu_miss_localized_ns)
            options += [max(host, instance.dram_localized_ns), expert.ndp_ns]
        floors.append(min(options))
    return max(floors)
