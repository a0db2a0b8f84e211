"""Names of room `core` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.core.clock": ("SolvingClock", "TimeLimitError", "solving_clock", "told"),
        "moeopt.core.compiled": ("compile_all",),
        "moeopt.core.cpsat": ("Run", "SAFE", "SECOND", "Way"),
        "moeopt.core.envelope": ("InstanceEnvelope", "SolutionEnvelope", "validated"),
        "moeopt.core.json_files": ("MAX_FILE_BYTES", "read_json", "read_object", "write_bytes"),
        "moeopt.core.objective": ("Objective", "below", "entries", "of_json", "relative"),
        "moeopt.core.search": ("Feasibility", "Search"),
        "moeopt.core.untrusted": ("digest", "inside", "reading"),
        "moeopt.core.view": ("Bar", "Kind", "Lane"),
        "moeopt.core.wording": ("kind_of", "shortened", "shown", "unknown"),
    }
)
