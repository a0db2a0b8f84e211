"""A schedule as text: one line per device, time running to the right."""

from collections.abc import Sequence

from moeopt.core.view import Bar, Kind, Lane

FILL: dict[Kind, str] = {"work": "=", "deferred": "~", "transfer": "-", "read": ":"}
CRITICAL = "#"
"""What bars on a critical path are filled with, whatever their kind."""

MEANING: dict[Kind, str] = {
    "work": "work",
    "deferred": "deferred work",
    "transfer": "transfer",
    "read": "a host reads",
}


def draw(lanes: Sequence[Lane], width: int = 80, horizon_ns: int | None = None) -> str:
    """Return the lanes drawn to one scale.

    Computation and transfers start with ``|`` and their label where that fits; bars on a critical
    path are filled with ``#``. The last column is
    when the device's last bar ends, in ms. `horizon_ns` is the time at the right edge, so that
    several charts can share an axis; by default the end of the last bar.
    """
    label_width = max(len(lane.device) for lane in lanes)
    room = max(width - label_width - 12, 10)
    horizon = horizon_ns or max(lane.end_ns for lane in lanes) or 1
    lines = []
    for lane in lanes:
        cells = [" "] * room
        for bar in lane.bars:
            left, right = (round(t * room / horizon) for t in (bar.start_ns, bar.end_ns))
            cells[left:right] = _bar(bar, right - left)
        row = "".join(cells)[:room].ljust(room)
        end = f"{lane.end_ns / 1e6:.3f}"
        lines.append(f"{lane.device:>{label_width}} {row} {end:>8}")
    used = {bar.kind for lane in lanes for bar in lane.bars if not bar.critical}
    legend = "  ".join(f"{FILL[kind]}: {MEANING[kind]}" for kind in FILL if kind in used)
    if any(bar.critical for lane in lanes for bar in lane.bars):
        legend = f"{CRITICAL}: no slack  {legend}"
    lines.append(f"{'':{label_width}} {legend.ljust(room)} {'end ms':>8}")
    return "\n".join(lines)


def _bar(bar: Bar, length: int) -> str:
    fill = CRITICAL if bar.critical else FILL[bar.kind]
    if bar.kind == "read":
        return fill * length
    text = f"|{bar.label}" if length > len(bar.label) + 1 else "|"
    return text.ljust(length, fill)[:length]
