"""Names of room `planner` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.planner.decode.loads": ("loads_of_trace", "loads_of_workload"),
        "moeopt.planner.decode.run": ("Simulation",),
    }
)
