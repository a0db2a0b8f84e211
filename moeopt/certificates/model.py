"""The MILP model of an instance in integers, in the neutral form that `certificate` reads.

It has the variables and rows of the model that ``milp`` builds, and that `moeopt export` writes, in
the same order, from the integers that those are made of.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations
from math import ceil, floor, gcd, lcm
from typing import Any

from moeopt.certificates.lemmas import LEMMAS
from moeopt.certificates.lemmas.rows import LemmaModel
from moeopt.core.clock import TimeLimitError, checkpoint
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.problems.registry import get_problem

ITEM_WORK = 1.5e-4
"""Units of work for each variable and row of a model: 1.1e-4 to 2.5e-4 s in nine problems."""

LARGEST_BELOW = 10**30
"""Largest number of steps that a form may name."""

PATTERNS = "patterns: binaries of a row by the subset that is chosen"
"""The lemma of `_take_patterns`, whose proof stands there."""

TOGETHER = 9
"""Most binaries of a row of which all subsets are listed."""

Form = Mapping[str, Any]
"""``{"lemma": NAME, "below": STEPS}`` and what else a lemma's model depends on."""

Row = tuple[dict[int, Fraction], Fraction | None, Fraction | None, str]
"""Coefficients by variable, least and largest sum, constraint ID."""


@dataclass(frozen=True)
class NeutralModel:
    """A model for `certificate`, as a JSON object, and how to branch, as `LemmaModel` says it."""

    data: dict[str, Any]
    first: list[int]
    tighten: bool | None = None
    choice: int | None = None


def form_of(certificate: Mapping[str, Any]) -> Form | None:
    """Return which of an instance's models a certificate is about.

    Raises
    ------
    InputError
        If that is no object.
    """
    form = certificate.get("form")
    if form is None or isinstance(form, dict):
        return form
    raise InputError(f"form: must be an object, not {str(form)[:80]}")


def instance_hash(instance: InstanceEnvelope) -> str:
    """Return the SHA-256 of an instance's JSON, whatever file it came from."""
    return hashlib.sha256(instance.model_dump_json().encode()).hexdigest()


def neutral_model(
    instance: InstanceEnvelope, form: Form | None = None, limit: float = float("inf")
) -> NeutralModel:
    """Return a model of an instance in integers: its MILP model, or one that rests on a lemma.

    Parameters
    ----------
    form
        The field ``form`` of a certificate: the lemma's name, and what else the model depends on.
        None: the MILP model.
    limit
        Units of work, about seconds, that building the MILP model may take, by its size.

    Raises
    ------
    TimeLimitError
        If it takes more, as soon as that is known, or where `checkpoint` gives up.
    InputError
        If the form is unknown.
    """
    problem = get_problem(instance.problem)
    if form is not None:
        return _by_lemma(instance, form)
    built: Any = problem.model(instance, "milp")
    known = 0

    def look() -> None:
        nonlocal known
        size = len(built.model.proto.variables) + len(built.model.proto.constraints)
        checkpoint((size - known) * ITEM_WORK)
        known = size
        if size * ITEM_WORK > limit:
            raise TimeLimitError

    look()
    program = built.in_integers((), look)
    order = sorted(range(len(program.names)), key=program.names.__getitem__)
    place = {variable: number for number, variable in enumerate(order)}
    rows = []
    for row in program.rows:
        checkpoint(0.0)
        terms = {
            place[v]: Fraction(c * program.unit[v], row.unit) for v, c in row.terms.items() if c
        }
        side = Fraction(row.twice_the_side, 2 * row.unit)
        constraint_id = "-".join(row.name.split("_")[:2])
        least, most = (None if row.sign == sign else side for sign in (-1, 1))
        rows.append((terms, least, most, constraint_id))
    whole = [program.kept[v] for v in order]
    step = _implied(rows, whole)
    first = list(step)
    for j, v in enumerate(order):
        if not whole[j]:
            step[j], whole[j] = Fraction(1, program.unit[v]), True
    unit = Fraction(built.objective_unit)
    costs = {place[v]: c * program.unit[v] * unit for v, c in program.costs.items() if c}
    objective = [(j, costs[j] * step.get(j, 1)) for j in sorted(costs)]
    common = lcm(*(c.denominator for _, c in objective))
    variables = [
        [*_ends(program.low[v], program.high[v], program.unit[v], step.get(j, Fraction(1))), one]
        for (j, v), one in zip(enumerate(order), whole, strict=True)
    ]
    lines = [line for row in rows for line in _lines(row, step)]
    taken = _take_patterns(variables, lines, {j for j, _ in objective})
    costs_of = [[j, int(c * common)] for j, c in objective]
    constant = int(program.offset * unit * common)
    made = LemmaModel("", variables, lines, costs_of, constant, common, first)
    return _neutral(instance, [PATTERNS] if taken else [], made, {})


def _by_lemma(instance: InstanceEnvelope, form: Form) -> NeutralModel:
    """Return the model that rests on a lemma, of the solutions that cost less than ``below``."""
    known = LEMMAS.get(instance.problem, {})
    name, below = str(form.get("lemma")), form.get("below")
    if name not in known or type(below) is not int or not 0 < below < LARGEST_BELOW:
        raise InputError(
            f"form: must be a lemma of {instance.problem} ({', '.join(known) or 'none'}) and below,"
            f" a number of steps, not {str(dict(form))[:80]}"
        )
    made = known[name](instance, below, form)
    return _neutral(instance, [f"{name}: {made.lemma}"], made, {"below": below})


def _neutral(
    instance: InstanceEnvelope, lemmas: list[str], made: LemmaModel, below: dict[str, int]
) -> NeutralModel:
    data = {
        "format": "moeopt-model",
        "version": 2,
        "problem": instance.problem,
        "instance": instance.name,
        "instance_sha256": instance_hash(instance),
        "lemmas": lemmas,
        **below,
        "vars": made.variables,
        "rows": made.rows,
        "objective": made.objective,
        "constant": made.constant,
        "denominator": made.denominator,
        "grid": get_problem(instance.problem).grid(instance),
    }
    return NeutralModel(data, made.first, made.tighten, made.choice)


def _take_patterns(variables: list[list[Any]], lines: list[list[Any]], objective: set[int]) -> bool:
    """Describe what loads a device, and nothing else does, by the subset that is chosen.

    Of a row "at most the makespan" the binaries that stand in no other inequality, the experts on
    a DIMM's NDP unit say, get one new variable per subset, of which one is 1. Any choice of the
    binaries is one of the subsets, so that no solution is lost. Fractions of subsets say far more
    than fractions of binaries: a subset that is too long by itself is out.
    """
    limits = [row for row in lines if row[1] != "="]
    of = Counter(j for terms, *_ in limits for j, _ in terms)
    found = False
    for row in limits:
        terms = dict(map(tuple, row[0]))
        sign = 1 if row[1] == "<=" else -1
        own = [
            j
            for j, factor in terms.items()
            if of[j] == 1 and sign * factor > 0 and variables[j] == [0, 1, True]
        ]
        own = sorted(own, key=lambda j: (-abs(terms[j]), j))[:TOGETHER]
        if len(own) < 2 or not objective & terms.keys():
            continue
        found = True
        holders: dict[int, list[int]] = {j: [] for j in own}
        first = len(variables)
        for subset in chain.from_iterable(combinations(own, k) for k in range(len(own) + 1)):
            for j in subset:
                holders[j].append(len(variables))
            if load := sum(terms[j] for j in subset):
                row[0].append([len(variables), load])
            variables.append([0, 1, True])
        row[0] = [pair for pair in row[0] if pair[0] not in holders]
        lines.append([[[z, 1] for z in range(first, len(variables))], "=", 1, "patterns"])
        lines += [
            [[[j, -1], *([z, 1] for z in containing)], "=", 0, "patterns"]
            for j, containing in holders.items()
        ]
    return found


def _implied(rows: list[Row], whole: list[bool]) -> dict[int, Fraction]:
    """Find variables that a row fixes to a sum of whole numbers; they become whole numbers.

    Returns
    -------
    dict
        Of each, the step that it is a multiple of.
    """
    found: dict[int, Fraction] = {}
    for terms, least, most, _ in rows:
        open_ended = [j for j in terms if not whole[j]]
        if least is None or least != most or len(open_ended) != 1:
            continue
        j = open_ended[0]
        others = [c / terms[j] * found.get(k, 1) for k, c in terms.items() if k != j]
        found[j] = _divisor([*others, least / terms[j]]) or Fraction(1)
        whole[j] = True
    return found


def _divisor(numbers: Iterable[Fraction]) -> Fraction:
    """Return the largest number that all are multiples of; 0 if all are 0."""
    numbers = list(numbers)
    common = lcm(*(number.denominator for number in numbers))
    return Fraction(gcd(*(int(number * common) for number in numbers)), common)


def _lines(row: Row, step: dict[int, Fraction]) -> list[list[Any]]:
    """Return a row in integers without common divisor: one line per side that it has."""
    terms, least, most, constraint = row
    scaled = {j: c * step.get(j, 1) for j, c in terms.items() if c}
    unit = _divisor([*scaled.values(), *(side for side in (least, most) if side is not None)])
    if not scaled or not unit:
        return []
    pairs = [[j, int(c / unit)] for j, c in scaled.items()]
    if least == most and least is not None:
        return [[pairs, "=", int(least / unit), constraint]]
    lines = [] if least is None else [[pairs, ">=", int(least / unit), constraint]]
    return lines if most is None else [*lines, [pairs, "<=", int(most / unit), constraint]]


def _ends(low: int, high: int, unit: int, step: Fraction) -> tuple[int, int]:
    """Return a variable's bounds in steps, rounded outwards.

    Those of the MILP are doubles, which may lie further out: then they are taken, as certificates
    are stamped with them.
    """
    least = min(Fraction(low, unit), Fraction(low / unit))
    most = max(Fraction(high, unit), Fraction(high / unit))
    return floor(least / step), ceil(most / step)
