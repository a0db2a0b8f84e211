"""Names of problem `replication` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.replication": ("HEURISTICS",),
        "moeopt.problems.replication.anneal_and_refute as anneal_and_refute": (),
        "moeopt.problems.replication.bounds": ("lower_bound",),
        "moeopt.problems.replication.check": ("objective", "peaks_units"),
        "moeopt.problems.replication.dispatch": ("best_shares", "linear_shares", "single_copies"),
        "moeopt.problems.replication.eplb": ("pack", "replicate"),
        "moeopt.problems.replication.generate": (
            "KERNELS",
            "KernelTimes",
        ),
        "moeopt.problems.replication.instance": ("Instance", "Solution"),
    }
)
