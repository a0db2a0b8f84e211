"""Names of problem `replication` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.replication": ("HEURISTICS",),
        "moeopt.problems.replication.assumptions": ("ASSUMPTIONS",),
        "moeopt.problems.replication.anneal_and_refute": ("LARGEST", "joint_bound"),
        "moeopt.problems.replication.annealing as annealing": (),
        "moeopt.problems.replication.bounds": ("has_room", "objective_limit"),
        "moeopt.problems.replication.check": (
            "CONSTRAINTS",
            "candidates",
            "count",
            "device_loads",
            "free_flow",
            "moves_units",
            "objective",
            "peaks_units",
            "violations",
        ),
        "moeopt.problems.replication.cpsat": ("Model",),
        "moeopt.problems.replication.eplb": ("placed", "rebalance"),
        "moeopt.problems.replication.generate": ("KERNELS", "assume as assume"),
        "moeopt.problems.replication.heuristics": (
            "biased",
            "eplb",
            "eplb_hierarchical",
            "flashlb",
            "longest_first",
            "lplb",
            "round_robin",
            "swift_balancer",
        ),
        "moeopt.problems.replication.instance": ("Instance", "Solution"),
        "moeopt.problems.replication.view": ("differences", "facts"),
    }
)
