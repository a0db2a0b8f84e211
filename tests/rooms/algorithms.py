"""Names of room `algorithms` that tests use."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.algorithms.lagrangian": (
            "Pace",
            "Tangent",
            "Volume",
            "best_price",
            "bisection",
            "multiplicative_weights",
            "stride",
        ),
    }
)
