"""Names of room `cli` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.cli.campaign_progress": ("Shown",),
        "moeopt.cli.check as check_module": (),
        "moeopt.cli.commands": ("COMMANDS",),
        "moeopt.cli.front_picture": ("save_fronts",),
        "moeopt.cli.gantt": ("draw",),
        "moeopt.cli.export": ("ExportOptions",),
        "moeopt.cli.campaign": ("CampaignOptions", "SolvesOptions"),
        "moeopt.cli.gap_tables": ("WIDTH", "print_tables"),
        "moeopt.cli.main as main_module": (
            "SHELLS",
            "TESTED_ORTOOLS",
            "build_app",
            "main",
            "run",
            "usage_error",
        ),
        "moeopt.cli.holdout": ("HoldoutOptions",),
        "moeopt.cli.options": ("SolvingOptions", "in_ms", "print_table"),
        "moeopt.cli.sensitivity": ("SensitivityOptions",),
        "moeopt.cli.solve": ("SolveOptions",),
        "moeopt.cli.reference": ("with_reference",),
        "moeopt.cli.progress": ("solving",),
    }
)
