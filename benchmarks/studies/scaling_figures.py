"""Small log-log figures as SVG: times over sizes, each line labelled where it ends.

Colours follow the reader's setting, light or dark; the background is part of the figure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, HEIGHT = 330, 250
"""Of a panel, in pixels."""

LEFT, RIGHT, TOP, BOTTOM = 52, 92, 34, 40
LINE_HEIGHT = 12

STYLE = """<style>
  .back { fill: #ffffff } .text { fill: #333333; font: 11px sans-serif }
  .title { font-weight: bold } .grid { stroke: #e2e2e2 } .axis { stroke: #888888 }
  .proof { --line: #4477aa } .rule { --line: #cc3311 } .generation { --line: #228833 }
  .execution { --line: #aa3377 }
  @media (prefers-color-scheme: dark) {
    .back { fill: #1e2129 } .text { fill: #dddddd } .grid { stroke: #373b46 }
    .proof { --line: #77aadd } .rule { --line: #ee8866 } .generation { --line: #44bb99 }
    .execution { --line: #ee99bb }
  }
  .line { fill: none; stroke: var(--line); stroke-width: 1.8 } .dot { fill: var(--line) }
  .label { fill: var(--line); font: 11px sans-serif } .stop { stroke: var(--line); fill: none }
</style>"""


@dataclass(frozen=True)
class Line:
    """Seconds over sizes, and the fitted power of the size."""

    name: str
    points: Mapping[int, float]
    slope: float | None


@dataclass(frozen=True)
class Panel:
    """The lines over one size; `stopped` is where proofs were no longer found."""

    axis: str
    lines: Sequence[Line]
    stopped: int | None


def figure(title: str, panels: Sequence[Panel]) -> str:
    """Return an SVG with the panels side by side."""
    width = WIDTH * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}"'
        f' width="{width}" height="{HEIGHT}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
        STYLE,
        f'<rect class="back" width="{width}" height="{HEIGHT}"/>',
        f'<text class="text title" x="10" y="18">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        parts.append(f'<g transform="translate({number * WIDTH} 0)">{_panel(panel)}</g>')
    return "\n".join([*parts, "</svg>\n"])


def _panel(panel: Panel) -> str:
    sizes = sorted({size for line in panel.lines for size in line.points})
    if panel.stopped is not None:
        sizes = sorted({*sizes, panel.stopped})
    times = [max(s, 1e-7) for line in panel.lines for s in line.points.values()]
    low, high = floor(log10(min(times))), ceil(log10(max(times)))
    high = max(high, low + 1)
    first, last = log10(sizes[0]), log10(max(sizes[-1], 2 * sizes[0]))

    def x(size: float) -> float:
        return LEFT + (log10(size) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(seconds: float) -> float:
        share = (log10(max(seconds, 1e-7)) - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = []
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text class="text" x="{LEFT - 5}" y="{at + 4:.1f}" text-anchor="end">'
            f"{_seconds(power)}</text>"
        )
    bottom = HEIGHT - BOTTOM
    for size in sizes:
        at = x(size)
        parts.append(
            f'<line class="axis" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom}" y2="{bottom + 4}"/>'
            f'<text class="text" x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{size}</text>'
        )
    parts.append(f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{bottom}H{WIDTH - RIGHT}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text class="text" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">'
        f"{escape(panel.axis)} (log)</text>"
    )
    for line in panel.lines:
        dots = [(x(size), y(seconds)) for size, seconds in sorted(line.points.items())]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in dots)
        circles = "".join(
            f'<circle class="dot" cx="{a:.1f}" cy="{b:.1f}" r="2.4"/>' for a, b in dots
        )
        parts.append(f'<g class="{line.name}"><path class="line" d="M{path}"/>{circles}</g>')
    if panel.stopped is not None:
        at = x(panel.stopped)
        parts.append(
            f'<g class="proof"><path class="stop" d="M{at - 4:.1f} {TOP}l8 8m0 -8l-8 8"/></g>'
            f'<text class="text" x="{at - 8:.1f}" y="{TOP + 9}" text-anchor="end">'
            "no proof at</text>"
        )
    parts += _labels(panel.lines, x, y)
    return "".join(parts)


def _labels(lines: Sequence[Line], x: object, y: object) -> list[str]:
    """Return a label beside each line's end, moved apart where they would touch."""
    ends = []
    for line in lines:
        size = max(line.points)
        ends.append((y(line.points[size]), x(size), line))  # type: ignore[operator]
    ends.sort(key=lambda end: end[0])
    free, parts = float(TOP), []
    for at, right, line in ends:
        power = "" if line.slope is None else f" {line.slope:.1f}"
        beside, height = right + 5, at - 4
        if right > WIDTH - RIGHT - 1:
            free = max(at, free + LINE_HEIGHT)
            beside, height = right + 7, free + 3
        parts.append(
            f'<g class="{line.name}"><text class="label" x="{beside:.1f}" y="{height:.1f}">'
            f"{escape(line.name)}{power}</text></g>"
        )
    return parts


def _seconds(power: int) -> str:
    """Return ten to a power as a time: 10 µs, 1 ms, 0.1 s."""
    for unit, exponent in (("s", 0), ("ms", -3), ("µs", -6)):
        if power >= exponent:
            return f"{10 ** (power - exponent)} {unit}"
    return f"1e{power} s"
