"""Names of room `systems` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.systems.loads": ("loads_of_trace", "loads_of_workload"),
        "moeopt.systems.assumptions": ("KERNEL_SHARES",),
        "moeopt.systems.compare": ("Compared",),
        "moeopt.systems.clock": ("LayerWork",),
        "moeopt.systems.plan_run": ("Simulation",),
        "moeopt.systems.policies": ("monde",),
        "moeopt.systems.published.edge_gpu_ndp": ("EdgeGpuNdp",),
        "moeopt.systems.published.ktransformers": ("KTransformers",),
        "moeopt.systems.published.monde": ("MoNDE",),
        "moeopt.systems.readers": ("Readers",),
        "moeopt.systems.registry": ("get_system",),
        "moeopt.systems.run": ("Run", "execute"),
        "moeopt.systems.slices": ("slices_instance", "slices_of", "work_of_slices"),
        "moeopt.systems.system": (
            "Assignment",
            "Mechanisms",
            "RunState",
            "System",
            "expected",
            "hottest_of_each",
            "idle",
        ),
        "moeopt.systems.world": ("World",),
    }
)
