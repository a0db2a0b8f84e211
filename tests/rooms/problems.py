"""Names of room `problems` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.cold_cut": ("ColdCut", "DEFAULT"),
        "moeopt.problems.device_loads": (
            "IDLE",
            "Ints",
            "NDP",
            "device_loads",
            "loads_of",
            "makespan_of",
            "refine",
            "table_of",
        ),
        "moeopt.problems.execute": ("compare", "critical_lanes", "execute"),
        "moeopt.problems.holdout": ("joined",),
        "moeopt.problems.pictures as pictures": ("CRITICAL", "Panel", "draw_front", "draw_gantt"),
        "moeopt.problems.registry": ("AnyProblem", "PROBLEMS", "get_problem"),
        "moeopt.problems.three_domains": (
            "ALL",
            "Budget",
            "Group",
            "ModeTable",
            "RunMode",
            "SMOOTHING",
        ),
        "moeopt.problems.twins": ("check_later", "family_of", "forecast_saw_later"),
    }
)
