"""Names of room `exporters` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.exporters.targets.exact_model": ("read_answer",),
    }
)
