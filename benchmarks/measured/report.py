"""docs/measured.md: how far predictions are off on machines that were held out, and where."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.measured.crossvalidation import (
    CrossValidated,
    Group,
    Held,
    by_curve,
    by_machine,
    coverage,
    coverage_by_kind,
    expressible,
    factor_holding,
    host_rates,
    kind_of,
    repeats,
)
from benchmarks.measured.points import MeasuredPoint
from benchmarks.measured.strategies import Strategies, compare_strategies
from moeopt.sim.machines.runtimes.setting import amounts
from moeopt.sim.machines.runtimes.terms import TERMS
from moeopt.study.table import interval

LONG = 4096
"""Tokens of context from which a point counts as one of long context."""

BANDWIDTH_SHARE = 0.6
"""The plain rule: bytes over this share of the peak bandwidths, and nothing else."""

SERVERS = ("a100", "trpro", "9355", "7980xe", "6454s", "e5-2697a", "6138", "7543", "9135", "3995wx")
"""Groups of machines beginning so are servers and workstations; the others are consumers'."""


@dataclass(frozen=True)
class Errors:
    """How far predictions are off: errors in size, relative to what was measured.

    Attributes
    ----------
    machines
        How many machines, curves or whatever is independent.
    machine_median
        Median over machines of the median over their points.
    inside
        Share of points in an 80 % interval that was made of other machines' errors; None if there
        are none.
    """

    points: int
    machines: int
    machine_median: float
    p90: float
    factor: float
    inside: float | None

    @classmethod
    def of(cls, held: Sequence[Held], group: Group = by_machine) -> "Errors":
        """Summarise predictions."""
        sizes: dict[object, list[float]] = {}
        for one in held:
            sizes.setdefault(group(one.point), []).append(abs(one.error))
        every = [size for own in sizes.values() for size in own]
        return cls(
            points=len(held),
            machines=len(sizes),
            machine_median=float(np.median([np.median(own) for own in sizes.values()])),
            p90=float(np.quantile(every, 0.9)),
            factor=factor_holding(held, group),
            inside=coverage(held, group),
        )


def classes(found: CrossValidated) -> Iterator[tuple[str, list[Held]]]:
    """Yield every class of machines and settings, and the held-out predictions in it."""
    stated = [one for one in found.machines if not one.point.assumed]
    yield "all whose memory is stated", stated
    yield "all", found.machines
    yield "host's memory not stated", [one for one in found.machines if one.point.assumed]
    rules: list[tuple[str, Callable[[Held], bool]]] = [
        ("consumer", lambda one: not _server(one)),
        ("server or workstation", _server),
        ("all on the GPU", lambda one: kind_of(one) == "all on the GPU"),
        ("GPU and CPU", lambda one: kind_of(one) == "GPU and CPU"),
        ("CPU only", lambda one: one.point.setting is not None and _no_gpu(one)),
        ("several sockets", lambda one: kind_of(one) == "several sockets"),
        ("long context", lambda one: _context(one) >= LONG),
        ("unified memory", lambda one: one.point.machine == "dgx-spark"),
    ]
    for name, rule in rules:
        yield name, [one for one in stated if rule(one)]


def _within(held: Sequence[Held]) -> tuple[float, float]:
    """Return the interval of the median over machines, each of which counts once."""
    sizes: dict[object, list[float]] = {}
    for one in held:
        sizes.setdefault(by_machine(one.point), []).append(abs(one.error))
    medians = [float(np.median(own)) for own in sizes.values()]
    return interval(medians, [str(name) for name in sizes]) or (0.0, 1.0)


def _server(held: Held) -> bool:
    return held.point.group.startswith(SERVERS)


def _no_gpu(held: Held) -> bool:
    return held.point.setting is not None and held.point.setting.machine.gpu is None


def _context(held: Held) -> int:
    return 0 if held.point.setting is None else held.point.setting.context


def bandwidth_alone(points: Sequence[MeasuredPoint]) -> list[Held]:
    """Predict by the plain rule: bytes over 0.6 of the peak bandwidths."""
    reads = [TERMS.index(t) for t in ("gpu_read", "gpu_kv", "host_read", "oblivious_read")]
    found = []
    for point in points:
        if point.setting is not None:
            us = amounts(point.setting)[reads].sum() * 0.8 / BANDWIDTH_SHARE
            found.append(Held(point, float(1e6 / us)))
    return found


TEN_POINTS = 0.1
"""A gain that is predicted within it counts as predicted."""

HEAD = """# Measured: public speeds of real runtimes, and ours

For whoever asks how far to trust `moeopt predict`. Written by `python -m benchmarks.measured
--write` from `benchmarks/measured/points.csv` and a second table, whose rows are not kept here
(`MOEOPT_MEASURED` names its folder). Errors by machine, what is left out and the sources:
`benchmarks/measured/details.md`.

Every point of a machine is left out, the model is fitted to the other machines, and predicts the
point. Errors are in size, of tokens/s, relative to what was measured. *Median* is the median over
machines of the median over their points. *p90* is over points. *Inside* is the share of points in
an 80 % interval that other machines' errors made.

Four choices were made after a first look at held-out errors: expectations and uncertainties of six
terms; the share of its peak that a host's memory reaches where nobody measured it; that under
Windows only one of two sockets computes (machine 6138); and how nearly reads and computing overlap.
`--forms` prints the errors with other choices, and with each choice made without the machine that
it is tried on.
"""

WRONG = """## What is still wrong

- Several sockets, a runtime that does not place weights by socket: reads count as spread evenly
  over the sockets' memories. That explains two machines of four. The others (6454s under an early
  llama.cpp; e5-2697a, whose BIOS setting alone makes 2.8 times) are off by up to a factor of two.
- Latent attention under llama.cpp on the A100's virtual machine takes three times as long per layer
  as elsewhere. Calibrated on such a model, other models come out slower than they are.
- 1-bit formats on old cores (7980xe), a machine that uses four of eight GPUs (7543) and a speed
  that its author calls too slow (hx370) are off by a factor of two to three; they stay in.
- A calibration on one model does not help another model of the machine ("Calibrated"). Other forms
  of the experts' term leave it between 14 and 17 %, and so do other priors.
- Two GPUs count as one after the other, with the harmonic mean of their bandwidths.
- Prompts have no public points here: `moeopt predict --prompt` rests on rates alone.
"""

DETAILS = """# Measured: machines, what is left out, sources

Written by `python -m benchmarks.measured --write`; do not edit.
"""

SOURCES = """## Sources

Of public pages in quotes the address is not known.
"""


def to_markdown(points: Sequence[MeasuredPoint], found: CrossValidated) -> str:
    """Return the page."""
    parts = [HEAD, "## By class\n", *_by_class(found, points)]
    parts += ["## Calibrated\n", *_calibrated(found, points)]
    parts.append(WRONG)
    strategies = compare_strategies(points, found.costs["ktransformers"])
    if strategies is not None:
        parts += ["## ktransformers' strategies\n", _strategies(strategies)]
    return "\n".join(parts)


def details(points: Sequence[MeasuredPoint], found: CrossValidated) -> str:
    """Return the errors by machine, the points that are left out, and the sources."""
    parts = [DETAILS, "## By machine\n", *_by_machine(found)]
    parts += ["## Left out\n", _left_out(points), SOURCES]
    places: dict[str, list[str]] = {}
    for place in sorted({_place(point.source) for point in points} - {""}):
        repository, _, page = place.partition(" ")
        places.setdefault(repository, []).append(page)
    parts += [f"- {of} {'; '.join(pages)}".rstrip() for of, pages in places.items()]
    return "\n".join(parts) + "\n"


def _place(source: str) -> str:
    """Return the page of a source: a repository and what in it, without version and line."""
    page = re.sub(r"^public page |, address not known$", "", source.split("@")[0])
    page = page.split(" line ")[0].removeprefix("github ").strip()
    return re.sub(r"(discussions/\d+|issues/\d+) - .*", r"\1", page)


def _row(name: str, held: list[Held], group: Group = by_machine) -> str:
    e = Errors.of(held, group)
    inside = "-" if e.inside is None else f"{100 * e.inside:.0f} %"
    return (
        f"| {name} | {e.machines} | {e.points} | {100 * e.machine_median:.1f} % |"
        f" {100 * e.p90:.1f} % | {e.factor:.2f} | {inside} |"
    )


def _by_class(found: CrossValidated, points: Sequence[MeasuredPoint]) -> Iterator[str]:
    yield "| class | machines | points | median | p90 | 80 %: factor | inside |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name, held in classes(found):
        if held:
            yield _row(name, held)
    plain = bandwidth_alone([p for p in expressible(points) if not p.assumed])
    yield _row("plain rule: 0.6 of bandwidth", plain)
    yield _row("a model held out instead", found.models)
    stated = [one for one in found.machines if not one.point.assumed]
    low, high = (f"{100 * end:.1f}" for end in _within(stated))
    yield (
        "\nIn the interval of its kind (all on the GPU, GPU and CPU, CPU only, several sockets), as"
        f" `moeopt predict` prints it, lie {100 * coverage_by_kind(stated):.0f} % of the points"
        " whose memory is stated. Draws of whole machines give"
        f" {low} to {high} % (95 %) for the first median.\n"
    )


def _calibrated(found: CrossValidated, points: Sequence[MeasuredPoint]) -> Iterator[str]:
    yield "Calibrated on the two ends of a curve (most and fewest experts on the CPU):\n"
    yield "| predicted | curves | points | median | p90 | 80 %: factor | inside |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    yield _row("between the two points", found.llama.between, by_curve)
    yield _row("the same by a straight line", found.llama.straight, by_curve)
    yield _row("another model of the machine", found.llama.other_models, by_curve)
    yield _row("its curves, not calibrated", found.llama.not_calibrated, by_curve)
    yield _row("by all other models of the machine", found.llama.by_all_others, by_curve)
    yield _row("by all its models, this one included", found.llama.by_all, by_curve)
    apart = repeats([p for p in points if p.runtime != "ktransformers"])
    yield (
        "\nCosts fitted to another model are no nearer than the profile's, and to all other models"
        " neither: what a model differs by from the terms is as large as what a machine does. One"
        " cost for all models of a machine leaves the last row. Beside it: "
        f"{len(apart)} pairs of public speeds of one machine in one setting, by what is published"
        f" of it, are {100 * float(np.median(apart)):.1f} % apart (median;"
        f" p90 {100 * float(np.quantile(apart, 0.9)):.0f} %).\n"
    )
    rates = host_rates(p for p in points if p.runtime != "ktransformers")
    said = "; ".join(
        f"{name} {min(own):.0f} to {max(own):.0f} in {len(own)} curves, of a peak of {peak:.0f}"
        for name, (own, peak) in rates.items()
    )
    above = sum(max(own) > peak for own, peak in rates.values())
    yield (
        "All of it rests on the machines with curves of several models. What their hosts read of"
        " experts, in GB/s, by bytes and the time that a curve's two ends are apart, is another"
        f" rate for each model: {said}. Costs per layer and per expert lower a rate and explain"
        f" part of it; nothing explains one above the memory's peak, which {above} of the machines"
        " have: what is published of them is not all that ran.\n"
    )


def _by_machine(found: CrossValidated) -> Iterator[str]:
    texts = []
    for name in dict.fromkeys(one.point.group for one in found.machines):
        errors = [one.error for one in found.machines if one.point.group == name]
        median = 100 * float(np.median(np.abs(errors)))
        texts.append(f"{name} {median:.1f} ({len(errors)}, {100 * max(errors, key=abs):+.0f})")
    yield f"Median error in % (points, worst): {'; '.join(texts)}.\n"


def _strategies(found: Strategies) -> str:
    alike, opposed, _ = found.pairs(found.noise)
    names = {name for at in found.ratios for name in at.measured}
    off = max(abs(found.median_error(name)) for name in names)
    shares = [at.percent for at in found.ratios]
    return (
        "Four GPUs in tensor parallel cannot be expressed, so the level is calibrated on"
        " front-loading with no and with all experts on the GPU; popularity is that of another"
        f" model: {found.source}. With {min(shares):g} to {max(shares):g} % of the experts on the"
        f" GPU {alike} of {alike + opposed} pairs of strategies that differ by more than"
        f" {100 * found.noise:.1f} % are in the measured order; a strategy's median error is"
        f" at most {100 * off:.1f} %.\n\n"
        f"{_over_uniform(found)}"
    )


def _over_uniform(found: Strategies) -> str:
    """Return how much faster frequency is than uniform, as measured and predicted, and why."""
    gains = {at.percent: at.over("frequency", "uniform") for at in found.ratios}
    far = {p: both for p, both in gains.items() if abs(both[0] - both[1]) > TEN_POINTS}
    near = max(abs(a - b) for p, (a, b) in gains.items() if p not in far)
    said = "; ".join(
        f"at {p:g} % measured {100 * a:+.0f}, predicted {100 * b:+.0f} %, which other shares of"
        f" calls would explain ({100 * found.implied[p][0]:.1f} % in place of"
        f" {100 * found.implied[p][1]:.1f} on the GPU by frequency's speed)"
        for p, (a, b) in far.items()
    )
    last = found.ratios[-1]
    twins = 100 * (last.measured["random"] / last.measured["uniform"] - 1.0)
    return (
        f"Frequency over uniform is predicted within {100 * near:.0f} points at"
        f" {len(gains) - len(far)} of {len(gains)} ratios, not {said}. The popularity is another"
        f" model's, and not so uneven. At {last.percent:g} % random and uniform, one setting in"
        f" expectation, are {twins:.0f} % apart.\n"
    )


def _left_out(points: Sequence[MeasuredPoint]) -> str:
    reasons: dict[tuple[str, str], int] = {}
    for point in points:
        if point.why_not:
            key = (point.machine, point.why_not)
            reasons[key] = reasons.get(key, 0) + 1
    texts = [
        f"{f'{machine}, ' if machine else ''}{why} ({count})"
        for (machine, why), count in reasons.items()
    ]
    return f"With the number of points: {'; '.join(texts)}.\n"
