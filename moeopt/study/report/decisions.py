"""What two solutions of one instance decide differently, in words."""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

Difference = tuple[int, str, str, str]
"""How much it matters (tokens, slices ...), what it is about, and what each solution does."""


def differences(problem: str, instance: Any, ours: Any, best: Any) -> list[tuple[str, str, str]]:
    """Return (what, ours, best) for each decision that differs, what matters most first.

    An empty list for a problem whose decisions have no names here.
    """
    named = NAMED.get(problem)
    found: list[Difference] = [] if named is None else list(named(instance, ours, best))
    return [(what, a, b) for _, what, a, b in sorted(found, key=lambda one: -one[0])]


def _expert(number: int, tokens: int) -> str:
    return f"expert {number} ({tokens} token{'s' if tokens != 1 else ''})"


def _runs(experts: Sequence[Any], ours: Any, best: Any) -> Iterator[Difference]:
    for expert, a, b in zip(experts, ours.assignment, best.assignment, strict=True):
        if a != b:
            yield (
                expert.tokens,
                _expert(expert.expert, expert.tokens),
                a or "nowhere",
                b or "nowhere",
            )


def _tri_domain(instance: Any, ours: Any, best: Any) -> Iterator[Difference]:
    yield from _runs(instance.experts, ours, best)


def _relayout(instance: Any, ours: Any, best: Any) -> Iterator[Difference]:
    moves = [{m.expert: m for m in solution.migrations} for solution in (ours, best)]
    for expert in instance.experts:
        a, b = (_move(of.get(expert.expert)) for of in moves)
        if a != b:
            yield expert.tokens, f"migration of {_expert(expert.expert, expert.tokens)}", a, b
    yield from _runs(instance.experts, ours, best)


def _move(migration: Any) -> str:
    if migration is None:
        return "none"
    return f"{migration.kind}" + ("" if migration.dimm is None else f" to DIMM {migration.dimm}")


def _layout(instance: Any, ours: Any, best: Any) -> Iterator[Difference]:
    """Compare what lies in HBM, what is localized (to which DIMM is arbitrary) and what runs."""
    for row in range(instance.experts):
        tokens = sum(scenario.tokens[row] for scenario in instance.scenarios)
        a, b = (_lies(solution, row) for solution in (ours, best))
        if a != b:
            yield tokens, f"layout of {_expert(row, tokens)}", a, b
    several = len(instance.scenarios) > 1
    for number, scenario in enumerate(instance.scenarios):
        where = f"window {number}, " if several else ""
        rows = zip(scenario.tokens, ours.assignment[number], best.assignment[number], strict=True)
        for row, (tokens, a, b) in enumerate(rows):
            if a != b:
                yield tokens, where + _expert(row, tokens), a or "nowhere", b or "nowhere"


def _lies(solution: Any, row: int) -> str:
    spread = "striped" if solution.dimm[row] is None else "localized"
    return f"{spread}, in HBM as well" if solution.resident[row] else spread


def _counts(ours: Sequence[Any], best: Sequence[Any], unit: str) -> Iterator[Difference]:
    for layer, (a, b) in enumerate(zip_longest(ours, best)):
        if a != b:
            yield abs((a or 0) - (b or 0)), f"layer {layer}", f"{a or 0} {unit}", f"{b or 0} {unit}"


def _deferral(instance: Any, ours: Any, best: Any) -> Iterator[Difference]:
    yield from _counts(ours.deferred, best.deferred, "deferred")


def _cache(instance: Any, ours: Any, best: Any) -> Iterator[Difference]:
    yield from _counts(ours.ways, best.ways, "ways")


def _balance(instance: Any, ours: Any, best: Any) -> Iterator[Difference]:
    whole = instance.ndp_units * instance.slices_per_unit
    rows = zip(instance.experts, ours.gpu_slices, best.gpu_slices, strict=True)
    for expert, mine, theirs in rows:
        a, b = sum(mine), sum(theirs)
        if a != b:
            what = f"the GPU's part of {_expert(expert.expert, expert.tokens)}"
            choices = (f"{count} of {whole} slices" for count in (a, b))
            yield expert.tokens * abs(a - b), what, *choices


def _bitwidth(instance: Any, ours: Any, best: Any) -> Iterator[Difference]:
    for number, layer in enumerate(instance.layers):
        for expert, a, b in zip(layer.experts, ours.bits[number], best.bits[number], strict=True):
            if a != b:
                matters = abs(_loss(instance, expert, a) - _loss(instance, expert, b))
                yield matters, f"layer {number}, expert {expert.expert}", _bits(a), _bits(b)


def _loss(instance: Any, expert: Any, width: int | None) -> int:
    return 0 if width is None else int(expert.loss[instance.bits.index(width)])


def _bits(width: int | None) -> str:
    return "no width" if width is None else f"{width} bit{'s' if width != 1 else ''}"


def _placement(instance: Any, ours: Any, best: Any) -> Iterator[Difference]:
    tokens: dict[tuple[int, int], int] = {}
    for step in instance.steps:
        for layer, active in enumerate(step):
            for expert, count in active:
                tokens[layer, expert] = tokens.get((layer, expert), 0) + count
    for layer, (a, b) in enumerate(zip(ours.gpu, best.gpu, strict=True)):
        for expert in sorted(set(a) ^ set(b)):
            count = tokens.get((layer, expert), 0)
            where = ("GPU", "other side") if expert in a else ("other side", "GPU")
            yield count, f"layer {layer}, {_expert(expert, count)}", *where


NAMED: dict[str, Callable[[Any, Any, Any], Iterator[Difference]]] = {
    "tri_domain": _tri_domain,
    "relayout": _relayout,
    "layout": _layout,
    "deferral": _deferral,
    "balance": _balance,
    "cache": _cache,
    "bitwidth": _bitwidth,
    "placement": _placement,
}
"""Problem -> what yields its differences."""
