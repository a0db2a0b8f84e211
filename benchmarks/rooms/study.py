"""Names of room `study` that benchmarks and `instances/` use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.study.attempt": ("Watch", "attempt"),
        "moeopt.study.campaign": ("Campaign", "Part", "instance_files", "make_settings"),
        "moeopt.study.known": ("BEST", "INDEX", "Claim", "Standing", "compared", "standing"),
        "moeopt.study.plan": ("Job", "make_plan"),
        "moeopt.study.record": ("SolveRecord",),
        "moeopt.study.tags": ("place",),
        "moeopt.study.report.plots": ("overview_chart", "plain_text"),
        "moeopt.study.report.sections": ("sections",),
        "moeopt.study.report.words": ("takeaways",),
        "moeopt.study.report.study": ("Study",),
        "moeopt.study.store": ("Store",),
        "moeopt.study.study": ("run_campaign",),
        "moeopt.study.table": ("interval",),
    }
)
