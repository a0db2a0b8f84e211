"""Names of room `algorithms` that benchmarks use."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.algorithms.lru": ("stack_distances",),
        "moeopt.algorithms.labels as label_setting": (),
    }
)
