"""Names of problem `joint` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.problems.joint.lagrangian as lagrangian": (),
        "moeopt.problems.joint.lagrangian.local_search as local_search": (),
        "moeopt.problems.joint.lagrangian.relaxation as relaxation": (),
    }
)
