"""Names of room `systems` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.systems.caches": ("Caches",),
        "moeopt.systems.clock": ("Begin", "Clock", "LayerWork", "OnGpu"),
        "moeopt.systems.cost_table": ("CostTable", "PATHS", "cost_table"),
        "moeopt.systems.planned": (
            "Decider",
            "HEURISTICS",
            "get_policy",
            "policy_names",
            "widths_of as policy_widths_of",
        ),
        "moeopt.systems.loads": (
            "Loads",
            "loads_of_counts",
            "loads_of_trace",
            "loads_of_workload",
        ),
        "moeopt.systems.migrations": ("DIMM_LINK", "PCIE", "Transfer"),
        "moeopt.systems.plan_run as run": (
            "path_by_kind",
            "simulate_loads",
            "summary",
            "usage_table",
        ),
        "moeopt.systems.readers": ("Readers",),
        "moeopt.systems.compare": ("SystemComparison",),
        "moeopt.systems.quality": ("fastest_widths",),
        "moeopt.systems.residents": ("StepPaths", "best_residents"),
        "moeopt.systems.registry": ("get_system", "system_names"),
        "moeopt.systems.threads": ("on_threads_ns",),
        "moeopt.systems.work": (
            "CPU",
            "GPU",
            "Integers",
            "NOWHERE",
            "Offer",
            "Policy",
            "StepWork",
            "joined",
            "layer_times",
            "per_layer",
        ),
    }
)
