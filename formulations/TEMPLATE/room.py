"""Names of problem `TEMPLATE` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "formulations.TEMPLATE.problem": ("HEURISTICS",),
        "formulations.TEMPLATE.problem.bounds as bounds": (),
        "formulations.TEMPLATE.problem.check as check": (),
        "formulations.TEMPLATE.problem.cpsat": ("Model",),
        "formulations.TEMPLATE.problem.instance": ("Expert", "Instance", "Solution"),
    }
)
