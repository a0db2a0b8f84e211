"""A schedule as text: one line per device, time running to the right."""

from collections.abc import Sequence

from moeopt.problems.schedule import Lane

FILL = {"work": "=", "read": ":"}


def draw(lanes: Sequence[Lane], width: int = 80) -> str:
    """Return the lanes drawn to one scale.

    Work is ``=`` and starts with ``|`` and its label where that fits; a host's read on a DIMM is
    ``:``. The last column is how long the device is busy, in ms.
    """
    label_width = max(len(lane.device) for lane in lanes)
    room = max(width - label_width - 12, 10)
    makespan = max(lane.end_ns for lane in lanes) or 1
    lines = []
    for lane in lanes:
        cells = [" "] * room
        for bar in lane.bars:
            left, right = (round(t * room / makespan) for t in (bar.start_ns, bar.end_ns))
            cells[left:right] = _bar(bar.label, FILL[bar.kind], right - left)
        row = "".join(cells)[:room].ljust(room)
        busy = f"{lane.end_ns / 1e6:.3f}"
        lines.append(f"{lane.device:>{label_width}} {row} {busy:>8}")
    lines.append(f"{'':{label_width}} {'=: work  :: a host reads'.ljust(room)} {'busy ms':>8}")
    return "\n".join(lines)


def _bar(label: str, fill: str, length: int) -> str:
    if fill != FILL["work"]:
        return fill * length
    text = f"|{label}" if length > len(label) + 1 else "|"
    return text.ljust(length, fill)[:length]
