"""The MILP model of an instance in integers, in the neutral form that `certificate` reads.

The model that ``milp`` builds, and that `moeopt export` writes, has rows whose coefficients are
integers over a common denominator D, ns over the unit of its objective for instance. A double is
within half a unit in the last place of such a fraction; the fraction is found again as the multiple
of 1/D that is so near, which is unique as long as numerators stay below 2**50. Rows without such a
D are left out, which can only lower the bound.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations
from math import gcd, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.certificates.lemmas import LEMMAS
from moeopt.certificates.lemmas.rows import LemmaModel
from moeopt.core.clock import TimeLimitError, checkpoint
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.matrix import to_matrix
from moeopt.core.safe_bound import Ints
from moeopt.problems.registry import get_problem

LARGEST = 2**50
"""Largest numerator: the nearest multiple of 1/D to a double is the one that was meant."""

NEAR = 2.0**-50
"""Relative: two divisions in floats are off by less."""

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
        If the objective's coefficients have no common denominator that keeps them exact, or the
        form is unknown.
    """
    problem = get_problem(instance.problem)
    if form is not None:
        return _by_lemma(instance, form)
    built = problem.milp()(instance)
    size, known = _size(built.model), 0

    def look() -> None:
        nonlocal size, known
        size = _size(built.model) or size  # it has none once it is a MILP
        if size * ITEM_WORK > limit:
            raise TimeLimitError
        known, more = size, size - known
        checkpoint(more * ITEM_WORK)

    look()
    built.post((), look)
    matrix = to_matrix(built.model, lambda: checkpoint(0.0))
    p = matrix.program
    denominators = _denominators(built.objective_unit, getattr(built, "denominators", ()))
    cost = _fractions(np.append(p.cost, p.constant), denominators)
    if cost is None:
        raise InputError(f"{instance.name}: the MILP model's costs are no exact fractions")
    rows = []
    for number, constraint in enumerate(built.model.constraints()):
        checkpoint(0.0)
        part = slice(p.rows.indptr[number], p.rows.indptr[number + 1])
        sides = [side for side in (p.row_lower[number], p.row_upper[number]) if np.isfinite(side)]
        numbers = _fractions(np.append(p.rows.data[part], sides), denominators)
        if numbers is not None:
            terms = dict(zip(p.rows.indices[part].tolist(), numbers, strict=False))
            least = numbers[len(terms)] if np.isfinite(p.row_lower[number]) else None
            most = numbers[-1] if np.isfinite(p.row_upper[number]) else None
            constraint_id = "-".join(str(constraint.name).split("_")[:2])
            rows.append((terms, least, most, constraint_id))
    whole = p.integer.astype(bool).tolist()
    step = _implied(rows, whole)
    first = list(step)
    for j, name in enumerate(matrix.names):
        if not whole[j] and (unit_of := getattr(built, "units", {}).get(name)):
            step[j], whole[j] = Fraction(1, unit_of), True
    objective = [(j, c * step.get(j, 1)) for j, c in enumerate(cost[:-1]) if c]
    unit = Fraction(built.objective_unit)
    common = lcm(*(int((c * unit).denominator) for _, c in objective))
    variables = [
        [_side(p.lower[j], step.get(j), np.floor), _side(p.upper[j], step.get(j), np.ceil), one]
        for j, one in enumerate(whole)
    ]
    lines = [line for row in rows for line in _lines(row, step)]
    taken = _take_patterns(variables, lines, {j for j, _ in objective})
    costs = [[j, int(c * unit * common)] for j, c in objective]
    constant = int(cost[-1] * unit * common)
    made = LemmaModel("", variables, lines, costs, constant, common, first)
    return _neutral(instance, [PATTERNS] if taken else [], made, {})


def _size(model: Any) -> int:
    """Return how many variables and rows a CP-SAT model has so far; 0 for one of PuLP."""
    proto = getattr(model, "proto", None)
    return 0 if proto is None else len(proto.variables) + len(proto.constraints)


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
        "grid": get_problem(instance.problem).bounds.objective_grid(instance),
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


def _side(value: float, step: Fraction | None, rounding: Any) -> int | None:
    """Return a variable's bound, rounded outwards, or None where there is none."""
    if not np.isfinite(value):
        return None
    exact = Fraction(float(value)) / (step or 1)
    return int(-(-exact // 1)) if rounding is np.ceil else int(exact // 1)


def _denominators(unit: int, others: Iterable[int]) -> list[int]:
    """Return what may be a row's denominator, the least first."""
    bases = (1, unit, *(unit * 10**k for k in range(1, 4)), *(10**k for k in range(1, 13)))
    return sorted({base * factor for base in (*bases, *others) for factor in (1, 2)})


def _fractions(numbers: NDArray[np.float64], denominators: Iterable[int]) -> list[Fraction] | None:
    """Return numbers as fractions over the least denominator of which all are multiples."""
    for denominator in denominators:
        scaled = numbers * float(denominator)
        whole: Ints = np.rint(scaled)
        if (np.abs(scaled - whole) <= NEAR * np.abs(scaled)).all():
            if (np.abs(scaled) >= LARGEST).any():
                return None
            return [Fraction(int(one), denominator) for one in whole]
    return None
