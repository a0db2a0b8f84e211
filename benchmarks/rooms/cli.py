"""Names of room `cli` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.cli.main": ("main", "run_app"),
        "moeopt.cli.options": ("Json", "print_error"),
    }
)
