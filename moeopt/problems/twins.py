"""Instances of loads that were observed and of loads that came later, recognised by provenance.

Two instances are twins if the generator made both from the same machine, model and trace with the
same options, but for those that say which loads they are (`Problem.holdout`); or from the two
parts of a trace that `moeopt.sim.traces.windows` made.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.problem import HELD_OUT, Phases, Stretch
from moeopt.core.wording import shown
from moeopt.problems.registry import get_problem

DRAWN_WINDOWS, DRAWN_TOKENS = "drawn_windows", "drawn_tokens"
"""How much of a workload was drawn, in an instance's options or in the facts of its trace.

Loads of a workload that was drawn for one instance alone go on from no others: how much is drawn
changes what is drawn.
"""

TOLD_APART = ("options", "family", "origin", "layout_loads", "known")
"""Entries of a provenance in which twins may differ; of the options only some may."""


@dataclass(frozen=True)
class Place:
    """Where an instance's loads lie in time.

    Attributes
    ----------
    begin, end
        Of the first step, token or window, and after the last one; of a phase, its number and the
        next.
    held_out
        Whether they are counted from the beginning of a trace's held-out part.
    """

    begin: int
    end: int
    held_out: bool = False

    def until(self, later: "Place") -> int | None:
        """Return how far it is to later loads, 0 if they are the next; None if they overlap.

        To a held-out part it is at least as far.
        """
        if self.held_out != later.held_out:
            return later.begin if later.held_out else None
        return later.begin - self.end if self.end <= later.begin else None


def place_of(instance: InstanceEnvelope) -> Place | None:
    """Return where an instance's loads lie; None if its provenance does not say so."""
    holdout, options = get_problem(instance.problem).holdout, _options(instance)
    if holdout is None or options is None:
        return None
    if isinstance(holdout, Phases):
        value = options.get(holdout.option)
        if value not in holdout.order:
            return None
        return Place(at := holdout.order.index(value), at + 1)
    first, length = _integer(options, holdout.first), _integer(options, holdout.length)
    spacing = 1 if holdout.spacing is None else _integer(options, holdout.spacing, default=1)
    if first is None or length is None or spacing is None:
        return None
    return Place(
        first, first + (length - 1) * spacing + 1, _split(instance).get("part") == HELD_OUT
    )


def family_of(instance: InstanceEnvelope) -> str | None:
    """Return what all twins of an instance agree in, however many loads they have.

    None for an instance without a place in time, for loads of a workload that was drawn for it
    alone, and for those of a trace that reads its text twice, if their provenance says
    "contaminated".
    """
    if place_of(instance) is None or _drawn_alone(instance):
        return None
    if "contaminated" in (instance.provenance or {}):
        return None
    return json.dumps([instance.problem, *_alike(instance)], sort_keys=True, default=str)


def length_of(instance: InstanceEnvelope) -> object:
    """Return how many loads an instance has, as its generator was told; None for a phase."""
    holdout, options = get_problem(instance.problem).holdout, _options(instance)
    return options.get(holdout.length) if options and isinstance(holdout, Stretch) else None


@dataclass(frozen=True)
class Moment:
    """When an instance's loads came, and which ones can be held against them.

    `family` is a hash of what all twins agree in, `length` how many loads there are.
    """

    family: str
    length: str
    place: Place


def moment_of(instance: InstanceEnvelope) -> Moment | None:
    """Return when an instance's loads came; None if its loads have no twins."""
    family, place = family_of(instance), place_of(instance)
    if family is None or place is None:
        return None
    return Moment(sha256(family.encode()).hexdigest(), str(length_of(instance)), place)


def twins(moments: Mapping[str, Moment]) -> Iterator[tuple[str, str, int]]:
    """Yield every instance with each of its later twins, by their keys, and how far they lie apart.

    In the order of time. Only twins of as many steps, tokens or windows: others are not comparable
    with each other.
    """
    groups: dict[tuple[str, str], list[tuple[Place, str]]] = {}
    for key, one in moments.items():
        groups.setdefault((one.family, one.length), []).append((one.place, key))
    for group in groups.values():
        group.sort(key=lambda one: (one[0].held_out, one[0].begin))
        for before, earlier in group:
            for after, later in group:
                if (distance := before.until(after)) is not None:
                    yield earlier, later, distance


def check_later(observed: InstanceEnvelope, later: Sequence[InstanceEnvelope]) -> int:
    """Return how many steps, tokens or windows lie between observed loads and the next later ones.

    Raises
    ------
    InputError
        If one of `later` does not hold later loads of the same, or two of them overlap; one line
        that says why.
    """
    for one in later:
        if (reason := _why_not(observed, one)) is not None:
            raise InputError(f"{one.name}: no later loads of {observed.name}: {reason}")
    places = [place for one in later if (place := place_of(one)) is not None]
    for number, place in enumerate(places):
        for row, other in enumerate(places[:number]):
            if place.until(other) is None and other.until(place) is None:
                raise InputError(
                    f"{later[number].name}: its loads overlap those of {later[row].name}"
                )
    before = place_of(observed)
    return min((before.until(place) or 0 for place in places), default=0) if before else 0


def forecast_saw_later(observed: InstanceEnvelope) -> bool:
    """Tell whether rules of an observed instance decide by a trace that the later loads are in.

    An offline trace is all of the trace but the instance's own loads, unless the generator was told
    what is held out.
    """
    holdout = get_problem(observed.problem).holdout
    if not isinstance(holdout, Stretch) or holdout.unseen is None:
        return False
    told = (_options(observed) or {}).get(holdout.unseen)
    return getattr(observed, "forecast_tokens", None) is not None and not told


def _why_not(observed: InstanceEnvelope, later: InstanceEnvelope) -> str | None:
    if later.problem != observed.problem:
        return f"it is of problem {later.problem}, not {observed.problem}"
    if get_problem(observed.problem).holdout is None:
        return f"decisions of {observed.problem} are made anew for all loads"
    for one in (observed, later):
        whose = "it" if one is later else observed.name
        if _options(one) is None:
            return f"{whose} has no provenance that says where its loads come from"
        if place_of(one) is None:
            return f"{whose} does not say in its provenance where its loads lie in time"
        if _drawn_alone(one):
            return f"{whose} is of a workload that was drawn for it alone; see generate_twins"
        if (said := (one.provenance or {}).get("contaminated")) is not None:
            return f"{whose} is contaminated: {shown(said)}"
    options, others = _alike(observed), _alike(later)
    for mine, its, what in zip(options, others, ("options.", ""), strict=True):
        for name in sorted({*mine, *its}):
            if mine.get(name) != its.get(name):
                values = f"{shown(mine.get(name))} is not {shown(its.get(name))}"
                return f"provenance.{what}{name}: {values}"
    return _why_not_later(observed, later)


def _why_not_later(observed: InstanceEnvelope, later: InstanceEnvelope) -> str | None:
    before, after = place_of(observed), place_of(later)
    if before is None or after is None or before.until(after) is not None:
        return None
    holdout = get_problem(observed.problem).holdout
    if isinstance(holdout, Phases):
        phases = [holdout.order[place.begin] for place in (before, after)]
        return f"{holdout.option}: {phases[1]} does not come after {phases[0]}"
    unit = holdout.length if isinstance(holdout, Stretch) else ""
    spans = [f"{place.begin} to {place.end - 1}" for place in (before, after)]
    relation = "overlap" if before.begin < after.end else "come before"
    if before.held_out != after.held_out:
        relation = "are of the part that was kept; held out are"
    return f"its {unit} {spans[1]} {relation} the observed {spans[0]}"


def _alike(instance: InstanceEnvelope) -> tuple[dict[str, object], dict[str, object]]:
    """Return the options and the rest of a provenance in which twins agree."""
    holdout, provenance = get_problem(instance.problem).holdout, instance.provenance or {}
    which = frozenset() if holdout is None else holdout.options
    which -= {holdout.spacing} if isinstance(holdout, Stretch) else frozenset()
    options = {k: v for k, v in (_options(instance) or {}).items() if k not in which}
    rest = {k: v for k, v in provenance.items() if k not in TOLD_APART}
    if split := _split(instance):
        split = {k: v for k, v in split.items() if k != "part"}
        rest["trace"] = rest["trace"] | {"split": split}
    return options, rest


def _drawn_alone(instance: InstanceEnvelope) -> bool:
    """Tell whether a stretch is of a workload of which nobody says how much was drawn."""
    if isinstance(get_problem(instance.problem).holdout, Phases):
        return False
    trace, options = (instance.provenance or {}).get("trace"), _options(instance) or {}
    if not isinstance(trace, dict) or "workload" not in trace:
        return False
    return options.get(DRAWN_WINDOWS) is None and trace.get(DRAWN_TOKENS) is None


def _split(instance: InstanceEnvelope) -> dict[str, object]:
    """Return what a provenance says of a trace's split; empty if it was not split."""
    trace = (instance.provenance or {}).get("trace")
    split = trace.get("split") if isinstance(trace, dict) else None
    return split if isinstance(split, dict) else {}


def _options(instance: InstanceEnvelope) -> Mapping[str, object] | None:
    options = (instance.provenance or {}).get("options")
    return options if isinstance(options, dict) else None


def _integer(options: Mapping[str, object], name: str, default: int | None = None) -> int | None:
    value = options.get(name, default)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
