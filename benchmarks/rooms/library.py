"""Names of room `library` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.library.entries": (
            "Entry",
            "SUMS",
            "TYPES",
            "entries_of",
            "instance_of",
            "problem_folders",
            "sums",
            "today",
            "write_best",
        ),
        "moeopt.library.submissions": (
            "Certified",
            "certificate_faults",
            "certificate_place",
            "enter_bound",
        ),
    }
)
