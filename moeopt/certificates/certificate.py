"""Check certificates of lower bounds: ``python certificate.py FILE...``.

This file imports the standard library alone. It reads models, which ``moeopt certificate model``
writes, and certificates, finds the model of each by its hash, and says which lower bound is proven.

Model (JSON, format "moeopt-model"): minimise ``(objective + constant) / denominator`` subject to

    rows  [[[variable, coefficient], ...], ">=" or "<=" or "=", right-hand side, constraint]
    vars  [[least or null, largest or null, whether it is a whole number], ...]

Every objective is a multiple of ``grid``. ``lemmas`` names what the model rests on beyond the
problem's constraints; the specification has them, and they are not checked here. With ``below`` it
has only solutions that cost less, and proves no bound above that.

Certificate (JSON, format "moeopt-certificate"): suppose a solution costs less than ``bound``, so at
most the next lower multiple of the grid, the cutoff. It lies in some leaf of the ``tree``. A leaf
contradicts it: ``[w, [[row, y], ...]]``, w >= 0, y >= 0 for rows ">=", y <= 0 for rows "<=", adds y
times the rows and w times the cutoff up to a row that nothing within the leaf's bounds satisfies
(Farkas; Neumaier and Shcherbina, Math. Program. 99, 2004). Before that, at most ``propagation``
times per node, bounds are tightened by a row. ``tree`` is in preorder: ``[variable, v]`` branches
on a whole number, the side ``x <= v`` first; ``[row, k, 1]`` on which variable of a row is 1, one
of the first k or another, if at most one can be; a number says which entry of ``leaves``
contradicts; -1, that tightening the bounds leaves nothing.

A certificate of ``parts`` relaxes rows with multipliers, ``relaxed``, in steps of 1/``scale``; the
parts share no variable and have ``vars``, ``bound`` times the scale, ``tree``, ``leaves`` each.
"""

import gzip
import hashlib
import json
import sys
import zlib
from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

MAX_BYTES, MAX_RATIO, MAX_GROWTH = 2**26, 200, 12  # of a file: its size, expanded, in memory
MAX_DIGITS = 60  # of any number
MAX_STEPS = 30_000_000  # terms of rows looked at for one certificate: about half a minute

Terms = list[Sequence[int]]  # variable, coefficient
Bounds = tuple[int, int | None, int | None]  # variable, least, largest


class RefusedError(Exception):
    """Why a file is no model, no certificate, or proves nothing; one line."""


class Model:
    """A model in integers, checked for form: ``least <= sum of terms <= most``; None: no limit."""

    def __init__(self, data: dict[str, Any]) -> None:
        if data.get("format") != "moeopt-model":
            raise RefusedError("format: must be moeopt-model or moeopt-certificate")
        self.sha256 = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
        self.problem, self.instance = str(data.get("problem")), str(data.get("instance"))
        self.lemmas = [str(one)[:200] for one in many(data, "lemmas")]
        variables = [listed(one, 3, f"vars[{n}]") for n, one in enumerate(many(data, "vars"))]
        self.lower = [None if one[0] is None else integer(one[0], "vars") for one in variables]
        self.upper = [None if one[1] is None else integer(one[1], "vars") for one in variables]
        self.whole = [one[2] is True for one in variables]
        self.terms, self.least, self.most = list[Terms](), list[int | None](), list[int | None]()
        for number, row in enumerate(many(data, "rows")):
            where = f"rows[{number}]"
            terms, sense, side, _ = listed(row, 4, where)
            if sense not in (">=", "<=", "="):
                raise RefusedError(f"{where}: the sense must be >=, <= or =")
            self.terms.append(self._terms(terms, where))
            self.least.append(None if sense == "<=" else integer(side, where))
            self.most.append(None if sense == ">=" else integer(side, where))
        self.objective = self._terms(many(data, "objective"), "objective")
        names = ("constant", "denominator", "grid")
        self.constant, self.denominator, self.grid = (integer(data.get(n), n) for n in names)
        if min(self.denominator, self.grid) < 1:
            raise RefusedError("denominator, grid: must be at least 1")
        self.below = None if data.get("below") is None else integer(data["below"], "below")

    def _terms(self, given: Any, where: str) -> Terms:
        """Return pairs of variable and coefficient, each variable at most once."""
        seen = set[int]()
        for term in given if isinstance(given, list) else [None]:
            variable, _ = (integer(one, where) for one in listed(term, 2, where))
            if not 0 <= variable < len(self.lower) or variable in seen:
                raise RefusedError(f"{where}: variable {variable} is unknown or stands twice")
            seen.add(variable)
        return [term for term in given if term[1]]  # the file's own lists, to save memory

    def part(self, rows: list[int], objective: Terms) -> "Model":
        """Return the model of some of the rows, with another objective."""
        part = copy(self)  # costs may be fractions: at most `bound`, not below, is refuted
        part.terms = [self.terms[row] for row in rows]
        part.least, part.most = ([of[row] for row in rows] for of in (self.least, self.most))
        part.objective, part.constant, part.denominator, part.grid = objective, -1, 1, 1
        return part

    def cutoff(self, bound: int) -> int:
        """Return the most that the sum of the objective's terms may be below a bound."""
        return (-(-bound // self.grid) - 1) * self.grid * self.denominator - self.constant

    def side(self, row: int, factor: int, where: str) -> int:
        """Return the side of a row that counts with a multiplier of this sign, times it."""
        known = 0 <= row < len(self.terms)
        side = (self.least if factor > 0 else self.most)[row] if known else None
        if side is None:
            raise RefusedError(f"{where}: row {row} is unknown, or its multiplier's sign is wrong")
        return factor * side


class Steps:
    """Counts the work, so that no file costs more than `MAX_STEPS`."""

    left = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Take some away; refuse if that is too much."""
        self.left -= steps + 1
        if self.left < 0:
            raise RefusedError("takes too many steps to check")


class Box:
    """Bounds of all variables at a node, tightened by rows and taken back; `empty` if none fit."""

    def __init__(self, model: Model, cutoff: int, steps: Steps, propagation: int) -> None:
        self.steps, self.propagation, self.empty = steps, propagation, False
        self.lower, self.upper, self.whole = list(model.lower), list(model.upper), model.whole
        self.trail: list[Bounds] = []  # bounds as they were before
        self.rows = list(zip(model.terms, model.least, model.most, strict=True))
        self.rows.append((model.objective, None, cutoff))
        self.rows_of: dict[int, list[int]] = {}
        steps.spend(len(self.lower))
        for row, (terms, _, _) in enumerate(self.rows):
            steps.spend(len(terms))
            for variable, _ in terms:
                self.rows_of.setdefault(variable, []).append(row)

    def branch(self, bounds: Iterable[Bounds]) -> None:
        """Take in bounds of variables, and tighten what follows from them."""
        changed = [one[0] for one in bounds if not self.empty and self._narrow(*one)]
        if self.propagation and not self.empty:
            self.tighten(row for variable in changed for row in self.rows_of.get(variable, ()))

    def restore(self, mark: int, empty: bool) -> None:
        """Take everything back since the trail had length `mark`."""
        while len(self.trail) > mark:
            variable, self.lower[variable], self.upper[variable] = self.trail.pop()
        self.empty = empty

    def tighten(self, rows: Iterable[int]) -> None:
        """Tighten bounds by rows, and by those that this touches, `propagation` at most."""
        queue = deque(rows)
        waiting = set(queue)
        for _ in range(self.propagation):
            if not queue or self.empty:
                return
            row = queue.popleft()
            waiting.discard(row)
            terms, least, most = self.rows[row]
            self.steps.spend(2 * len(terms))
            changed = [] if most is None else self._by_row(terms, 1, most)
            changed += [] if least is None or self.empty else self._by_row(terms, -1, -least)
            for variable in changed:
                queue.extend(one for one in self.rows_of[variable] if one not in waiting)
                waiting.update(self.rows_of[variable])

    def _narrow(self, variable: int, lower: int | None, upper: int | None) -> bool:
        """Take in bounds; return whether one is new."""
        low, high = self.lower[variable], self.upper[variable]
        new_low = low if lower is None or (low is not None and low >= lower) else lower
        new_high = high if upper is None or (high is not None and high <= upper) else upper
        if (new_low, new_high) == (low, high):
            return False
        self.trail.append((variable, low, high))
        self.lower[variable], self.upper[variable] = new_low, new_high
        self.empty = new_low is not None and new_high is not None and new_low > new_high
        return True

    def _by_row(self, terms: Terms, sign: int, side: int) -> list[int]:
        """Tighten by ``sum of sign * coefficient * x <= side``; return the variables changed."""
        least, alone = 0, None  # the least sum, but for a variable without bound, if it is one
        for variable, factor in terms:
            at = self.lower[variable] if sign * factor > 0 else self.upper[variable]
            if at is None and alone is not None:
                return []
            alone, least = (variable, least) if at is None else (alone, least + sign * factor * at)
        self.empty = alone is None and least > side
        changed: list[int] = []
        for variable, coefficient in () if self.empty else terms:
            factor = sign * coefficient
            if self.empty or alone not in (None, variable):
                continue
            at = self.lower[variable] if factor > 0 else self.upper[variable]
            room = side - least + (0 if at is None else factor * at)  # for factor * x
            value = room // abs(factor) if self.whole[variable] else -(-room // abs(factor))
            sides = (None, value) if factor > 0 else (-value, None)
            changed += [variable] * self._narrow(variable, *sides)
        return changed


def added(model: Model, steps: Steps, cutoff: int, leaf: Any, where: str) -> tuple[Terms, int]:
    """Return the row that multipliers add the rows up to: its terms, and their least sum."""
    weight, multipliers = listed(leaf, 2, where)
    if (weight := integer(weight, where)) < 0:
        raise RefusedError(f"{where}: w must not be negative")
    side = -weight * cutoff
    total = {variable: -weight * factor for variable, factor in model.objective if weight}
    for pair in many({where: multipliers}, where):
        row, factor = (integer(one, where) for one in listed(pair, 2, where))
        side += model.side(row, factor, where)
        steps.spend(len(model.terms[row]))
        for variable, coefficient in model.terms[row]:
            total[variable] = total.get(variable, 0) + factor * coefficient
    steps.spend(8 * len(total))  # what is kept is memory
    return [term for term in total.items() if term[1]], side


def contradicts(box: Box, terms: Terms, side: int) -> bool:
    """Tell whether nothing in the box satisfies a row."""
    box.steps.spend(len(terms))
    ends = [(factor, (box.upper if factor > 0 else box.lower)[v]) for v, factor in terms]
    return all(at is not None for _, at in ends) and sum(f * (at or 0) for f, at in ends) < side


def sides(model: Model, steps: Steps, node: Any, where: str) -> tuple[list[Bounds], list[Bounds]]:
    """Return the bounds of a branch's two sides; every point of whole numbers is in one."""
    first, value, *group = (integer(n, where) for n in listed(node, 2 + (len(node) == 3), where))
    if not group:
        if not 0 <= first < len(model.whole) or not model.whole[first]:
            raise RefusedError(f"{where}: {first} is no variable of whole numbers")
        return [(first, None, value)], [(first, value + 1, None)]
    terms = model.terms[first] if 0 <= first < len(model.terms) else []
    room = model.most[first] if terms else None
    steps.spend(len(terms))
    flags = [v for v, c in terms if c == 1 and model.whole[v] and model.lower[v] == 0]
    for variable, factor in set(map(tuple, terms)) - {(v, 1) for v in flags}:
        at = model.lower[variable] if factor > 0 else model.upper[variable]
        room = None if room is None or at is None else room - factor * at
    if room is None or room > 1 or value < 0:
        raise RefusedError(f"{where}: row {first} lets more than one of its variables be 1")
    return [(v, None, 0) for v in flags[value:]], [(v, None, 0) for v in flags[:value]]


def check_tree(model: Model, bound: int, proof: Any, steps: Steps, where: str = "") -> None:
    """Check that nothing costs less than `bound`; raise `RefusedError` if that is not shown."""
    cutoff, leaves = model.cutoff(bound), many(proof, "leaves")
    propagation = integer(proof.get("propagation"), f"{where}propagation")
    box = Box(model, cutoff, steps, min(max(propagation, 0), MAX_STEPS))
    box.tighten(range(len(box.rows)))
    pending: list[tuple[int, bool, list[Bounds]]] | None = []
    rows: dict[int, tuple[Terms, int]] = {}  # of leaves that were met before
    for number, node in enumerate(many(proof, "tree")):
        at = f"{where}tree[{number}]"
        steps.spend(0)
        if pending is None:
            raise RefusedError(f"{at}: stands after the tree's end")
        if isinstance(node, list):
            low, high = sides(model, steps, node, at)
            pending.append((len(box.trail), box.empty, high))
            box.branch(low)
            continue
        leaf = integer(node, at)
        if leaf not in rows and not box.empty:
            multipliers = leaves[leaf] if 0 <= leaf < len(leaves) else [0, []]
            rows[leaf] = added(model, steps, cutoff, multipliers, at)
        if not box.empty and not contradicts(box, *rows[leaf]):
            raise RefusedError(f"{at}: its multipliers contradict nothing")
        if pending:
            mark, empty, high = pending.pop()
            box.restore(mark, empty)
            box.branch(high)
        else:
            pending = None
    if pending is not None:
        raise RefusedError(f"{where}tree: ends too early")


def check_parts(model: Model, bound: int, proof: Any, steps: Steps) -> None:
    """Check a certificate of parts; raise `RefusedError` if it does not show the bound."""
    if (scale := integer(proof.get("scale"), "scale")) < 1:
        raise RefusedError("scale: must be at least 1")
    objective = {variable: scale * factor for variable, factor in model.objective}
    total, relaxed = scale * model.constant, set()
    for number, pair in enumerate(many(proof, "relaxed")):
        where = f"relaxed[{number}]"
        row, factor = (integer(one, where) for one in listed(pair, 2, where))
        total += model.side(row, factor, where)
        relaxed.add(row)
        steps.spend(len(model.terms[row]))
        for variable, coefficient in model.terms[row]:
            objective[variable] = objective.get(variable, 0) - factor * coefficient
    part_of, parts = dict[int, int](), many(proof, "parts")
    for number, part in enumerate(parts):
        for variable in many(part, "vars"):
            if not 0 <= integer(variable, "vars") < len(model.lower) or variable in part_of:
                raise RefusedError(f"parts[{number}].vars: one is unknown or in two parts")
            part_of[variable] = number
    rows_of: list[list[int]] = [[] for _ in parts]
    for row, terms in enumerate(model.terms):
        steps.spend(len(terms))
        homes = {part_of.get(variable, -1) for variable, _ in terms}
        if row not in relaxed and len(homes) == 1 and (home := homes.pop()) >= 0:
            rows_of[home].append(row)
    for number, part in enumerate(parts):
        costs: Terms = [(v, objective[v]) for v in part["vars"] if objective.get(v)]
        total += (least := integer(part.get("bound"), f"parts[{number}].bound"))
        check_tree(model.part(rows_of[number], costs), least, part, steps, f"parts[{number}].")
    for variable, factor in objective.items():
        if factor and variable not in part_of:
            at = model.lower[variable] if factor > 0 else model.upper[variable]
            total += factor * integer(at, f"parts: bound of variable {variable}, which is in none,")
    reached = -(-total // (scale * model.denominator * model.grid)) * model.grid
    if reached < bound:
        raise RefusedError(f"parts: prove {reached}, not {bound}")


def verify(model: Model, certificate: dict[str, Any]) -> int:
    """Return the bound that a certificate proves of a model; raise `RefusedError` if none."""
    if certificate.get("model_sha256") != model.sha256:
        raise RefusedError("model_sha256: is that of another model")
    bound, steps = integer(certificate.get("bound"), "bound"), Steps()
    if model.below is not None and bound > model.below:
        raise RefusedError(f"bound: the model is for what costs less than {model.below}")
    (check_parts if "parts" in certificate else check_tree)(model, bound, certificate, steps)
    return bound


def integer(value: Any, where: str) -> int:
    """Return a value that is an integer of at most `MAX_DIGITS` digits."""
    if type(value) is int and abs(value) < 10**MAX_DIGITS:
        return value
    raise RefusedError(f"{where}: must be an integer of at most {MAX_DIGITS} digits")


def listed(value: Any, length: int, where: str) -> list[Any]:
    """Return a value that is a list of so many items."""
    if isinstance(value, list) and len(value) == length:
        return value
    raise RefusedError(f"{where}: must be a list of {length}")


def many(data: Any, field: str) -> list[Any]:
    """Return a field that is a list."""
    if isinstance(data, dict) and isinstance(data.get(field), list):
        return list(data[field])
    raise RefusedError(f"{field}: must be a list")


def read(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file, plain or gzip, of bounded size."""
    most = MAX_BYTES
    try:
        if path.exists() and not path.is_file():  # but a pipe, that it would wait for
            raise OSError("is no regular file")
        with path.open("rb") as file:
            raw = file.read(most + 1)
        if raw[:2] == b"\x1f\x8b":
            most = min(MAX_BYTES, max(2**20, MAX_RATIO * len(raw)))
            with gzip.open(path) as file:
                raw = file.read(most + 1)
        if 96 * raw.count(b"[") + 232 * raw.count(b"{") > MAX_GROWTH * max(2**20, len(raw)):
            raise RefusedError("has too many lists and objects for its size")
        data = json.loads(raw) if len(raw) <= most else None
    except (OSError, EOFError, zlib.error) as error:
        raise RefusedError(f"cannot be read: {error}") from None
    except (ValueError, RecursionError):
        raise RefusedError("is no JSON") from None
    if isinstance(data, dict) and data.get("version") == 2:
        return data
    raise RefusedError(f"must be a certificate, an object of version 2, of at most {most} bytes")


def main(names: list[str]) -> int:
    """Check files, print a line for each certificate; return 2 if one is refused, else 0."""
    models, faults, certificates = dict[str, Model](), list[str](), list[tuple[str, Any]]()
    for name in names:
        try:
            data = read(Path(name))
            if data.get("format") == "moeopt-certificate":
                certificates.append((name, data))
            else:
                models.update({(model := Model(data)).sha256: model})
        except RefusedError as error:
            faults.append(ascii(f"{name}: {error}")[1:-1])
    for name, data in certificates:
        try:
            if (of := models.get(str(data.get("model_sha256")))) is None:
                raise RefusedError("model_sha256: its model is not among the files")
            proven = f"{of.problem}/{of.instance}: nothing costs less than {verify(of, data)}"
            print(ascii("; rests on: ".join([f"{name}: {proven}", *of.lemmas]))[1:-1])
        except RefusedError as error:
            faults.append(ascii(f"{name}: {error}")[1:-1])
    print(*faults, sep="\n", end="\n" * bool(faults), file=sys.stderr)
    return 2 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
