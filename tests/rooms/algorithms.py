"""Names of room `algorithms` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.algorithms.annealing": (
            "Annealing",
            "EXPONENTIAL",
            "IMPOSSIBLE",
            "below",
            "drawn",
            "falling",
            "seeded",
            "uniform",
        ),
    }
)
