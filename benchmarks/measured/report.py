"""docs/measured.md: how far predictions are off on machines that were held out, and where."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.measured.crossvalidation import (
    CrossValidated,
    Group,
    by_curve,
    by_machine,
    by_model,
    coverage,
    coverage_by_kind,
    expressible,
    factor_holding,
    host_rates,
    kind_of,
    repeats,
)
from benchmarks.measured.effects import Held
from benchmarks.measured.points import MeasuredPoint
from benchmarks.measured.strategies import Strategies, compare_strategies
from benchmarks.rooms.sim import TERMS, amounts
from benchmarks.rooms.study import interval

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
            factor=factor_holding(held),
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
    return held.point.setting is not None and not held.point.setting.machine.gpus


def _context(held: Held) -> int:
    return 0 if held.point.setting is None else held.point.setting.context.depth


def bandwidth_alone(points: Sequence[MeasuredPoint]) -> list[Held]:
    """Predict by the plain rule: bytes over 0.6 of the peak bandwidths."""
    reads = [TERMS.index(t) for t in ("gpu_read", "gpu_kv", "host_read", "oblivious_read")]
    found = []
    for point in points:
        if point.setting is not None:
            us = amounts(point.setting, point.host_calls)[reads].sum() * 0.8 / BANDWIDTH_SHARE
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
an 80 % interval that other machines' errors made: the least factor that holds 80 % of their points.

Five choices were made after a first look at held-out errors: expectations and uncertainties of six
terms; the share of its peak that a host's memory reaches where nobody measured it; that under
Windows only one of two sockets computes (machine 6138); how nearly reads and computing overlap; and
that every point counts alike in an interval (where a machine's n points counted as the root of n,
83 % of all points were inside, and 89 % on several sockets). `--forms` prints the errors with other
choices of terms, and with each choice made without the machine that it is tried on.
"""

WRONG = """## What is still wrong

- Several sockets, a runtime that does not place weights by socket: reads count as spread evenly
  over the sockets' memories. That explains two machines of four. The others (6454s under an early
  llama.cpp; e5-2697a, whose BIOS setting alone makes 2.8 times) are off by up to a factor of two.
- Latent attention under llama.cpp on the A100's virtual machine takes three times as long per layer
  as elsewhere. Calibrated on such a model, other models come out slower than they are.
- 1-bit formats on old cores (7980xe), a machine that uses four of eight GPUs (7543) and a speed
  that its author calls too slow (hx370) are off by a factor of two to three; they stay in.
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
    yield _row("another model's curve", found.llama.other_curves, by_curve)
    yield _row("without curves above the memory's peak", found.llama.possible_curves, by_curve)
    yield "\nOn machines with points of several models:\n"
    yield "| predicted | models | points | median | p90 | 80 %: factor | inside |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    several = found.llama.several
    rows = [
        ("calibrated on another model's points", "by_another"),
        ("not calibrated", "not_calibrated"),
        ("by two effects of the machine, from all others", "by_effects"),
        ("by all its models, this one included", "by_all"),
    ]
    for name, which in rows:
        yield _row(name, [one for own in several for one in getattr(own, which)], by_model)
    yield _effects(found)
    apart = repeats([p for p in points if p.runtime != "ktransformers"])
    yield (
        f"{len(apart)} pairs of public speeds of one machine in one setting, by what is published"
        f" of it, are {100 * float(np.median(apart)):.1f} % apart (median;"
        f" p90 {100 * float(np.quantile(apart, 0.9)):.0f} %).\n"
    )
    rates = host_rates(p for p in points if p.runtime != "ktransformers")
    said = "; ".join(
        f"{name} {own[0].gb_s:.0f} to {own[-1].gb_s:.0f} in {len(own)} curves, of a peak of"
        f" {own[0].peak_gb_s:.0f}"
        for name, own in rates.items()
    )
    above = sum(own[-1].above_peak for own in rates.values())
    yield (
        "The curves of several models are those of three machines. What their hosts read of"
        " experts, in GB/s, by bytes and the time that a curve's two ends are apart, is another"
        f" rate for each model: {said}. Costs per layer and per expert lower a rate and explain"
        f" part of it; nothing explains one above the memory's peak, which {above} of the machines"
        " have: what is published of them is not all that ran.\n"
    )


def _effects(found: CrossValidated) -> str:
    """Return why another model helps little: how large the effects of machine and model are."""
    several = found.llama.several
    machine, model, noise = (
        np.array([getattr(own.effects, name) for own in several])
        for name in ("machine", "model", "noise")
    )
    sizes = [
        f"{100 * of.min():.0f} to {100 * of.max():.0f}" for of in (*machine.T, *model.T, noise)
    ]
    errors = [own.expected for own in several], [own.left for own in several]
    expected, left = (100 * float(np.median(np.concatenate(some))) for some in errors)
    medians = [
        100 * Errors.of([one for own in several for one in getattr(own, which)]).machine_median
        for which in ("by_another", "not_calibrated")
    ]
    return (
        "\nCalibrated on at least two points, as `moeopt calibrate` asks for. What the terms leave"
        f" is an effect of the machine (standard deviation {sizes[0]} % of the time on the GPU,"
        f" {sizes[1]} % of that on the host), one of the model on it ({sizes[2]} and {sizes[3]} %),"
        f" and a point's own ({sizes[4]} %), each estimated without the machine that is predicted."
        " Another model shows the sum of its own effect and the machine's. By that half of the"
        f" errors should be below {expected:.1f} %, and below {left:.1f} % were the machine known"
        f" exactly. Counted by machine the medians are {medians[0]:.1f} % calibrated and"
        f" {medians[1]:.1f} % not. So a calibration on another model is no better than none where"
        " the profile is near; two points of the model itself are. Therefore other models keep the"
        " profile's costs unless half of the points that are calibrated on lie outside its 80 %"
        " interval, and all points of a model then count as one of the machine.\n"
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
    near, far = found.gains(TEN_POINTS)
    within = max(abs(a - b) for a, b in near.values())
    said = "; ".join(
        f"at {p:g} % measured {100 * a:+.0f}, predicted {100 * b:+.0f} %"
        for p, (a, b) in far.items()
    )
    slower = {p: found.at(p).off("uniform") for p in far}
    faster = {p: found.at(p).off("frequency") for p in far}
    uniform, frequency = (
        " and ".join(f"{100 * abs(of[p]):.0f}" for p in far) for of in (slower, faster)
    )
    shares = " and ".join(f"{100 * found.implied[p][0]:.1f}" for p in far)
    ours = " and ".join(f"{100 * found.implied[p][1]:.1f}" for p in far)
    last = found.ratios[-1]
    twins = 100 * (last.measured["random"] / last.measured["uniform"] - 1.0)
    return (
        f"Frequency over uniform is predicted within {100 * within:.0f} points at"
        f" {len(near)} of {len(near) + len(far)} ratios; not with few experts on the CPU: {said}."
        f" There uniform is predicted {uniform} % too fast and frequency {frequency} % too slow."
        f" Frequency's own speeds ask for {shares} % of the calls on the GPU; the other model's"
        f" popularity gives {ours}. The popularity of the model that was measured is not published,"
        " and no routing at hand is of a model with 256 experts or more, so the tail of it"
        " cannot be had without these speeds. Random and uniform are one setting in expectation,"
        f" and {twins:.0f} % apart at {last.percent:g} %: single speeds are no surer than that.\n"
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
