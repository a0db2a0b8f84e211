"""Names of room `systems` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.systems.loads": ("loads_of_trace", "loads_of_workload"),
        "moeopt.systems.plan_run": ("Simulation",),
    }
)
