"""Small figures, charts and sweeps for the framework's tests; nothing is computed."""

from benchmarks.papers.figure import Figure, Ours
from benchmarks.papers.published import Interval, Published, parse_values
from benchmarks.papers.sweep import Sweep

NASTY = '<script>alert("x")</script> a|b *c*'
"""What must not get into a report as it is."""


def figure(
    value: str, *ours: float | None, kind: str = "predicted", name: str = "T1", note: str = ""
) -> Figure:
    """Return a figure with a published text and our values."""
    published = Published(name, "trimoe", "5.3", "a_quantity", parse_values(value), "x", "")
    return Figure(published, Ours(ours, kind, ("an assumption",), note))  # type: ignore[arg-type]


CALLS: list[str] = []
"""What has been computed since the list was last cleared."""


def computed() -> Ours:
    """Note the call and return a value for T1."""
    CALLS.append("T1")
    return Ours(
        (0.3,),
        "input",
        ("as published",),
        note=NASTY,
        baseline=(1.0,),
        optimum=(None,),
        intervals=(Interval(0.29, 0.32),),
        seeds=6,
    )


def other() -> Ours:
    """Note the call and return a value for T2."""
    CALLS.append("T2")
    return Ours((0.8,), "assumed", ())


def without_data() -> Ours:
    """Ask for a trace that nobody has."""
    from benchmarks.papers import data

    data.require("nowhere/trace.npz")
    raise AssertionError("the trace is not there")


SWEPT = Sweep("a parameter", "1", "assumed", ("T5",), (("1", (1.75,)), ("2", (None,))), "so")


def swept() -> Sweep:
    """Note the call and return a sweep."""
    CALLS.append("sweep")
    return SWEPT
