"""Names of room `library` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.library.entries": (
            "REFERENCE",
            "entries_of",
            "open_table",
            "problem_table",
            "short_table",
            "stem",
            "sums",
        ),
        "moeopt.library.submissions": ("certificate_faults", "certified", "submitted"),
    }
)
