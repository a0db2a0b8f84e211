"""Names of room `systems` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.systems.loads": ("loads_of_trace", "loads_of_workload"),
        "moeopt.systems.assumptions": ("KERNEL_SHARES",),
        "moeopt.systems.compare": ("Compared",),
        "moeopt.systems.plan_run": ("Simulation",),
        "moeopt.systems.published.ktransformers": ("KTransformers",),
        "moeopt.systems.readers": ("Readers",),
        "moeopt.systems.registry": ("get_system",),
        "moeopt.systems.run": ("Run", "execute"),
        "moeopt.systems.system": ("Mechanisms",),
        "moeopt.systems.world": ("World",),
    }
)
