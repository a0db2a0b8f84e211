"""What is drawn of KTransformers: the timeline of Fig. 10, and the layer's time by deferral."""

from benchmarks.papers.charts import Chart, Curve, Schedule
from benchmarks.papers.ktransformers.anchor import (
    LAYERS,
    MIN_IMMEDIATE,
    TOP_K,
    layer_units,
    profiled_layer,
    utilization,
)
from benchmarks.rooms.core import Bar, Lane
from benchmarks.rooms.deferral import lanes, uniform

SHOWN = (0, 3)
"""Deferred experts of the timelines."""

MIDDLE = range(LAYERS // 2, LAYERS // 2 + 3)
"""Layers shown: start and end of the step play no part in them."""


def charts() -> tuple[Chart, ...]:
    """Return the charts of the paper."""
    counts = range(TOP_K - MIN_IMMEDIATE + 1)
    shares = [float(layer_units(d) / layer_units(0)) for d in counts]
    cpu, gpu = zip(*map(utilization, counts), strict=True)
    by_count = Curve(
        title="A layer's time and what keeps CPU and GPU busy, by deferred experts",
        source="KTransformers 4.2",
        x_label="deferred experts",
        y_label="share",
        x=tuple(counts),
        series={"time of a layer": tuple(shares), "CPU busy": cpu, "GPU busy": gpu},
        published={
            "time of a layer": (1.0, None, 0.81, 0.74, 0.74, None, None),
            "CPU busy": (0.74, None, None, 1.0, None, None, None),
            "GPU busy": (0.28, None, None, 0.37, None, None, None),
        },
    )
    panels = {f"{count} experts deferred": timeline(count) for count in SHOWN}
    return (
        Schedule("Three layers of DeepSeek-V3, BF16", "KTransformers Fig. 10", panels),
        by_count,
    )


def timeline(deferred: int) -> list[Lane]:
    """Return what GPU and CPU do in layers of the middle; time starts with the first bar."""
    instance = profiled_layer()
    cut = [_within(lane) for lane in lanes(instance, uniform(instance, deferred))]
    begin = min(bar.start_ns for lane in cut for bar in lane.bars)
    return [
        Lane(
            lane.device,
            tuple(
                Bar(bar.start_ns - begin, bar.end_ns - begin, bar.label, bar.kind)
                for bar in lane.bars
            ),
        )
        for lane in cut
    ]


def _within(lane: Lane) -> Lane:
    """Return the bars of the layers shown; labels end with the layer's number."""
    return Lane(lane.device, tuple(bar for bar in lane.bars if int(bar.label[1:]) in MIDDLE))
