"""docs/measured.md: the comparison with public measurements as Markdown."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks.measured.comparison import Compared, Comparison, Errors
from benchmarks.measured.strategies import Strategies
from benchmarks.papers.report.markdown import plain, table
from benchmarks.papers.report.words import number, percent

INTRODUCTION = """# Measured: public speeds of real runtimes, and ours

Written by `python -m benchmarks.measured --report docs`; do not edit.

Decode speeds that others published, one sequence at a time, beside what `moeopt predict` says of
the same machine, model and setting. Error is ours / measured - 1: above 0 we are too fast. *Held
out* is the honest column: every point of a machine is left out, the profiles of the runtimes are
fitted to the other machines, and predict it. *In sample* is the profile that `moeopt predict`
uses, which has seen the point: for a machine that is not in the table expect the first.
"""

BEFOREHAND = """What to know before reading on:

- What is expected of each term before the fit (`moeopt.sim.machines.runtimes.terms.PRIOR`) was set
  after a first look at these points. Twice the uncertainty changes little: the second row.
- STREAM Triad, where that is what was measured (a100), counts 4/3: a store that is not streamed
  reads its line first, a fourth transfer that Triad does not count. Where nobody measured the
  bandwidth of a host it is 0.8 of its peak, where nobody stated the memory that of the fastest that
  its vendor supports (`machines.json`, beside the points).
- Of the points held out 80 % were measured within the interval around the prediction (machines
  and curves with many points count less, point by point); *inside* is the share of points in an
  interval that was made without their own machine or curve.
- The other tool is github.com/harshithkantamneni/moe-speed-of-light: its own pre-registered
  results, on its own points, of which those of a100 are some.
"""

OTHERS = (
    ("another tool: a model carried to another machine", "24-34 %"),
    ("another tool: calibrated on two points", "6.7 %"),
)
"""Medians of github.com/harshithkantamneni/moe-speed-of-light, its own pre-registered results."""

REASONS: Mapping[tuple[str, str, str, str], str] = {
    ("5090+7980xe", "deepseek-r1", "IQ1_S", "ik_llama.cpp"): (
        "1.6-bit weights are decoded through a codebook: most likely bound by the cores of an"
        " i9-7980XE, not by memory; the model has no term for it"
    ),
    ("4090d+2x6454s", "deepseek-v3", "Q4_K_M", "llama.cpp"): (
        "llama.cpp does not place weights by socket; no other machine has two sockets under it, so"
        " that held out nothing says what that costs"
    ),
    ("2080+10900x", "gpt-oss-20b", "MXFP4", "llama.cpp"): (
        "the published speed includes the time of a prompt"
    ),
    ("2080+10900x", "qwen3-30b-a3b", "Q4_K_M", "llama.cpp"): (
        "the published speed includes the time of a prompt"
    ),
    ("3090+9355", "qwen3-235b-a22b", "Q6_K", "llama.cpp"): (
        "not known: ik_llama.cpp, on the same machine with as many bits, was predicted well"
    ),
    ("a100", "qwen3-30b-a3b", "Q4_K_M", "llama.cpp"): (
        "measured faster than a straight line between its neighbours, 24 and 48 layers"
    ),
}
"""Machine, model, bits, runtime -> why we are off there, as far as it is known."""

SUMMARY_HEAD = ("held out", "points", "median", "p90", "80 % interval", "inside")
POINT_HEAD = (
    *("machine", "model", "bits", "runtime", "experts on CPU, layers", "measured"),
    *("held out", "error", "in sample", "error"),
)
GROUP_HEAD = ("", "points", "median, held out", "worst, held out", "median, in sample")


def to_markdown(comparison: Comparison, picture: str = "") -> str:
    """Return the comparison; `picture` is a file to show in it."""
    summary = comparison.summary()
    parts = [INTRODUCTION, "## In short\n", table(SUMMARY_HEAD, summary_cells(summary))]
    parts += [_conclusion(summary), BEFOREHAND]
    if picture:
        parts.append(f"![Measured against predicted tokens/s, machine by machine]({picture})\n")
    parts += _groups(comparison)
    parts.append("## Where it is worst\n")
    rows = [(*point_cells(row), _reason(row)) for row in comparison.worst()]
    parts.append(table((*POINT_HEAD, "why"), map(_plain, rows)))
    parts += ["## Every point\n", "Speeds in tokens/s.\n"]
    parts.append(table(POINT_HEAD, [_plain(point_cells(row)) for row in comparison.rows]))
    if comparison.left_out:
        parts += ["## What cannot be expressed\n", _left_out(comparison)]
    if comparison.strategies is not None:
        parts += ["## Which experts to put on the GPU: ktransformers' strategies\n"]
        parts += _strategies(comparison.strategies)
    parts += ["## Sources\n", _sources(comparison)]
    return "\n".join(parts)


def summary_cells(summary: Mapping[str, Errors]) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the summary, then others' figures."""
    for name, errors in summary.items():
        low, high = percent(1 / errors.factor - 1), percent(errors.factor - 1)
        yield (
            name,
            str(errors.points),
            _size(errors.median),
            _size(errors.p90),
            f"{low} to {high}",
            "-" if errors.inside is None else f"{100 * errors.inside:.0f} %",
        )
    for name, median in OTHERS:
        yield name, "", median, "", "", ""


def point_cells(row: Compared) -> tuple[str, ...]:
    """Return the row of a point."""
    point = row.point
    return (
        *(point.machine, point.model, point.bits, point.runtime),
        f"{number(row.cpu_layers)} of {row.layers}",
        number(point.tokens_per_s),
        number(row.held_out.tokens_per_s),
        percent(row.held_out.error),
        number(row.in_sample),
        percent(row.in_sample_error),
    )


def groups(comparison: Comparison) -> dict[str, list[tuple[str, ...]]]:
    """Return rows of errors by machine, by model and by setting."""
    kinds = {
        "machine": comparison.by(lambda row: row.point.machine),
        "model": comparison.by(lambda row: row.point.model),
        "experts on CPU": comparison.by(lambda row: row.experts_on_cpu),
    }
    return {kind: [_group(name, rows) for name, rows in of.items()] for kind, of in kinds.items()}


def _group(name: str, rows: Sequence[Compared]) -> tuple[str, ...]:
    held = [row.held_out.error for row in rows]
    return (
        name,
        str(len(rows)),
        _size(float(np.median(np.abs(held)))),
        percent(max(held, key=abs)),
        _size(float(np.median(np.abs([row.in_sample_error for row in rows])))),
    )


def _groups(comparison: Comparison) -> Iterator[str]:
    for kind, rows in groups(comparison).items():
        yield f"## By {kind}\n"
        yield table((kind, *GROUP_HEAD[1:]), map(_plain, rows))


def _conclusion(summary: Mapping[str, Errors]) -> str:
    ours = summary.get("between two calibrated points, llama.cpp")
    line = summary.get("the same by a straight line, llama.cpp")
    if ours is None or line is None:
        return ""
    return (
        f"Between two calibrated points of llama.cpp we are off by {_size(ours.median)} (median)"
        f" and {_size(ours.p90)} (p90), a straight line in the number of layers on the CPU by"
        f" {_size(line.median)} and {_size(line.p90)}: with two points of the very model on the"
        " very machine, little is left to gain over the line. What the terms give is what no line"
        " can: a machine, a model or a width that was not measured.\n"
    )


def _reason(row: Compared) -> str:
    point = row.point
    return REASONS.get((point.machine, point.model, point.bits, point.runtime), "not known")


def _left_out(comparison: Comparison) -> str:
    counts: dict[tuple[str, ...], int] = {}
    for point in comparison.left_out:
        key = (point.machine or "-", point.model, point.bits, point.runtime, point.why_not)
        counts[key] = counts.get(key, 0) + 1
    rows = [_plain((*key[:-1], str(count), key[-1])) for key, count in counts.items()]
    return table(("machine", "model", "bits", "runtime", "points", "why not"), rows)


def _strategies(found: Strategies) -> Iterator[str]:
    total, clear = found.pairs(), found.pairs(found.noise)
    yield (
        "Four GPUs in tensor parallel cannot be expressed, so the level is calibrated on two of the"
        " points, front-loading with no and with all experts on the GPU; the question is the"
        " order of the strategies in between. Random and uniform choices get calls as they get"
        " experts, and are one to the model. Frequency and the dynamic update need the popularity"
        " of experts, which was not published with the speeds: it comes from the routing of"
        " another model, DeepSeek-V2-Lite, in which the dynamic update goes by the first half of"
        " each sequence. The model charges nothing for an update.\n"
    )
    yield (
        f"{total[0]} of {sum(total[:2])} pairs that the model tells apart are in the measured order"
        f" ({total[2]} are ties in the model). With no and with all experts on the GPU all"
        f" strategies are one setting, measured up to {100 * found.noise:.1f} % apart; of the pairs"
        f" that differ by more, {clear[0]} of {sum(clear[:2])}. Median error of the speeds:"
        f" {_size(found.error)}. The dynamic update is the exception: while few experts are on the"
        " GPU it gains far more than the model says, as if the experts of one sequence were easier"
        " to foresee than in the other model's traces; when most are, it falls behind a fixed"
        " choice by frequency, which a model without a cost of updating cannot show.\n"
    )
    names = list(dict.fromkeys(name for at in found.ratios for name in at.measured))
    head = ("experts on GPU", *names, "pairs alike", "Kendall's tau-b")
    rows = []
    for at in found.ratios:
        alike, opposed, _ = at.pairs()
        pairs = [(at.measured.get(name), at.predicted.get(name)) for name in names]
        speeds = [f"{number(there)} / {number(ours)}" for there, ours in pairs]
        counts = f"{alike} of {alike + opposed}"
        rows.append((f"{at.percent:g} %", *speeds, counts, f"{at.kendall_tau:.2f}"))
    errors = [percent(found.median_error(name)) for name in names]
    rows.append(("median error", *errors, f"{total[0]} of {sum(total[:2])}", ""))
    yield "Tokens/s, measured / predicted:\n"
    yield table(head, map(_plain, rows))
    yield f"Popularity: {plain(found.source)}.\n"


def _sources(comparison: Comparison) -> str:
    points = [row.point for row in comparison.rows] + list(comparison.left_out)
    sources = dict.fromkeys(point.source for point in points)
    return "".join(f"- {plain(source)}\n" for source in sources)


def _size(error: float) -> str:
    """Return an error without its sign."""
    return percent(error).removeprefix("+")


def _plain(row: Sequence[str]) -> list[str]:
    return [plain(text) for text in row]
