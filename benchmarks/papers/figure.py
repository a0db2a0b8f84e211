"""A published figure with ours beside it: how far off, what kind of evidence, which verdict."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from benchmarks.papers.published import Interval, Published

Kind = Literal["predicted", "assumed", "selected", "limit", "input"]
"""Where our value comes from.

predicted: from stated numbers alone. assumed: needs an assumption that has a source independent of
the figure. selected: an assumption chosen because it fits; weak evidence. limit: an upper limit
that knows what no system can know. input: the figure is a parameter of the model, or one was taken
from it, or a cap that the paper states decides it. Nothing is predicted by these two. Where several
traces, readings or grids of ours could stand for the paper's and it does not say which, the value
is that of the one farthest off, or the mean of all where they are many.
"""

Values = tuple[float | None, ...]

REPRODUCES, IN_10, IN_25, NO = "reproduces", "within 10 %", "within 25 %", "no"
INPUT, LIMIT = "input", "upper limit"
NOT_COMPUTABLE = "not computable"
"""The paper does not state or define what it would take."""

OPEN = "open"
"""The package lacks what it would take."""

THRESHOLDS = ((0.05, REPRODUCES), (0.10, IN_10), (0.25, IN_25))
"""Largest error, as a share, for each verdict."""

ROUNDING = 1e-9
"""Errors are compared with this much room, so that a binary fraction decides nothing."""


@dataclass(frozen=True)
class Ours:
    """What our model gives for a published figure.

    Attributes
    ----------
    values
        One for each published value, in the published unit; None where it cannot be computed.
    kind
        What kind of evidence it is.
    assumptions
        One sentence each: what is assumed beyond what the paper states, and from where.
    note
        What a reader must know to judge it, such as the reason of a miss.
    baseline, optimum
        The same figure for the best baseline in place of the paper's system, and with the exact
        decision in place of the paper's heuristic; empty where there is no such thing.
    intervals
        The 95 % interval of each value's mean over the seeds; empty if nothing is drawn.
    seeds
        How many seeds the values are the mean of; 0 if nothing is drawn.
    missing
        What the figure is open for: a part that the package lacks, or one that would explain a
        miss; empty where nothing is known to be missing.
    """

    values: Values
    kind: Kind
    assumptions: tuple[str, ...]
    note: str = ""
    baseline: Values = ()
    optimum: Values = ()
    intervals: tuple[Interval | None, ...] = ()
    seeds: int = 0
    missing: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: {self.kind!r} is none of {', '.join(get_args(Kind))}")
        for name in ("baseline", "optimum", "intervals"):
            if len(getattr(self, name)) not in (0, len(self.values)):
                raise ValueError(f"{name}: must have as many values as ours, or none")


@dataclass(frozen=True)
class Figure:
    """A published figure and ours."""

    published: Published
    ours: Ours

    def __post_init__(self) -> None:
        need, have = len(self.published.values), len(self.ours.values)
        if need != have:
            raise ValueError(f"{self.published.id}: has {need} published values and {have} of ours")

    @property
    def errors(self) -> Values:
        """Of each value: ours / published - 1; None where ours is unknown."""
        pairs = zip(self.published.values, self.ours.values, strict=True)
        return tuple(None if value is None else there.error(value) for there, value in pairs)

    @property
    def worst(self) -> float | None:
        """The largest error in size anywhere in the intervals, None if nothing is known."""
        intervals = self.ours.intervals or (None,) * len(self.ours.values)
        errors = [
            abs(there.error(at))
            for there, value, around in zip(
                self.published.values, self.ours.values, intervals, strict=True
            )
            if value is not None
            for at in ((value,) if around is None else (around.low, around.high))
        ]
        return max(errors, default=None)

    @property
    def is_partial(self) -> bool:
        """Whether some values are known and others not: the verdict is that of the known ones."""
        return None in self.ours.values and self.worst is not None

    @property
    def verdict(self) -> str:
        """The verdict in words, by the worst error of the known values and their intervals."""
        if self.ours.kind == "input":
            return INPUT
        if self.ours.kind == "limit":
            return LIMIT
        if self.worst is None:
            return OPEN if self.ours.missing else NOT_COMPUTABLE
        for limit, words in THRESHOLDS:
            if self.worst <= limit + ROUNDING:
                return words
        return NO

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        p, o = self.published, self.ours
        return {
            "id": p.id,
            "paper": p.paper,
            "where": p.where,
            "quantity": p.quantity,
            "unit": p.unit,
            "condition": p.condition,
            "beside": p.beside.split(),
            "published": [[value.low, value.high] for value in p.values],
            "ours": list(o.values),
            "intervals": [None if i is None else [i.low, i.high] for i in o.intervals],
            "seeds": o.seeds,
            "errors": list(self.errors),
            "kind": o.kind,
            "assumptions": list(o.assumptions),
            "note": o.note,
            "missing": o.missing,
            "baseline": list(o.baseline),
            "optimum": list(o.optimum),
            "verdict": self.verdict,
            "partial": self.is_partial,
        }
