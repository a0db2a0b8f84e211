"""Names of room `planner` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.planner.bits": ("bits", "losses", "model_at", "widths_of"),
        "moeopt.planner.budget": ("check_memory", "gpu_deficit", "host_memory", "memory"),
        "moeopt.planner.candidates": ("Candidate", "Search", "best_of"),
        "moeopt.planner.decision as decision": (),
        "moeopt.planner.fronts": ("Front", "Point", "_by_width", "_front", "fronts", "table"),
        "moeopt.planner.hand_over": ("hand_over",),
        "moeopt.planner.jointly": ("total_ms",),
        "moeopt.planner.layers": ("plan_layers",),
        "moeopt.planner.options": ("ExecutionOptions", "PlanOptions", "SeveralOptions"),
        "moeopt.planner.page": ("page",),
        "moeopt.planner.planned as planned": ("Planned",),
        "moeopt.planner.defaults": ("Default", "defaults"),
        "moeopt.planner.executed as executed": (
            "Comparison",
            "Predicted",
            "known_steps",
            "loads_of",
            "predicted",
        ),
        "moeopt.planner.request": ("Request",),
        "moeopt.planner.routing": (
            "COUNTS",
            "WORKLOAD",
            "drawn_parts",
            "notes",
            "routing_of",
        ),
        "moeopt.planner.simulate": ("plan_of_widths",),
        "moeopt.planner.by_flags": ("predict_wanted",),
        "moeopt.planner.devices": ("plan_devices",),
        "moeopt.planner.split": ("Wish",),
        "moeopt.planner.expert_parallel": ("slot_map_of",),
        "moeopt.planner.verdict": ("Verdict", "gain", "verdict"),
    }
)
