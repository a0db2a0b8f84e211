"""Names of problem `tri_domain` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.tri_domain.expert": ("Layout", "STRIPED"),
        "moeopt.problems.tri_domain.fixed_layout": ("scheduled",),
        "moeopt.problems.tri_domain.instance": ("DOMAINS", "Domain", "Instance", "Solution"),
        "moeopt.problems.tri_domain.layout_rule": ("cold_localized",),
        "moeopt.problems.tri_domain.online": ("Scheduler",),
        "moeopt.problems.tri_domain.assumptions": ("ASSUMPTIONS",),
    }
)
