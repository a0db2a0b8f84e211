"""Names of room `cli` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.cli.main": ("main", "new_app", "run_app"),
        "moeopt.cli.options": (
            "Json",
            "Seed",
            "Where",
            "command",
            "labels",
            "print_error",
            "print_table",
        ),
    }
)
