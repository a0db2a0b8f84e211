"""Names of problem `relayout` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.relayout": ("HEURISTICS",),
        "moeopt.problems.relayout.fixed_layout": ("after_migrations",),
        "moeopt.problems.relayout.generate": ("Options", "on_layout"),
        "moeopt.problems.relayout.assumptions": ("ASSUMPTIONS",),
        "moeopt.problems.relayout.striped_reads as striped_reads": (),
        "moeopt.problems.relayout.striped_reads.plan_model as plan_model": (),
        "moeopt.problems.relayout.striped_reads.plans as plans": (),
        "moeopt.problems.relayout.striped_reads.subproblem as subproblem": (),
    }
)
