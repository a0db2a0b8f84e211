"""docs/measured.md: how far predictions are off on machines that were held out, and where."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchmarks.measured.crossvalidation import (
    LEAST_MACHINES,
    CrossValidated,
    Group,
    by_curve,
    by_machine,
    by_model,
    coverage,
    factor_holding,
    host_rates,
    inside,
    repeats,
)
from benchmarks.measured.effects import Held
from benchmarks.measured.nested import kind_of_point
from benchmarks.measured.points import MeasuredPoint
from benchmarks.measured.prompts import Prompts
from benchmarks.measured.strategies import Strategies, compare_strategies
from benchmarks.rooms.sim import TERMS, Machine, amounts, vendor_of
from benchmarks.rooms.study import interval

LONG = 4096
"""Tokens of context from which a point counts as one of long context."""

BANDWIDTH_SHARE = 0.6
"""The plain rule: bytes over this share of the peak bandwidths, and nothing else."""

SERVERS = (
    *("a100", "trpro", "9355", "7980xe", "6454s", "e5-2697a", "6138", "7543", "9135", "3995wx"),
    *("7975wx", "2xa6000", "pro6000", "2x4090+8480", "6980p", "4090+9004", "gh200", "10900x"),
)
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


Rule = Callable[[MeasuredPoint], bool]


def classes() -> dict[str, Rule]:
    """Return every class of machines and settings, and whether a point is in it."""

    def of_kind(kind: str) -> Rule:
        return lambda point: kind_of_point(point) == kind

    return {
        "all": lambda point: True,
        "one socket, at most one NVIDIA card": _plain,
        "consumer": lambda point: not point.group.startswith(SERVERS),
        "server or workstation": lambda point: point.group.startswith(SERVERS),
        "all on the GPU": of_kind("all on the GPU"),
        "GPU and CPU": of_kind("GPU and CPU"),
        "CPU only": lambda point: not _machine(point).gpus,
        "several GPUs": lambda point: len(_machine(point).gpus) > 1,
        "several sockets": of_kind("several sockets"),
        "unified memory": of_kind("unified memory"),
        "AMD GPU": lambda point: _vendor(point) == "amd",
        "Apple GPU": lambda point: _vendor(point) == "apple",
        "Intel GPU": lambda point: _vendor(point) == "intel",
        "long context": lambda point: _depth(point) >= LONG,
    }


def _machine(point: MeasuredPoint) -> Machine:
    assert point.setting is not None
    return point.setting.machine


def _vendor(point: MeasuredPoint) -> str | None:
    gpus = _machine(point).gpus
    return vendor_of(gpus[0].only("gpu").name) if gpus else None


def _plain(point: MeasuredPoint) -> bool:
    machine = _machine(point)
    return (
        len(machine.nodes) < 2
        and len(machine.gpus) < 2
        and not (machine.gpus and machine.unified)
        and _vendor(point) is None
    )


def _depth(point: MeasuredPoint) -> int:
    return 0 if point.setting is None else point.setting.context.depth


def reversals(held: Sequence[Held]) -> tuple[int, int]:
    """Return how many pairs are in the measured order, and how many there are.

    Pairs of one machine, model and context that differ by its GPUs, its sockets or what lies on
    which GPU, and by more than `REVERSED` in speed.
    """
    right = pairs = 0
    for one, other in combinations(held, 2):
        a, b = one.point, other.point
        if a.group != b.group or _same(a) != _same(b) or _parts(a) == _parts(b):
            continue
        measured = np.log(a.tokens_per_s / b.tokens_per_s)
        if abs(measured) > np.log(REVERSED):
            pairs += 1
            right += (one.tokens_per_s > other.tokens_per_s) == (measured > 0)
    return right, pairs


REVERSED = 1.1


def _same(point: MeasuredPoint) -> tuple[object, ...]:
    assert point.setting is not None
    model, depth = point.setting.model, point.setting.context.depth
    return point.model, point.bits, point.runtime, depth // 1024, model.top_k, model.kv_widths


def _parts(point: MeasuredPoint) -> tuple[object, ...]:
    machine = _machine(point)
    return len(machine.gpus), len(machine.nodes), point.between_gpus


def _within(held: Sequence[Held]) -> tuple[float, float]:
    """Return the interval of the median over machines, each of which counts once."""
    sizes: dict[object, list[float]] = {}
    for one in held:
        sizes.setdefault(by_machine(one.point), []).append(abs(one.error))
    medians = [float(np.median(own)) for own in sizes.values()]
    return interval(medians, [str(name) for name in sizes]) or (0.0, 1.0)


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

Written by `python -m benchmarks.measured --write` (3 CPU minutes) from `benchmarks/measured`:
`points.csv`, `prompts.csv` and, in a folder that `MOEOPT_MEASURED` names, the figures of
`withheld.csv`, whose pages have no address. Without that folder the command makes this page of the
public points alone. Errors by machine, what is left out and the sources:
`benchmarks/measured/details.md`.

Each machine is predicted once, by a fit and by choices that have not seen it (*nested*). The
choices are the form of the terms, the spreads that are expected beforehand, and the scale of the
intervals; inner folds make them, which leave one further machine out in turn. *Inner* is the error
by which they were made, with all machines: the difference is what choosing makes errors look
smaller by. Errors are in size, of tokens/s, relative to what was measured. *Median* is the median
over machines of the median over their points, *p90* is over points, *inside* the share of points in
their own 80 % interval. A class with fewer than three machines has no numbers.

An interval is the expected size of the error in that setting: how uncertain the costs are
there, what a machine does to the times on GPU and host by itself (a random effect), and a point's
own; times the factor that held 80 % of the errors of settings of its kind, in which other kinds
count as ten points together. So a class that was never measured has the wide interval of what is
expected of it, and a line that says so.

Not nested are what the terms are (`moeopt/sim/costs/terms.toml`), the machines' data, and by what
inner folds choose. Set after a look at held-out errors were: that wider memories are reached less;
that hand-overs to another vendor's GPU are a factor of their own; the growth of a barrier with
threads that is expected (1.6 before, 1.4 now); that nothing is fitted to machines whose host is a
guess, as before. Inner folds choose by the median of machines, as before; by their mean error, none
counted above a factor of 2, which was tried once, the nested median was 18.6 %.
"""

WRONG = """## What is still wrong

- Several sockets, a runtime that does not place weights by socket: reads count as spread evenly
  over the sockets' memories. A BIOS with one node or eight makes a factor of two under llama.cpp on
  one machine (2 x EPYC 9355), which nothing here says.
- Alone of their kind and off by half or more: 1-bit formats on old cores (7980xe), four of eight
  GPUs (7543), a speed that its author calls too slow (hx370), an i7-8700, an M1 Max.
- CPUs of Arm: the rate of their cores on quantised weights is assumed (gh200).
- Vulkan and ROCm are one: a backend is not told apart from the vendor of the GPU.
- Curves of the A100's virtual machine are slower per byte than its memory explains.
"""

DETAILS = """# Measured: machines, what is left out, sources

Written by `python -m benchmarks.measured --write`; do not edit.
"""

SOURCES = """## Sources

Of public pages in quotes the address is not known.
"""


def to_markdown(points: Sequence[MeasuredPoint], found: CrossValidated, read: Prompts) -> str:
    """Return the page."""
    parts = [HEAD, "## By class\n", *_by_class(found, points)]
    parts += ["## What was chosen\n", *_chosen(found)]
    parts += ["## Calibrated\n", *_calibrated(found, points)]
    parts += ["## Prompts\n", *_prompts(read)]
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


def _class_row(name: str, outer: Sequence[Held], inner: Sequence[Held]) -> str:
    """Return a row of numbers, none where there are hardly any machines."""
    machines = len({one.point.group for one in outer})
    if machines < LEAST_MACHINES:
        return f"| {name} | {machines} | {len(outer)} | - | - | - | - |"
    made, before = Errors.of(outer), Errors.of(inner)
    return (
        f"| {name} | {machines} | {made.points} | {100 * made.machine_median:.1f} % |"
        f" {100 * made.p90:.1f} % | {100 * inside(outer):.0f} % |"
        f" {100 * before.machine_median:.1f} % |"
    )


def _by_class(found: CrossValidated, points: Sequence[MeasuredPoint]) -> Iterator[str]:
    yield "| class | machines | points | median, nested | p90 | inside | median, inner |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name, rule in classes().items():
        outer, inner = (
            [one for one in held if rule(one.point)]
            for held in (found.machines, found.nested.inner)
        )
        yield _class_row(name, outer, inner)
    if found.public is not None:
        yield _class_row("all, of the public points alone", found.public.outer, found.public.inner)
    if found.guessed:
        yield _class_row("host's memory is a guess", found.guessed, found.guessed)
    plain = Errors.of(bandwidth_alone([one.point for one in found.machines]))
    yield (
        f"| plain rule: 0.6 of bandwidth | {plain.machines} | {plain.points} |"
        f" {100 * plain.machine_median:.1f} % | {100 * plain.p90:.1f} % | - | - |"
    )
    models = Errors.of(found.models)
    yield (
        f"| a model held out instead | {models.machines} | {models.points} | - |"
        f" {100 * models.p90:.1f} % | - | {100 * models.machine_median:.1f} % |"
    )
    low, high = (f"{100 * end:.1f}" for end in _within(found.machines))
    right, pairs = reversals(found.machines)
    yield (
        f"\nDraws of whole machines give {low} to {high} % (95 %) for the first median. Of"
        f" {pairs} pairs of one machine that differ by its GPUs, its sockets or what lies on which"
        f" GPU, and by more than {100 * (REVERSED - 1):.0f} % in speed, {right} are predicted in"
        " the measured order.\n"
    )


def _chosen(found: CrossValidated) -> Iterator[str]:
    yield "| form | chosen for | median, left out | p90 |"
    yield "|---|--:|--:|--:|"
    for name, held in found.nested.table:
        made = Errors.of(held)
        yield (
            f"| {name} | {found.nested.chosen[name]} machines |"
            f" {100 * made.machine_median:.1f} % | {100 * made.p90:.1f} % |"
        )
    logs, spread = found.nested.fitted.logs[0], found.nested.fitted.covariance[0]

    def factor(name: str) -> str:
        at = TERMS.index(name)
        low, high = (np.exp(logs[at] + side * np.sqrt(spread[at, at])) for side in (-1, 1))
        return f"{np.exp(logs[at]):.2f} ({low:.2f} to {high:.2f})"

    threads = float(np.log2(np.exp(logs[TERMS.index("barrier_threads")])))
    yield (
        f"\nWith all machines: {found.nested.form.name}. Twice the threads make a barrier"
        f" {factor('barrier_threads')} times as long: an exponent of {threads:.2f}, expected"
        f" between 0.5 and 1. A year makes fixed times {factor('version')} times as long, and those"
        f" of linear attention {factor('linear_version')}. A GPU of AMD takes {factor('amd')} times"
        f" as long as one of NVIDIA by the same data sheet, of Apple {factor('apple')}, of Intel"
        f" {factor('intel')}: this as expected, since none was measured. Brackets are one standard"
        " deviation.\n"
    )


def _prompts(read: Prompts) -> Iterator[str]:
    machines = len({one.point.group for one in read.held})
    low, high = sorted(100 * float(np.expm1(one.log)) for one in read.held)[:: len(read.held) - 1]
    yield (
        f"{len(read.held)} prompts on {machines} machines, each machine predicted by a fit to the"
        f" others: median {100 * read.median:.0f} % (errors {low:+.0f} to {high:+.0f} %),"
        f" {100 * read.inside:.0f} % inside. Nothing is chosen; the expected rate of products on"
        " the CPU, and that tiles of fewer than 64 tokens are filled no worse, were set after a"
        " first look, before which the median was 58 %. `moeopt` prints the interval beside every"
        " prompt's speed, and plans by prompts are no surer than that.\n"
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
        f"The curves of several models are those of {len(rates)} machines. What their hosts read of"
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
    every = found.machines + found.guessed
    for name in dict.fromkeys(one.point.group for one in every):
        errors = [one.error for one in every if one.point.group == name]
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
