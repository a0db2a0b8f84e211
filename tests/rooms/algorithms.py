"""Names of room `algorithms` that tests use."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.algorithms.knapsack as knapsack": (
            "Curve",
            "FAR",
            "Knapsack",
            "MergedCurves",
            "Stopped",
            "TooLarge",
            "capacity_price",
            "merged",
            "priced",
        ),
        "moeopt.algorithms.lru as lru": ("LruCache", "stack_distances"),
        "moeopt.algorithms.labels as labels": (
            "LabelSetting",
            "undominated",
            "whole_prices",
        ),
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
